// The size of the dynamic shared memory is given in elements, not in bytes.
// topic: dynamic shared memory
// launch: grid 1, block 128, shared 128
// arg x: int[128] = iota
// fault: out_of_bounds
__global__ void reverse(int *x)
{
    extern __shared__ int s[];
    const int t = threadIdx.x;

    s[t] = x[t]; // HERE
    __syncthreads();
    x[t] = s[blockDim.x - 1 - t]; // ALSO
}
