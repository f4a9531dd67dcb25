// A partner's element is read before the partner has written it: no barrier after the load.
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
