// Magnitudes: the sign bit of a float in shared memory is cleared through a pointer to unsigned.
// launch: grid 1, block 32
// arg x: float[32] = random
// arg y: float[32] = zeros
__device__ float without_sign(float *x)
{
    float before = *x;
    *reinterpret_cast<unsigned *>(x) &= 0x7fffffffu;
    return *x + 0.0f * before;
}

__global__ void magnitudes(float *x, float *y)
{
    __shared__ float s[32];
    const int t = threadIdx.x;

    s[t] = -x[t];
    y[t] = without_sign(&s[t]);
}
