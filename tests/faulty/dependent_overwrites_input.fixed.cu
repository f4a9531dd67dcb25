// The second launch clears the array after the wait.
// launch: grid 4, block 64
// chain: squares(x, y), cleared(x, y, z)
// arg x: int[256] = random
// arg y: int[256] = zeros
// arg z: int[256] = zeros

__global__ void squares(const int *x, int *y)
{
    const int i = blockIdx.x * blockDim.x + threadIdx.x;

    cudaTriggerProgrammaticLaunchCompletion();
    y[i] = x[i] * x[i];
}

__global__ void cleared(int *x, const int *y, int *z)
{
    const int i = blockIdx.x * blockDim.x + threadIdx.x;

    cudaGridDependencySynchronize();
    x[i] = 0;
    z[i] = y[i] + 1;
}
