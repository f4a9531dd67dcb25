// The kernel knows every code.
// topic: traps
// launch: grid 1, block 32
// arg codes: int[32] = iota
// arg y: int[32] = zeros
__global__ void decode(const int *codes, int *y)
{
    const int t = threadIdx.x;

    switch (codes[t] % 3) {
    case 0:
        y[t] = 0;
        break;
    case 1:
        y[t] = t;
        break;
    case 2:
        y[t] = -t;
        break;
    default:
        __trap();
    }
}
