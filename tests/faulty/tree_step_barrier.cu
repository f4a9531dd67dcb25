// The barrier of a tree reduction is after the loop instead of inside it.
// topic: missing barrier
// launch: grid 2, block 256
// arg x: float[512] = random
// arg sums: float[2] = zeros
// fault: race RAW
__global__ void block_sums(const float *x, float *sums)
{
    __shared__ float partial[256];
    const int t = threadIdx.x;

    partial[t] = x[blockIdx.x * 256 + t];
    __syncthreads();
    for (int stride = 128; stride > 0; stride /= 2) {
        if (t < stride)
            partial[t] += partial[t + stride]; // HERE
    }
    __syncthreads();
    if (t == 0)
        sums[blockIdx.x] = partial[0];
}
