// Gauss-Jordan elimination by one block: all threads read the pivot's row, which does not change meanwhile.
// launch: grid 1, block 6x5
// arg a: double[5, 6] = random
__global__ void solve(double *a)
{
    __shared__ double s[5][6];
    const int column = threadIdx.x, row = threadIdx.y;

    s[row][column] = a[row * 6 + column] + (row == column ? 4 : 0);
    __syncthreads();
    for (int pivot = 0; pivot < 5; pivot++) {
        const double factor = s[row][pivot] / s[pivot][pivot], above = s[pivot][column];
        __syncthreads();
        if (row != pivot)
            s[row][column] -= factor * above;
        __syncthreads();
    }
    if (column == 5)
        a[row * 6 + column] = s[row][5] / s[row][row];
}
