// What persists from one launch to the next: the first kernel writes, the second one reads.

__device__ int device_variable[64];

__global__ void write_global(int *x)
{
    x[threadIdx.x] = threadIdx.x + 1;
}

__global__ void read_global(const int *x, int *y)
{
    y[threadIdx.x] = x[threadIdx.x];
}

__global__ void write_variable(int *x)
{
    device_variable[threadIdx.x] = threadIdx.x + 1;
}

__global__ void read_variable(const int *x, int *y)
{
    y[threadIdx.x] = device_variable[threadIdx.x];
}

__global__ void write_shared(int *x)
{
    __shared__ int kept[64];

    kept[threadIdx.x] = threadIdx.x + 1;
    x[threadIdx.x] = kept[threadIdx.x];
}

// Shared memory belongs to a block: what an earlier block wrote is not there for this one.
__global__ void read_shared(const int *x, int *y)
{
    __shared__ int kept[64];

    y[threadIdx.x] = kept[threadIdx.x];
}
