__global__ void saxpy(const float *x, float *y, float a, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;

    y[i] = a * x[i] + y[i]; // TODO: every element, by any number of threads
}
