// The same scan with one element of padding after every 32, against bank conflicts.
// launch: grid 2, block 64
// arg x: float[256] = random
// arg y: float[256] = zeros
#define PADDED(i) ((i) + ((i) >> 5))

__global__ void exclusive_scan(const float *x, float *y)
{
    __shared__ float s[PADDED(128)];
    const int t = threadIdx.x, first = blockIdx.x * 128;

    s[PADDED(t)] = x[first + t];
    s[PADDED(t + 64)] = x[first + t + 64];
    int step = 1;
    for (int active = 64; active > 0; active /= 2, step *= 2) {
        __syncthreads();
        if (t < active) {
            const int right = step * (2 * t + 2) - 1;
            s[PADDED(right)] += s[PADDED(right - step)];
        }
    }
    if (t == 0)
        s[PADDED(127)] = 0;
    for (int active = 1; active <= 64; active *= 2) {
        step /= 2;
        __syncthreads();
        if (t < active) {
            const int right = step * (2 * t + 2) - 1;
            const float left = s[PADDED(right - step)];
            s[PADDED(right - step)] = s[PADDED(right)];
            s[PADDED(right)] += left;
        }
    }
    __syncthreads();
    y[first + t] = s[PADDED(t)];
    y[first + t + 64] = s[PADDED(t + 64)];
}
