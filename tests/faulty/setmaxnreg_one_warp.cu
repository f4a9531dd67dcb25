// One warp of a warpgroup gives back registers.
// topic: warp specialisation
// launch: grid 2, block 128
// arg x: float[256] = random
// arg y: float[256] = zeros
// fault: barrier
__global__ void copy(const float *x, float *y)
{
    const int i = blockIdx.x * blockDim.x + threadIdx.x;

    if (threadIdx.x < 32)
        asm volatile("setmaxnreg.dec.sync.aligned.u32 40;"); // HERE
    y[i] = x[i];
}
