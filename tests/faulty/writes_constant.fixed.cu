// A table that the kernel changes is in global memory.
// topic: constant memory
// launch: grid 1, block 32
// arg y: float[32] = zeros
__device__ float weights[32] = {1, 2, 3};
__device__ float largest = 0;

__device__ void scale(const float *w, float factor)
{
    *(float *)w *= factor;
}

__global__ void weigh(float *y)
{
    y[threadIdx.x] = weights[threadIdx.x] + largest;
    scale(&weights[threadIdx.x], 2);
}
