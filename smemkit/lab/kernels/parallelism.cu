// The same number of products per thread, in 1, 2, 4 or 8 chains that do not depend on each other.

template <int CHAINS>
__device__ void products(float factor, int count, float *out)
{
    extern __shared__ float unused[];
    float chain[CHAINS];

    for (int i = 0; i < CHAINS; i++)
        chain[i] = 1 + threadIdx.x;
#pragma unroll 8
    for (int step = 0; step < count / CHAINS; step++)
#pragma unroll
        for (int i = 0; i < CHAINS; i++)
            chain[i] *= factor;

    float product = 1;
    for (int i = 0; i < CHAINS; i++)
        product *= chain[i];
    if (count < 0)
        unused[threadIdx.x] = product;
    out[blockIdx.x * blockDim.x + threadIdx.x] = product;
}

__global__ void products_1(float factor, int count, float *out)
{
    products<1>(factor, count, out);
}
__global__ void products_2(float factor, int count, float *out)
{
    products<2>(factor, count, out);
}
__global__ void products_4(float factor, int count, float *out)
{
    products<4>(factor, count, out);
}
__global__ void products_8(float factor, int count, float *out)
{
    products<8>(factor, count, out);
}
