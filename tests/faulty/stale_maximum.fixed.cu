// Every thread performs the atomic update.
// topic: atomics and plain accesses
// launch: grid 4, block 1
// arg x: int[4] = random
// arg most: int[1] = zeros
__global__ void maximum(const int *x, int *most)
{
    const int value = x[blockIdx.x];

    if (value > 0)
        atomicMax(most, value);
}
