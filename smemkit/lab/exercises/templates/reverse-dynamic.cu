__global__ void reverse(int *d, int n)
{
    __shared__ int s[64]; // TODO: as large as the launch says
    int t = threadIdx.x;

    s[t] = d[t];
    __syncthreads();
    d[t] = s[n - 1 - t];
}
