// One row per block: maximum, exponentials, sum and quotient through one buffer.
// launch: grid 3, block 64
// arg x: float[3, 100] = random
// arg y: float[3, 100] = zeros
// arg n: 100
__global__ void softmax(const float *x, float *y, int n)
{
    __shared__ float s[64];
    const int t = threadIdx.x;
    float most = -INFINITY, sum = 0;

    x += blockIdx.x * n;
    y += blockIdx.x * n;
    for (int i = t; i < n; i += blockDim.x)
        most = fmaxf(most, x[i]);
    s[t] = most;
    __syncthreads();
    for (int stride = 32; stride > 0; stride /= 2) {
        if (t < stride)
            s[t] = fmaxf(s[t], s[t + stride]);
        __syncthreads();
    }
    most = s[0];
    __syncthreads(); // all threads have read the maximum before the buffer is reused
    for (int i = t; i < n; i += blockDim.x)
        sum += expf(x[i] - most);
    s[t] = sum;
    __syncthreads();
    for (int stride = 32; stride > 0; stride /= 2) {
        if (t < stride)
            s[t] += s[t + stride];
        __syncthreads();
    }
    for (int i = t; i < n; i += blockDim.x)
        y[i] = expf(x[i] - most) / s[0];
}
