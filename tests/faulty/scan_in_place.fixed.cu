// In each step of a scan, all threads read before any thread writes.
// topic: in place
// launch: grid 1, block 128
// arg x: int[128] = iota
__global__ void inclusive_scan(int *x)
{
    __shared__ int s[128];
    const int t = threadIdx.x;

    s[t] = x[t];
    __syncthreads();
    for (int offset = 1; offset < 128; offset *= 2) {
        const int left = t >= offset ? s[t - offset] : 0;
        __syncthreads();
        s[t] += left;
        __syncthreads();
    }
    x[t] = s[t];
}
