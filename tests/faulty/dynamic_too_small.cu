// The launch requests dynamic shared memory for one array; the kernel has two.
// topic: dynamic shared memory
// launch: grid 1, block 64, shared 256
// arg x: float[64] = random
// arg y: float[64] = random
// arg z: float[64] = zeros
// fault: out_of_bounds
__global__ void mirrored_product(const float *x, const float *y, float *z)
{
    extern __shared__ float xs[];
    float *ys = xs + blockDim.x;
    const int t = threadIdx.x;

    xs[t] = x[t];
    ys[t] = y[t]; // HERE
    __syncthreads();
    z[t] = xs[t] * ys[blockDim.x - 1 - t]; // ALSO
}
