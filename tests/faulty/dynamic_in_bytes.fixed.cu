// The size of the dynamic shared memory is given in bytes.
// topic: dynamic shared memory
// launch: grid 1, block 128, shared 512
// arg x: int[128] = iota
__global__ void reverse(int *x)
{
    extern __shared__ int s[];
    const int t = threadIdx.x;

    s[t] = x[t];
    __syncthreads();
    x[t] = s[blockDim.x - 1 - t];
}
