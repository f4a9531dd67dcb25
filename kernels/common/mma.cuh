// Tensor-core multiply-add of one warp, sm_80 and above: d (16, 8) += a (16, K) @ b (K, 8), where K elements are
// 32 bytes.
//
// Fragments: lane t holds four words of a, all at row t / 4 and word t % 4 of a quadrant: a[0] of the upper left,
// a[1] of the lower left (8 rows below), a[2] of the upper right (16 bytes on), a[3] of the lower right. For b it
// holds two words of column t / 4: b[0], and b[1] 16 bytes further. d[0] and d[1] are row t / 4, columns 2 (t % 4)
// and the next; d[2] and d[3] are 8 rows below.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>
#include <cstdint>

#define MMA_SYNC(shape, type)                                                                      \
    asm volatile("mma.sync.aligned." shape ".row.col.f32." type "." type ".f32 {%0, %1, %2, %3}, " \
                 "{%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"                                   \
                 : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])                                  \
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]))

static __device__ inline void mma_sync(float *d, const uint32_t *a, const uint32_t *b, __half)
{
    MMA_SYNC("m16n8k16", "f16");
}

static __device__ inline void mma_sync(float *d, const uint32_t *a, const uint32_t *b, __nv_bfloat16)
{
    MMA_SYNC("m16n8k16", "bf16");
}

static __device__ inline void mma_sync(float *d, const uint32_t *a, const uint32_t *b, float) // as TF32
{
    MMA_SYNC("m16n8k8", "tf32");
}
