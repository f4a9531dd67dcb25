// A work-efficient scan: sums up the tree, then prefixes down the tree.
// launch: grid 1, block 64, shared 512
// arg x: int[128] = iota
// arg y: int[128] = zeros
// arg n: 128
__global__ void prescan(const int *x, int *y, int n)
{
    extern __shared__ int temp[];
    int t = threadIdx.x, offset = 1;

    temp[2 * t] = x[2 * t];
    temp[2 * t + 1] = x[2 * t + 1];
    for (int d = n >> 1; d > 0; d >>= 1) {
        __syncthreads();
        if (t < d)
            temp[offset * (2 * t + 2) - 1] += temp[offset * (2 * t + 1) - 1];
        offset *= 2;
    }
    if (t == 0)
        temp[n - 1] = 0;
    for (int d = 1; d < n; d *= 2) {
        offset >>= 1;
        __syncthreads();
        if (t < d) {
            int left = offset * (2 * t + 1) - 1, right = offset * (2 * t + 2) - 1;
            int kept = temp[left];
            temp[left] = temp[right];
            temp[right] += kept;
        }
    }
    __syncthreads();
    y[2 * t] = temp[2 * t];
    y[2 * t + 1] = temp[2 * t + 1];
}
