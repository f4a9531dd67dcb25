// A grid-stride loop: any number of elements with any number of threads.
// launch: grid 3, block 50
// arg n: 1000
// arg a: 3
// arg x: float[1000] = iota
// arg y: float[1000] = iota
__global__ void saxpy(int n, float a, float *x, float *y)
{
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += blockDim.x * gridDim.x)
        y[i] = a * x[i] + y[i];
}
