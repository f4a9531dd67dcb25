// Vectors are built in shared memory, and read before all of them are complete.
// topic: missing barrier
// launch: grid 1, block 64
// arg x: float[64] = random
// arg y: float[64, 4] = zeros
// fault: race RAW
__global__ void powers(const float *x, float4 *y)
{
    __shared__ float4 s[64];
    const int t = threadIdx.x;

    s[t] = make_float4(1, x[t], x[t] * x[t], 0); // THERE
    y[t] = s[63 - t];                            // HERE
}
