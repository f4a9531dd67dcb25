// A device function writes more elements than the local array has.
// topic: local arrays
// launch: grid 1, block 32
// arg y: int[32] = zeros
// arg n: 12
// fault: out_of_bounds
__device__ void powers(int *x, int n, int base)
{
    for (int i = 0, p = 1; i < n; i++, p *= base)
        x[i] = p;
}

__global__ void sums_of_powers(int *y, int n)
{
    int x[8], sum = 0;

    powers(x, n, threadIdx.x);
    for (int i = 0; i < 8; i++)
        sum += x[i];
    y[threadIdx.x] = sum;
} // HERE
