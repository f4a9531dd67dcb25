// Every path through a function with a return value has a return statement.
// topic: undefined values
// launch: grid 1, block 32
// arg x: int[32] = iota
__device__ int sign(int x)
{
    if (x > 0)
        return 1;
    if (x < 0)
        return -1;
    return 0;
}

__global__ void signs(int *x)
{
    x[threadIdx.x] = sign(x[threadIdx.x] - 3);
}
