// A few threads load the filter into shared memory, and the others wait for them.
// topic: missing barrier
// launch: grid 2, block 64
// arg x: float[132] = random
// arg weights: float[5] = random
// arg y: float[128] = zeros
__global__ void filter(const float *x, const float *weights, float *y)
{
    __shared__ float w[5];
    const int i = blockIdx.x * blockDim.x + threadIdx.x;

    if (threadIdx.x < 5)
        w[threadIdx.x] = weights[threadIdx.x];
    __syncthreads();

    float sum = 0;
    for (int j = 0; j < 5; j++)
        sum += w[j] * x[i + j];
    y[i] = sum;
}
