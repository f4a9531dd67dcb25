// A copy: the ceiling of the rungs.
//
// The idea: a transpose must read every byte once and write it once. This kernel does only that, 16 bytes at a
// time where both arrays are 16-byte aligned. A production kernel that has more bytes in flight can be a few
// percent faster. Launch: blocks of 256 threads, each of which moves 4 words, a block's width apart.
#include <cuda_runtime.h>

#include "../../common/grid.cuh"
#include "kernels.h"

constexpr int BLOCK = 256, LOADS = 4;

template <class Word>
__global__ void transpose_copy(const Word *x, Word *out, int64_t words, int64_t bytes)
{
    const int64_t first = (int64_t)blockIdx.x * BLOCK * LOADS + threadIdx.x;
    Word moving[LOADS];

#pragma unroll
    for (int j = 0; j < LOADS; j++) // all loads are issued before the first store
        if (first + j * BLOCK < words)
            moving[j] = x[first + j * BLOCK];
#pragma unroll
    for (int j = 0; j < LOADS; j++)
        if (first + j * BLOCK < words)
            out[first + j * BLOCK] = moving[j];

    const int64_t tail =
        words * sizeof(Word) + threadIdx.x; // the last bytes, fewer than a word, moved by the first block
    if (blockIdx.x == 0 && tail < bytes)
        ((char *)out)[tail] = ((const char *)x)[tail];
}

template <class Word>
static cudaError_t copy_words(const transpose_args *args, int64_t bytes, cudaStream_t stream)
{
    const int64_t words = bytes / sizeof(Word), blocks = ceil_div(words, BLOCK * LOADS);

    transpose_copy<<<(unsigned)(blocks > 0 ? blocks : 1), BLOCK, 0, stream>>>((const Word *)args->x,
                                                                              (Word *)args->out, words, bytes);
    return cudaGetLastError();
}

cudaError_t launch_transpose_copy(const transpose_args *args, cudaStream_t stream)
{
    const int64_t bytes = args->batches * args->rows * args->columns * args->element_size;
    const uintptr_t both = (uintptr_t)args->x | (uintptr_t)args->out;

    if (both % 16 == 0)
        return copy_words<uint4>(args, bytes, stream);
    return both % 4 == 0 ? copy_words<uint32_t>(args, bytes, stream) : copy_words<uint8_t>(args, bytes, stream);
}
