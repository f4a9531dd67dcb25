// Each block also writes the first element of the next block.
// topic: between blocks
// launch: grid 2, block 64
// arg x: float[129] = random
// arg y: float[129] = zeros
// fault: race WAW
__global__ void copy_with_end(const float *x, float *y)
{
    const int t = threadIdx.x, first = blockIdx.x * 64;

    y[first + t] = x[first + t]; // HERE
    if (t == 0)
        y[first + 64] = x[first + 64]; // THERE
}
