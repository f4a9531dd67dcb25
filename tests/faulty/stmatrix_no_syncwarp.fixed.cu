// __syncwarp shows the matrix that stmatrix has stored to the other lanes.
// topic: matrix instructions
// launch: grid 1, block 32
// arg x: int[32] = random
// arg y: int[32] = zeros
__global__ void transposed(const int *x, int *y)
{
    __shared__ int4 rows[8];
    const int t = threadIdx.x;
    const unsigned to = (unsigned)__cvta_generic_to_shared(&rows[t % 8]);

    asm volatile("stmatrix.sync.aligned.m8n8.x1.trans.shared.b16 [%0], {%1};" ::"r"(to), "r"(x[t]));
    __syncwarp();
    y[t] = ((const int *)rows)[t];
}
