// What a barrier costs: `count` of them in one launch, against an empty launch.

__global__ void many_barriers(int *x, int count)
{
    for (int i = 0; i < count; i++)
        __syncthreads();
    x[threadIdx.x] = count;
}
