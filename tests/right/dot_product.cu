// A dot product as in books: a cache in shared memory, and the host adds up the blocks' sums.
// launch: grid 4, block 256
// arg a: float[3000] = iota
// arg b: float[3000] = random
// arg c: float[4] = zeros
#include <stdio.h>
#include <stdlib.h>

#define imin(a, b) (a < b ? a : b)

const int N = 3000;
const int threadsPerBlock = 256;
const int blocksPerGrid = imin(4, (N + threadsPerBlock - 1) / threadsPerBlock);

__global__ void dot(float *a, float *b, float *c)
{
    __shared__ float cache[threadsPerBlock];
    int tid = threadIdx.x + blockIdx.x * blockDim.x;
    int cacheIndex = threadIdx.x;
    float temp = 0;

    while (tid < N) {
        temp += a[tid] * b[tid];
        tid += blockDim.x * gridDim.x;
    }
    cache[cacheIndex] = temp;
    __syncthreads();
    int i = blockDim.x / 2;
    while (i != 0) {
        if (cacheIndex < i)
            cache[cacheIndex] += cache[cacheIndex + i];
        __syncthreads();
        i /= 2;
    }
    if (cacheIndex == 0)
        c[blockIdx.x] = cache[0];
}

int main(void)
{
    float *a = (float *)malloc(N * sizeof(float)), *b = (float *)malloc(N * sizeof(float));
    float *partial = (float *)malloc(blocksPerGrid * sizeof(float)), sum = 0;
    float *dev_a, *dev_b, *dev_partial;

    cudaMalloc((void **)&dev_a, N * sizeof(float));
    cudaMalloc((void **)&dev_b, N * sizeof(float));
    cudaMalloc((void **)&dev_partial, blocksPerGrid * sizeof(float));
    for (int i = 0; i < N; i++) {
        a[i] = i;
        b[i] = i * 2;
    }
    cudaMemcpy(dev_a, a, N * sizeof(float), cudaMemcpyHostToDevice);
    cudaMemcpy(dev_b, b, N * sizeof(float), cudaMemcpyHostToDevice);
    dot<<<blocksPerGrid, threadsPerBlock>>>(dev_a, dev_b, dev_partial);
    cudaMemcpy(partial, dev_partial, blocksPerGrid * sizeof(float), cudaMemcpyDeviceToHost);
    for (int i = 0; i < blocksPerGrid; i++)
        sum += partial[i];
    printf("the dot product is %g\n", sum);
    cudaFree(dev_a);
    cudaFree(dev_b);
    cudaFree(dev_partial);
    free(a);
    free(b);
    free(partial);
}
