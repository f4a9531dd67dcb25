// A block reverses its elements through a static array, with a barrier in between.
// launch: grid 1, block 64
// arg d: int[64] = iota
// arg n: 64
#include <stdio.h>

__global__ void staticReverse(int *d, int n)
{
    __shared__ int s[64];
    int t = threadIdx.x;
    int tr = n - t - 1;

    s[t] = d[t];
    __syncthreads();
    d[t] = s[tr];
}

int main(void)
{
    const int n = 64;
    int a[n], *d_d;

    for (int i = 0; i < n; i++)
        a[i] = i;
    cudaMalloc(&d_d, n * sizeof(int));
    cudaMemcpy(d_d, a, n * sizeof(int), cudaMemcpyHostToDevice);
    staticReverse<<<1, n>>>(d_d, n);
    cudaMemcpy(a, d_d, n * sizeof(int), cudaMemcpyDeviceToHost);
    for (int i = 0; i < n; i++)
        if (a[i] != n - i - 1)
            printf("wrong at %d\n", i);
    cudaFree(d_d);
    return 0;
}
