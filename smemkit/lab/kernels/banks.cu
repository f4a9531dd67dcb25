// A warp reads shared memory in a pattern that the host chooses: lane t reads element index[t].
//
// The words that it reads are 0, and the next position depends on them, so that every read waits for the one
// before: clock64 then measures the latency of a read with its bank conflicts.

template <typename T>
__device__ void read(const int *index, int rounds, int *cycles)
{
    __shared__ T words[4352 / sizeof(T)];

    for (int i = threadIdx.x; i < (int)(4352 / sizeof(T)); i += blockDim.x)
        words[i] = T{};
    __syncthreads(); // all words are 0 before any is read

    int position = index[threadIdx.x];
    const long long begin = clock64();
    for (int round = 0; round < rounds; round++) {
        const T word = words[position]; // measured
        position += *(const unsigned char *)&word;
    }
    cycles[threadIdx.x] = (int)(clock64() - begin) + (position < 0);
}

__global__ void read_1(const int *index, int rounds, int *cycles)
{
    read<unsigned char>(index, rounds, cycles);
}
__global__ void read_4(const int *index, int rounds, int *cycles)
{
    read<int>(index, rounds, cycles);
}
__global__ void read_8(const int *index, int rounds, int *cycles)
{
    read<int2>(index, rounds, cycles);
}
__global__ void read_16(const int *index, int rounds, int *cycles)
{
    read<int4>(index, rounds, cycles);
}
