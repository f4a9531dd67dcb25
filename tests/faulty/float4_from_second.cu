// float4 loads that begin at an array's second element.
// topic: misaligned accesses
// launch: grid 1, block 32
// arg x: float[132] = random
// arg y: float[128] = zeros
// fault: misaligned
__global__ void copy4(const float *x, float *y)
{
    const float4 *from = reinterpret_cast<const float4 *>(x + 1);
    float4 *to = reinterpret_cast<float4 *>(y);

    to[threadIdx.x] = from[threadIdx.x]; // HERE
}
