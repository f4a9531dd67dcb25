// A thread reads its partner's element, without a barrier after the partner's write.
// topic: missing barrier
// launch: grid 1, block 64
// arg x: float[64] = iota
// fault: race RAW
__global__ void reverse(float *x)
{
    __shared__ float s[64];
    const int t = threadIdx.x;

    s[t] = x[t];      // THERE
    x[t] = s[63 - t]; // HERE
}
