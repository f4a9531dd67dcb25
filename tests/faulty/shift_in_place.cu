// Every thread copies its right neighbour's element, which that neighbour may already have overwritten.
// topic: in place
// launch: grid 1, block 64
// arg x: float[65] = random
// fault: race
__global__ void shift_left(float *x)
{
    const int t = threadIdx.x;

    x[t] = x[t + 1]; // HERE
}
