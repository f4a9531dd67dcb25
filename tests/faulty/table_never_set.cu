// A pointer in device memory that is never set.
// topic: out of bounds in global memory
// launch: grid 1, block 32
// arg x: int[32] = iota
// arg y: float[32] = zeros
// fault: out_of_bounds
__device__ const float *table;

__global__ void look_up(const int *x, float *y)
{
    y[threadIdx.x] = table[x[threadIdx.x] % 4]; // HERE
}
