// The second launch clears an array for later before the first one has read it.
// topic: dependent launch
// launch: grid 4, block 64
// chain: squares(x, y), cleared(x, y, z)
// arg x: int[256] = random
// arg y: int[256] = zeros
// arg z: int[256] = zeros
// fault: race WAR

__global__ void squares(const int *x, int *y)
{
    const int i = blockIdx.x * blockDim.x + threadIdx.x;

    cudaTriggerProgrammaticLaunchCompletion();
    y[i] = x[i] * x[i]; // THERE
}

__global__ void cleared(int *x, const int *y, int *z)
{
    const int i = blockIdx.x * blockDim.x + threadIdx.x;

    x[i] = 0; // HERE
    cudaGridDependencySynchronize();
    z[i] = y[i] + 1;
}
