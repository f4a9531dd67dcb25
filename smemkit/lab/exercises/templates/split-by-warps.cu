__global__ void even_and_odd(const float *x, float *y)
{
    int i = blockIdx.x * 256 + threadIdx.x;

    if (i % 2 == 0) // TODO: the same branch for a whole warp
        y[i] = 2 * x[i] + 1;
    else
        y[i] = x[i] * x[i];
}
