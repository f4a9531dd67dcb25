// The tile is loaded before the wait, as a prologue: but it is what the launch before writes.
// topic: dependent launch
// launch: grid 4, block 64
// chain: squares(x, y), differences(y, z)
// arg x: int[256] = random
// arg y: int[256] = zeros
// arg z: int[256] = zeros
// fault: race RAW

__global__ void squares(const int *x, int *y)
{
    const int i = blockIdx.x * blockDim.x + threadIdx.x;

    cudaTriggerProgrammaticLaunchCompletion();
    y[i] = x[i] * x[i]; // THERE
}

__global__ void differences(const int *y, int *z)
{
    __shared__ int s[65];
    const int i = blockIdx.x * blockDim.x + threadIdx.x;

    s[threadIdx.x] = y[i]; // HERE
    if (threadIdx.x == 63)
        s[64] = y[(i + 1) % 256]; // ALSO
    asm volatile("griddepcontrol.wait;" ::: "memory");
    asm volatile("griddepcontrol.launch_dependents;");
    __syncthreads();
    z[i] = s[threadIdx.x + 1] - s[threadIdx.x];
}
