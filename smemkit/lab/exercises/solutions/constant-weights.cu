__constant__ float weights[5];

__global__ void polynomial(const float *x, float *y, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;

    if (i < n) {
        float v = x[i], sum = weights[4];
        for (int k = 3; k >= 0; k--)
            sum = sum * v + weights[k];
        y[i] = sum;
    }
}
