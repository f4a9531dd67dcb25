// The first thread has no left neighbour in the tile.
// topic: out of bounds in shared memory
// launch: grid 1, block 64
// arg x: float[64] = random
// arg y: float[64] = zeros
__global__ void backward_difference(const float *x, float *y)
{
    __shared__ float s[64];
    const int t = threadIdx.x;

    s[t] = x[t];
    __syncthreads();
    y[t] = s[t] - (t > 0 ? s[t - 1] : 0);
}
