// Two warpgroups ask for more registers than the third one gives back: they wait for ever.
// topic: warp specialisation
// launch: grid 2, block 384
// arg x: float[512] = random
// arg y: float[2] = zeros
// fault: hang
__global__ void __launch_bounds__(384, 1) sums(const float *x, float *y)
{
    __shared__ float tile[256], partial[8];
    const int t = threadIdx.x, warp = t / 32;
    float sum;

    if (t < 128) { // the producer
        asm volatile("setmaxnreg.dec.sync.aligned.u32 40;");
        for (int i = t; i < 256; i += 128)
            tile[i] = x[256 * blockIdx.x + i];
        asm volatile("barrier.arrive 1, 384;" ::: "memory");
        return;
    }
    asm volatile("setmaxnreg.inc.sync.aligned.u32 240;"); // HERE
    asm volatile("barrier.sync 1, 384;" ::: "memory");
    sum = tile[t - 128];
    for (int step = 16; step > 0; step /= 2)
        sum += __shfl_xor_sync(0xffffffff, sum, step);
    if (t % 32 == 0)
        partial[warp - 4] = sum;
    asm volatile("barrier.sync 2, 256;" ::: "memory");
    if (t == 128)
        for (int i = 0; i < 8; i++)
            y[blockIdx.x] += partial[i];
}
