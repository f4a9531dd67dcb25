// An atomic maximum of floats, by compare-and-swap on their bits.
// launch: grid 3, block 32
// arg x: float[96] = random
// arg most: float[1] = -100
__device__ float atomicMaxFloat(float *address, float value)
{
    int *bits = (int *)address, old = atomicAdd(bits, 0), assumed;

    do {
        assumed = old;
        old = atomicCAS(bits, assumed, __float_as_int(fmaxf(value, __int_as_float(assumed))));
    } while (assumed != old);
    return __int_as_float(old);
}

__global__ void maximum(const float *x, float *most)
{
    float value = x[blockIdx.x * blockDim.x + threadIdx.x];

    for (int offset = 16; offset > 0; offset /= 2)
        value = fmaxf(value, __shfl_xor_sync(0xffffffff, value, offset));
    if (threadIdx.x == 0)
        atomicMaxFloat(most, value);
}
