// Half of the elements are overwritten before their own threads have read them.
// topic: in place
// launch: grid 2, block 64
// arg x: int[128] = iota
// arg n: 128
// fault: race
__global__ void reverse(int *x, int n)
{
    const int i = blockIdx.x * blockDim.x + threadIdx.x;

    x[n - 1 - i] = x[i]; // HERE
}
