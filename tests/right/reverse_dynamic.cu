// A block reverses its elements through a dynamic array, whose size is set at launch.
// launch: grid 1, block 48, shared 192
// arg d: int[48] = iota
// arg n: 48
__global__ void dynamicReverse(int *d, int n)
{
    extern __shared__ int s[];
    int t = threadIdx.x;

    s[t] = d[t];
    __syncthreads();
    d[t] = s[n - t - 1];
}
