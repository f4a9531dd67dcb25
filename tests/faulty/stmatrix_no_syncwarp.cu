// A thread reads what lanes of its warp have stored by stmatrix, without __syncwarp.
// topic: matrix instructions
// launch: grid 1, block 32
// arg x: int[32] = random
// arg y: int[32] = zeros
// fault: race RAW warp-synchronous
__global__ void transposed(const int *x, int *y)
{
    __shared__ int4 rows[8];
    const int t = threadIdx.x;
    const unsigned to = (unsigned)__cvta_generic_to_shared(&rows[t % 8]);

    asm volatile("stmatrix.sync.aligned.m8n8.x1.trans.shared.b16 [%0], {%1};" ::"r"(to), "r"(x[t])); // THERE
    y[t] = ((const int *)rows)[t];                                                                   // HERE
}
