// Two extern arrays: both names refer to the same memory, so the second array overwrites the first.
// topic: dynamic shared memory
// launch: grid 1, block 64, shared 512
// arg x: float[64] = random
// arg y: float[64] = random
// arg z: float[64] = zeros
// fault: race WAW
extern __shared__ float first[];
extern __shared__ float second[];

__global__ void convolve(const float *x, const float *y, float *z)
{
    const int t = threadIdx.x, n = blockDim.x;
    float sum = 0;

    first[t] = x[t];          // THERE
    second[n - 1 - t] = y[t]; // HERE
    __syncthreads();
    for (int i = 0; i < n; i++)
        sum += first[i] * second[(i + t) % n];
    z[t] = sum;
}
