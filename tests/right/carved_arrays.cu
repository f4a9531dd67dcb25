// One dynamic allocation divided into doubles, ints and bytes, the largest alignment first.
// launch: grid 1, block 33, shared 429
// arg x: int[33] = iota
// arg y: double[33] = zeros
// arg n: 33
__global__ void mirror_in_three(const int *x, double *y, int n)
{
    extern __shared__ double memory[];
    double *halves = memory;       // (n,)
    int *ints = (int *)&halves[n]; // (n,)
    char *odd = (char *)&ints[n];  // (n,)
    const int t = threadIdx.x, m = n - 1 - t;

    halves[t] = 0.5 * x[t];
    ints[t] = x[t];
    odd[t] = x[t] % 2;
    __syncthreads();
    y[t] = halves[m] + 100 * ints[m] + (odd[m] ? 0.25 : 0);
}
