// A thread tests the maximum before its atomic update: the test is a plain read beside atomics.
// topic: atomics and plain accesses
// launch: grid 4, block 1
// arg x: int[4] = random
// arg most: int[1] = zeros
// fault: race
__global__ void maximum(const int *x, int *most)
{
    const int value = x[blockIdx.x];

    if (value > *most)          // HERE
        atomicMax(most, value); // THERE
}
