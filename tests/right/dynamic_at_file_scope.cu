// All kernels of the file share one declaration of the dynamic array, as bytes, and cast it where they use it.
// launch: grid 2, block 32, shared 384
// kernel: reverse
// arg x: double[64] = iota
extern __shared__ __align__(sizeof(double)) char raw[];

__device__ double &slot(int i)
{
    return reinterpret_cast<double *>(raw)[i];
}

__global__ void reverse(double *x)
{
    float *copies = reinterpret_cast<float *>(raw + 32 * sizeof(double));
    const int t = threadIdx.x, first = blockIdx.x * 32;

    slot(t) = x[first + t];
    copies[t] = (float)x[first + t];
    __syncthreads();
    x[first + t] = slot(31 - t) + copies[31 - t];
}

__global__ void rotate(int *x)
{
    int *s = (int *)raw;

    s[threadIdx.x] = x[threadIdx.x];
    __syncthreads();
    x[threadIdx.x] = s[(threadIdx.x + 1) % blockDim.x];
}
