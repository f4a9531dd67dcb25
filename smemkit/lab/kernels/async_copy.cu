// A block adds tiles of 256 vectors, one after the other. They come through registers, or asynchronously.
#include <cuda_pipeline.h>

__global__ void through_registers(const float4 *x, float *sums, int tiles)
{
    __shared__ float4 tile[256];
    const int t = threadIdx.x, first = blockIdx.x * tiles * 256;
    float sum = 0;

    for (int i = 0; i < tiles; i++) {
        tile[t] = x[first + i * 256 + t]; // copy
        __syncthreads();                  // the tile is written before neighbours read it
        const float4 word = tile[255 - t];
        sum += word.x + word.y + word.z + word.w;
        __syncthreads(); // and read before the next one overwrites it
    }
    sums[blockIdx.x * 256 + t] = sum;
}

// The next tile is on its way while this one is read.
template <int STAGES>
__device__ void asynchronous(const float4 *x, float *sums, int tiles)
{
    __shared__ float4 ring[STAGES][256];
    const int t = threadIdx.x, first = blockIdx.x * tiles * 256;
    float sum = 0;

    for (int i = 0; i < STAGES - 1; i++) {
        if (i < tiles)
            __pipeline_memcpy_async(&ring[i][t], &x[first + i * 256 + t], sizeof(float4)); // copy
        __pipeline_commit();
    }
    for (int i = 0; i < tiles; i++) {
        __pipeline_wait_prior(STAGES - 2); // this thread's part of tile i is there
        __syncthreads();                   // and that of its neighbours; tile i - 1 has been read
        const int next = i + STAGES - 1;
        if (next < tiles)
            __pipeline_memcpy_async(&ring[next % STAGES][t], &x[first + next * 256 + t], sizeof(float4)); // copy
        __pipeline_commit();
        const float4 word = ring[i % STAGES][255 - t];
        sum += word.x + word.y + word.z + word.w;
    }
    sums[blockIdx.x * 256 + t] = sum;
}

__global__ void asynchronous_2(const float4 *x, float *sums, int tiles)
{
    asynchronous<2>(x, sums, tiles);
}
__global__ void asynchronous_4(const float4 *x, float *sums, int tiles)
{
    asynchronous<4>(x, sums, tiles);
}
