// Latency by pointer chase: each read waits for the one before, because its result is the next position. One
// thread runs, and clock64 measures all rounds. Bandwidth: all threads read vectors that do not depend on each
// other.

__constant__ int constant_ring[1024];

// A chain of multiply-adds on integers, whose operands are in registers.
__global__ void chase_registers(int factor, int rounds, int *cycles)
{
    int position = threadIdx.x;
    const long long begin = clock64();

    for (int round = 0; round < rounds; round++)
        position = position * factor + 1;
    cycles[0] = (int)(clock64() - begin) + (position == 12345678);
}

__global__ void chase_shared(int step, int rounds, int *cycles)
{
    __shared__ int ring[1024];

    for (int i = 0; i < 1024; i++)
        ring[i] = (i + step) % 1024;

    int position = 0;
    const long long begin = clock64();
    for (int round = 0; round < rounds; round++)
        position = ring[position]; // measured
    cycles[0] = (int)(clock64() - begin) + (position < 0);
}

__global__ void chase_constant(int rounds, int *cycles)
{
    int position = 0;
    const long long begin = clock64();

    for (int round = 0; round < rounds; round++)
        position = constant_ring[position];
    cycles[0] = (int)(clock64() - begin) + (position < 0);
}

// An array of a thread that is indexed by a variable has no registers: it lies in local memory, as spills do.
__global__ void chase_local(int step, int rounds, int *cycles)
{
    int ring[256];

    for (int i = 0; i < 256; i++)
        ring[i] = (i + step) % 256;

    int position = 0;
    const long long begin = clock64();
    for (int round = 0; round < rounds; round++)
        position = ring[position];
    cycles[0] = (int)(clock64() - begin) + (position < 0);
}

// Twice around: once to fill the cache, then measured.
__global__ void chase_l1(const int *ring, int rounds, int *cycles)
{
    int position = 0;

    for (int round = 0; round < rounds; round++)
        position = ring[position];
    const long long begin = clock64();
    for (int round = 0; round < rounds; round++)
        position = ring[position]; // measured
    cycles[0] = (int)(clock64() - begin) + (position < 0);
}

// __ldcg reads from L2 and not from L1. The ring decides whether it is in L2 or only in memory.
__global__ void chase_l2(const int *ring, int warm, int rounds, int *cycles)
{
    int position = 0;

    for (int round = 0; round < warm; round++)
        position = __ldcg(&ring[position]);
    const long long begin = clock64();
    for (int round = 0; round < rounds; round++)
        position = __ldcg(&ring[position]); // measured
    cycles[0] = (int)(clock64() - begin) + (position < 0);
}

__global__ void read_shared(float *sums, int rounds)
{
    __shared__ float4 words[256];
    float sum = 0;

    words[threadIdx.x] = make_float4(0, 0, 0, (float)threadIdx.x);
    __syncthreads(); // all words are written before any is read
    for (int round = 0; round < rounds; round++) {
        const float4 word = words[(threadIdx.x + round) % 256]; // measured
        sum += word.x + word.y + word.z + word.w;
    }
    sums[blockIdx.x * blockDim.x + threadIdx.x] = sum;
}

__global__ void read_global(const float4 *x, float *sums, int n, int rounds)
{
    const int count = gridDim.x * blockDim.x, first = blockIdx.x * blockDim.x + threadIdx.x;
    float sum = 0;

    for (int round = 0; round < rounds; round++)
        for (int i = first; i < n; i += count) {
            const float4 word = __ldcg(&x[i]); // measured
            sum += word.x + word.y + word.z + word.w;
        }
    sums[first] = sum;
}
