// A value and its index go through shared memory as one struct.
// launch: grid 1, block 128
// arg x: float[128] = random
// arg where: int[1] = zeros
struct Candidate {
    float value;
    int index;
};

__device__ Candidate better(Candidate a, Candidate b)
{
    return b.value > a.value || (b.value == a.value && b.index < a.index) ? b : a;
}

__global__ void argmax(const float *x, int *where)
{
    __shared__ Candidate best[128];
    const int t = threadIdx.x;

    best[t] = Candidate{x[t], t};
    __syncthreads();
    for (int stride = 64; stride > 0; stride /= 2) {
        if (t < stride)
            best[t] = better(best[t], best[t + stride]);
        __syncthreads();
    }
    if (t == 0)
        *where = best[0].index;
}
