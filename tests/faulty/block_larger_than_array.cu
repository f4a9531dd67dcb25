// The shared array is sized for blocks of 64 threads; the launch has 128.
// topic: out of bounds in shared memory
// launch: grid 1, block 128
// arg x: int[128] = iota
// arg y: int[128] = zeros
// fault: out_of_bounds
__global__ void stage(const int *x, int *y)
{
    __shared__ int s[64];

    s[threadIdx.x] = x[threadIdx.x]; // HERE
    __syncthreads();
    y[threadIdx.x] = s[threadIdx.x] + s[0]; // ALSO
}
