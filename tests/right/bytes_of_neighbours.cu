// Neighbouring threads write neighbouring bytes of the same words.
// launch: grid 1, block 64
// arg x: unsigned char[64] = iota
// arg y: unsigned char[64] = zeros
__global__ void invert(const unsigned char *x, unsigned char *y)
{
    __shared__ unsigned char s[64];
    __shared__ char even[64];
    const int t = threadIdx.x;

    s[t] = 255 - x[t];
    even[t] = t % 2 == 0;
    __syncthreads();
    y[t] = even[63 - t] ? s[63 - t] : 0;
}
