// All four warps of a warpgroup give back registers.
// launch: grid 2, block 128
// arg x: float[256] = random
// arg y: float[256] = zeros
__global__ void copy(const float *x, float *y)
{
    const int i = blockIdx.x * blockDim.x + threadIdx.x;

    if (threadIdx.x < 128)
        asm volatile("setmaxnreg.dec.sync.aligned.u32 40;");
    y[i] = x[i];
}
