__global__ void reverse(int *d, int n)
{
    __shared__ int s[64];
    int t = threadIdx.x;

    if (t < n)
        s[t] = d[t];
    __syncthreads();
    if (t < n)
        d[t] = s[n - 1 - t];
}
