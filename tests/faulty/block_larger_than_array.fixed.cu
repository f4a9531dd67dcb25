// The shared array is sized for the block that is launched.
// topic: out of bounds in shared memory
// launch: grid 1, block 128
// arg x: int[128] = iota
// arg y: int[128] = zeros
__global__ void stage(const int *x, int *y)
{
    __shared__ int s[128];

    s[threadIdx.x] = x[threadIdx.x];
    __syncthreads();
    y[threadIdx.x] = s[threadIdx.x] + s[0];
}
