__global__ void reverse(int *d, int n)
{
    extern __shared__ int s[];
    int t = threadIdx.x;

    s[t] = d[t];
    __syncthreads();
    d[t] = s[n - 1 - t];
}
