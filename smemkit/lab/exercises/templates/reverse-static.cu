__global__ void reverse(int *d, int n)
{
    __shared__ int s[64];
    int t = threadIdx.x;

    // TODO: load, wait, store
}
