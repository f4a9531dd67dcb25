// Half of the lanes have returned when the warp multiplies.
// topic: matrix instructions
// launch: grid 1, block 32
// arg x: float[32] = random
// arg y: float[32] = zeros
// fault: barrier
__global__ void sum_of_pairs(const float *x, float *y)
{
    const int t = threadIdx.x;
    unsigned a[2] = {__float_as_uint(x[t]), __float_as_uint(x[31 - t])};
    float sum[4] = {};

    if (t >= 16)
        return;
    asm volatile("mma.sync.aligned.m16n8k4.row.col.f32.tf32.tf32.f32 {%0, %1, %2, %3}, {%4, %5}, {%6}, " // HERE
                 "{%0, %1, %2, %3};"
                 : "+f"(sum[0]), "+f"(sum[1]), "+f"(sum[2]), "+f"(sum[3])
                 : "r"(a[0]), "r"(a[1]), "r"(0x3f800000));
    y[t] = sum[0] + sum[1] + sum[2] + sum[3];
}
