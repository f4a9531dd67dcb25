__global__ void move_x(float *particles, float dx, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;

    if (i < n)
        particles[i] += dx;
}
