__global__ void count_values(const int *x, int *counts)
{
    __shared__ unsigned char c[64][64]; // [value][thread]
    int t = threadIdx.x;

    for (int v = 0; v < 64; v++)
        c[v][t] = 0;
    for (int k = 0; k < 32; k++)
        c[x[(blockIdx.x * 32 + k) * 64 + t]][t]++;
    for (int v = 0; v < 64; v++)
        counts[(blockIdx.x * 64 + v) * 64 + t] = c[v][t];
}
