// One extern array that is divided in two.
// topic: dynamic shared memory
// launch: grid 1, block 64, shared 512
// arg x: float[64] = random
// arg y: float[64] = random
// arg z: float[64] = zeros
extern __shared__ float first[];

__global__ void convolve(const float *x, const float *y, float *z)
{
    const int t = threadIdx.x, n = blockDim.x;
    float *second = first + n;
    float sum = 0;

    first[t] = x[t];
    second[n - 1 - t] = y[t];
    __syncthreads();
    for (int i = 0; i < n; i++)
        sum += first[i] * second[(i + t) % n];
    z[t] = sum;
}
