// The whole block takes the same branch, by the result of a voting barrier.
// launch: grid 2, block 64
// arg x: float[128] = iota
// arg y: float[128] = zeros
__global__ void clip_block(const float *x, float *y)
{
    __shared__ float s[64];
    const int t = threadIdx.x, i = blockIdx.x * 64 + t;

    s[t] = x[i];
    if (__syncthreads_or(x[i] > 100)) {
        const float mirrored = s[63 - t];
        y[i] = mirrored > 100 ? 100 : mirrored;
    } else {
        y[i] = s[t];
    }
    if (__syncthreads_and(s[t] >= 64))
        y[i] += 1000;
}
