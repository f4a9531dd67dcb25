// Half of the threads exchange two elements each.
// topic: in place
// launch: grid 2, block 64
// arg x: int[128] = iota
// arg n: 128
__global__ void reverse(int *x, int n)
{
    const int i = blockIdx.x * blockDim.x + threadIdx.x;

    if (i < n / 2) {
        const int mine = x[i];
        x[i] = x[n - 1 - i];
        x[n - 1 - i] = mine;
    }
}
