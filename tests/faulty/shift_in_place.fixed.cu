// Every thread has read its right neighbour's element before any element is overwritten.
// topic: in place
// launch: grid 1, block 64
// arg x: float[65] = random
__global__ void shift_left(float *x)
{
    const int t = threadIdx.x;

    const float right = x[t + 1];
    __syncthreads();
    x[t] = right;
}
