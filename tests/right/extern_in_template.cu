// Instances of a template share one dynamic array; each sees it as its own type.
// launch: grid 2, block 32, shared 256
// kernel: rotate<double>
// arg x: double[64] = iota
template <typename T>
__device__ T *shared_memory()
{
    extern __shared__ __align__(16) unsigned char raw[];
    return reinterpret_cast<T *>(raw);
}

template <typename T>
__global__ void rotate(T *x)
{
    T *s = shared_memory<T>();
    const int t = threadIdx.x;

    s[t] = x[blockIdx.x * blockDim.x + t];
    __syncthreads();
    x[blockIdx.x * blockDim.x + t] = s[(t + 1) % blockDim.x];
}

template __global__ void rotate<float>(float *);
template __global__ void rotate<double>(double *);
