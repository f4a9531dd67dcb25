// An inclusive scan between two arrays, with one barrier per step.
// launch: grid 1, block 96, shared 768
// arg x: int[96] = iota
// arg n: 96
__global__ void hillis_steele(int *x, int n)
{
    extern __shared__ int temp[]; // (2, n)
    int t = threadIdx.x, out = 0, in = 1;

    temp[out * n + t] = x[t];
    __syncthreads();
    for (int offset = 1; offset < n; offset *= 2) {
        out = 1 - out;
        in = 1 - out;
        if (t >= offset)
            temp[out * n + t] = temp[in * n + t] + temp[in * n + t - offset];
        else
            temp[out * n + t] = temp[in * n + t];
        __syncthreads();
    }
    x[t] = temp[out * n + t];
}
