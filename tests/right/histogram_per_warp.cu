// A histogram per warp, so that warps do not contend for atomics; they are added up at the end.
// launch: grid 2, block 128
// arg x: int[2048] = iota
// arg n: 2048
// arg histogram: int[32] = zeros
__global__ void count(const int *x, int n, int *histogram)
{
    __shared__ int bins[4][32 + 1];
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;

    bins[warp][lane] = 0;
    __syncwarp();
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x)
        atomicAdd(&bins[warp][x[i] * 7 % 32], 1);
    __syncthreads();
    if (warp == 0) {
        int sum = 0;
        for (int w = 0; w < 4; w++)
            sum += bins[w][lane];
        atomicAdd(&histogram[lane], sum);
    }
}
