// The halo is loaded after the barrier that should wait for it.
// topic: halo
// launch: grid 2, block 64
// arg x: float[134] = random
// arg y: float[128] = zeros
// fault: race RAW
#define RADIUS 3

__global__ void stencil(const float *x, float *y)
{
    __shared__ float s[64 + 2 * RADIUS];
    const int t = threadIdx.x, first = blockIdx.x * 64;

    s[t] = x[first + t];
    __syncthreads();
    if (t < 2 * RADIUS)
        s[64 + t] = x[first + 64 + t]; // THERE

    float sum = 0;
    for (int j = 0; j <= 2 * RADIUS; j++)
        sum += s[t + j]; // HERE
    y[first + t] = sum;
}
