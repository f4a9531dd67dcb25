// In each step of a scan, threads add to elements that their neighbours read.
// topic: in place
// launch: grid 1, block 128
// arg x: int[128] = iota
// fault: race
__global__ void inclusive_scan(int *x)
{
    __shared__ int s[128];
    const int t = threadIdx.x;

    s[t] = x[t];
    __syncthreads();
    for (int offset = 1; offset < 128; offset *= 2) {
        if (t >= offset)
            s[t] += s[t - offset]; // HERE
        __syncthreads();
    }
    x[t] = s[t];
}
