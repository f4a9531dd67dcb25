// A stencil overwrites its input: at a block's edge the neighbour may already be overwritten.
// topic: in place
// launch: grid 2, block 64
// arg x: float[130] = random
// arg y: float[130] = zeros
// fault: race
__global__ void smooth(float *x, float *y)
{
    __shared__ float s[64 + 2];
    const int t = threadIdx.x, i = blockIdx.x * 64 + t + 1;

    s[t + 1] = x[i];
    if (t == 0)
        s[0] = x[i - 1]; // THERE
    if (t == 63)
        s[65] = x[i + 1]; // ALSO
    __syncthreads();
    x[i] = (s[t] + s[t + 1] + s[t + 2]) / 3; // HERE
}
