// The const of a table in constant memory is cast away, and the kernel writes to it.
// topic: constant memory
// launch: grid 1, block 32
// arg y: float[32] = zeros
// fault: out_of_bounds
__constant__ float weights[32] = {1, 2, 3};
__device__ float largest = 0;

__device__ void scale(const float *w, float factor)
{
    *(float *)w *= factor; // HERE
}

__global__ void weigh(float *y)
{
    y[threadIdx.x] = weights[threadIdx.x] + largest;
    scale(&weights[threadIdx.x], 2);
}
