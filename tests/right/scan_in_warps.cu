// Each warp scans its own part of the array, with __syncwarp between reads and writes and without barriers.
// launch: grid 1, block 96
// arg x: int[96] = iota
__global__ void scan_parts(int *x)
{
    __shared__ int s[3][32];
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;

    s[warp][lane] = x[threadIdx.x];
    __syncwarp();
    for (int delta = 1; delta < 32; delta *= 2) {
        const int left = lane >= delta ? s[warp][lane - delta] : 0;
        __syncwarp();
        s[warp][lane] += left;
        __syncwarp();
    }
    x[threadIdx.x] = s[warp][lane] + (lane < 31 ? 1000 * s[warp][31] : 0);
}
