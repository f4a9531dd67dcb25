// One path through a function with a return value has no return statement.
// topic: undefined values
// launch: grid 1, block 32
// arg x: int[32] = iota
// fault: trap
__device__ int sign(int x) // HERE
{
    if (x > 0)
        return 1;
    if (x < 0)
        return -1;
}

__global__ void signs(int *x)
{
    x[threadIdx.x] = sign(x[threadIdx.x] - 3);
}
