// Every thread of the grid writes, also those past the end of the array.
// topic: out of bounds in global memory
// launch: grid 3, block 32
// arg y: int[80] = zeros
// arg n: 80
// fault: out_of_bounds
__global__ void fill_with_index(int *y, int n)
{
    const int i = blockIdx.x * blockDim.x + threadIdx.x;

    if (i <= n)
        y[i] = i; // HERE
}
