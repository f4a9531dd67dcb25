// An inclusive scan in one array: in each step all threads read, a barrier, all write, a barrier.
// launch: grid 2, block 128
// arg x: int[256] = iota
__global__ void kogge_stone(int *x)
{
    __shared__ int s[128];
    const int t = threadIdx.x, i = blockIdx.x * 128 + t;

    s[t] = x[i];
    for (int stride = 1; stride < blockDim.x; stride *= 2) {
        __syncthreads();
        int left = 0;
        if (t >= stride)
            left = s[t - stride];
        __syncthreads();
        s[t] += left;
    }
    x[i] = s[t];
}
