// Several kernels in one file, with a helper, a constant and a macro; the launch names one of them.
// launch: grid 2, block 32
// kernel: scale_and_shift
// arg x: float[64] = iota
// arg factor: 0.5
#define SQUARE(a) ((a) * (a))
__constant__ float offset = 3.0f;

__host__ __device__ float shifted(float value)
{
    return value + SQUARE(2.0f);
}

__global__ void clear(float *x)
{
    x[blockIdx.x * blockDim.x + threadIdx.x] = 0;
}

__global__ void scale_and_shift(float *x, float factor)
{
    const int i = blockIdx.x * blockDim.x + threadIdx.x;

    x[i] = factor * shifted(x[i]) + offset;
}
