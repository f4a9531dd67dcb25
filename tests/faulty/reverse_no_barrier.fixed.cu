// A barrier separates the writes from the reads of a partner's element.
// topic: missing barrier
// launch: grid 1, block 64
// arg x: float[64] = iota
__global__ void reverse(float *x)
{
    __shared__ float s[64];
    const int t = threadIdx.x;

    s[t] = x[t];
    __syncthreads();
    x[t] = s[63 - t];
}
