// wgmma: a multiply-add of a warpgroup (four warps) on the tensor cores of sm_90a. (PTX ISA, "wgmma")
//
// d (64, N) += a (64, K) @ b (N, K)^T, where K elements are 32 bytes. b is in shared memory, a there or in
// registers, and the accumulators are in registers.
//
// Layout of an operand: rows of 128 bytes, of which one multiplication uses 32. The 16-byte chunk c of row r is
// stored at chunk c ^ (r % 8) ("128-byte swizzle"), so that eight rows have no bank conflicts. The first row
// starts at a multiple of 1024 bytes. Of a transposed b (K, N) a row has 64 of the N, one multiplication uses 16
// rows, and the next 64 are in rows of their own. Accumulators: lane t of warp w holds in d[4 n + 2 h + c], with h
// and c in [0, 2), row 16 w + t / 4 + 8 h and column 8 n + 2 (t % 4) + c.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>
#include <cstdint>

#include "fence_proxy_async.cuh"
#include "shared_address.cuh"

namespace ptx
{

// The matrix descriptor of an operand; eight rows are 1024 bytes. next: bytes from a transposed operand's rows of
// 64 to the next 64's.
static __device__ inline uint64_t wgmma_descriptor(const void *shared, int next = 16)
{
    constexpr uint32_t IN_BLOCK = (1 << 18) - 1; // the bits above tell the block of a cluster

    return (uint64_t)((shared_address(shared) & IN_BLOCK) >> 4) | (uint64_t)(next >> 4) << 16 | 64ull << 32 |
           1ull << 62;
}

static __device__ inline void wgmma_fence()
{
    asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
}

static __device__ inline void wgmma_commit_group()
{
    asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
}

// waits until all but the last PENDING groups are complete
template <int PENDING>
static __device__ inline void wgmma_wait_group()
{
    asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(PENDING) : "memory");
}

// Keeps the compiler from moving uses of these registers across this. After a wait for products, they are the
// accumulators, and before wgmma_fence the first operands: it does not see that the instructions order them.
template <int N>
static __device__ inline void wgmma_fence_registers(float (&d)[N])
{
#pragma unroll
    for (int i = 0; i < N; i++)
        asm volatile("" : "+f"(d[i])::"memory");
}

template <int N>
static __device__ inline void wgmma_fence_registers(uint32_t (&d)[N])
{
#pragma unroll
    for (int i = 0; i < N; i++)
        asm volatile("" : "+r"(d[i])::"memory");
}

#define WGMMA_32_ACCUMULATORS                                                \
    "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, " \
    "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31"
#define WGMMA_64_ACCUMULATORS                                                          \
    WGMMA_32_ACCUMULATORS                                                              \
    ", "                                                                               \
    "%32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, " \
    "%48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63"
#define WGMMA_80_ACCUMULATORS \
    WGMMA_64_ACCUMULATORS     \
    ", %64, %65, %66, %67, %68, %69, %70, %71, %72, %73, %74, %75, %76, %77, %78, %79"
#define WGMMA_96_ACCUMULATORS \
    WGMMA_80_ACCUMULATORS     \
    ", %80, %81, %82, %83, %84, %85, %86, %87, %88, %89, %90, %91, %92, %93, %94, %95"
#define WGMMA_112_ACCUMULATORS \
    WGMMA_96_ACCUMULATORS      \
    ", %96, %97, %98, %99, %100, %101, %102, %103, %104, %105, %106, %107, %108, %109, %110, %111"
#define WGMMA_120_ACCUMULATORS WGMMA_112_ACCUMULATORS ", %112, %113, %114, %115, %116, %117, %118, %119"
#define WGMMA_128_ACCUMULATORS \
    WGMMA_120_ACCUMULATORS     \
    ", %120, %121, %122, %123, %124, %125, %126, %127"
#define WGMMA_4(kind, i)   kind(d[i]), kind(d[i + 1]), kind(d[i + 2]), kind(d[i + 3])
#define WGMMA_16(kind, i)  WGMMA_4(kind, i), WGMMA_4(kind, i + 4), WGMMA_4(kind, i + 8), WGMMA_4(kind, i + 12)
#define WGMMA_32(kind, i)  WGMMA_16(kind, i), WGMMA_16(kind, i + 16)
#define WGMMA_64(kind, i)  WGMMA_32(kind, i), WGMMA_32(kind, i + 32)
#define WGMMA_80(kind, i)  WGMMA_64(kind, i), WGMMA_16(kind, i + 64)
#define WGMMA_96(kind, i)  WGMMA_64(kind, i), WGMMA_32(kind, i + 64)
#define WGMMA_112(kind, i) WGMMA_96(kind, i), WGMMA_16(kind, i + 96)
#define WGMMA_120(kind, i) WGMMA_112(kind, i), WGMMA_4(kind, i + 112), WGMMA_4(kind, i + 116)
#define WGMMA_128(kind, i) WGMMA_64(kind, i), WGMMA_64(kind, i + 64)
#define WGMMA(shape, type, more)                                                                               \
    asm volatile("wgmma.mma_async.sync.aligned." shape ".f32." type "." type " {" WGMMA_128_ACCUMULATORS "}, " \
                 "%128, %129, 1, 1, 1" more ";"                                                                \
                 : WGMMA_128("+f", 0)                                                                          \
                 : "l"(a), "l"(b))

static __device__ inline void wgmma_mma_async(float (&d)[128], uint64_t a, uint64_t b, __half)
{
    WGMMA("m64n256k16", "f16", ", 0, 0");
}

static __device__ inline void wgmma_mma_async(float (&d)[128], uint64_t a, uint64_t b, __nv_bfloat16)
{
    WGMMA("m64n256k16", "bf16", ", 0, 0");
}

static __device__ inline void wgmma_mma_async(float (&d)[128], uint64_t a, uint64_t b, float) // as TF32
{
    WGMMA("m64n256k8", "tf32", "");
}

// d = a @ b, plus d if `add`. TRANSPOSED: a is stored as (K, 64), b as (K, N)
#define WGMMA_16_BITS(shape, type, accumulators, outputs, a_at, b_at, add_at, a_transposed_at, b_transposed_at) \
    asm volatile("{ .reg .pred p; setp.ne.b32 p, %" add_at ", 0; wgmma.mma_async.sync.aligned." shape           \
                 ".f32." type "." type " {" accumulators "}, "                                                  \
                 "%" a_at ", %" b_at ", p, 1, 1, %" a_transposed_at ", %" b_transposed_at "; }"                 \
                 : outputs                                                                                      \
                 : "l"(a), "l"(b), "r"((int)add), "n"((int)A_TRANSPOSED), "n"((int)B_TRANSPOSED))

#define WGMMA_OF_16_BITS(columns, count, a_at, b_at, add_at, a_transposed_at, b_transposed_at)                   \
    template <bool A_TRANSPOSED, bool B_TRANSPOSED>                                                              \
    static __device__ inline void wgmma_mma_async(float(&d)[count], uint64_t a, uint64_t b, bool add, __half)    \
    {                                                                                                            \
        WGMMA_16_BITS("m64n" #columns "k16", "f16", WGMMA_##count##_ACCUMULATORS, WGMMA_##count("+f", 0), a_at,  \
                      b_at, add_at, a_transposed_at, b_transposed_at);                                           \
    }                                                                                                            \
    template <bool A_TRANSPOSED, bool B_TRANSPOSED>                                                              \
    static __device__ inline void wgmma_mma_async(float(&d)[count], uint64_t a, uint64_t b, bool add,            \
                                                  __nv_bfloat16)                                                 \
    {                                                                                                            \
        WGMMA_16_BITS("m64n" #columns "k16", "bf16", WGMMA_##count##_ACCUMULATORS, WGMMA_##count("+f", 0), a_at, \
                      b_at, add_at, a_transposed_at, b_transposed_at);                                           \
    }

WGMMA_OF_16_BITS(64, 32, "32", "33", "34", "35", "36")
WGMMA_OF_16_BITS(128, 64, "64", "65", "66", "67", "68")
WGMMA_OF_16_BITS(160, 80, "80", "81", "82", "83", "84")
WGMMA_OF_16_BITS(192, 96, "96", "97", "98", "99", "100")
WGMMA_OF_16_BITS(224, 112, "112", "113", "114", "115", "116")
WGMMA_OF_16_BITS(240, 120, "120", "121", "122", "123", "124")
WGMMA_OF_16_BITS(256, 128, "128", "129", "130", "131", "132")

// Of bytes, to 32 bits, in which sums wrap around. d = a @ b, plus d if `add`; a is (64, 32), b is (N, 32).
#define WGMMA_BYTES(shape, type, accumulators, outputs, a_at, b_at, add_at)                           \
    asm volatile("{ .reg .pred p; setp.ne.b32 p, %" add_at ", 0; wgmma.mma_async.sync.aligned." shape \
                 ".s32." type "." type " {" accumulators "}, %" a_at ", %" b_at ", p; }"              \
                 : outputs                                                                            \
                 : "l"(a), "l"(b), "r"((int)add))

static __device__ inline void wgmma_mma_async(uint32_t (&d)[32], uint64_t a, uint64_t b, bool add, uint8_t)
{
    WGMMA_BYTES("m64n64k32", "u8", WGMMA_32_ACCUMULATORS, WGMMA_32("+r", 0), "32", "33", "34");
}

static __device__ inline void wgmma_mma_async(uint32_t (&d)[64], uint64_t a, uint64_t b, bool add, int8_t)
{
    WGMMA_BYTES("m64n128k32", "s8", WGMMA_64_ACCUMULATORS, WGMMA_64("+r", 0), "64", "65", "66");
}

static __device__ inline void wgmma_mma_async(uint32_t (&d)[128], uint64_t a, uint64_t b, bool add, int8_t)
{
    WGMMA_BYTES("m64n256k32", "s8", WGMMA_128_ACCUMULATORS, WGMMA_128("+r", 0), "128", "129", "130");
}

static __device__ inline void wgmma_mma_async(uint32_t (&d)[64], uint64_t a, uint64_t b, bool add, uint8_t)
{
    WGMMA_BYTES("m64n128k32", "u8", WGMMA_64_ACCUMULATORS, WGMMA_64("+r", 0), "64", "65", "66");
}

static __device__ inline void wgmma_mma_async(uint32_t (&d)[128], uint64_t a, uint64_t b, bool add, uint8_t)
{
    WGMMA_BYTES("m64n256k32", "u8", WGMMA_128_ACCUMULATORS, WGMMA_128("+r", 0), "128", "129", "130");
}

// The same with a, (64, K), in registers, as mma has it: lane t of warp w has of row 16 w + t / 4 the four bytes
// t % 4 of each half of K in a[0] and a[2], and of the row 8 further in a[1] and a[3].
#define WGMMA_REGISTERS(shape, types, accumulators, outputs, a_at, b_at, add_at, more)                          \
    asm volatile("{ .reg .pred p; setp.ne.b32 p, %" add_at ", 0; wgmma.mma_async.sync.aligned." shape "." types \
                 " {" accumulators "}, " a_at ", %" b_at ", p" more "; }"                                       \
                 : outputs                                                                                      \
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"((int)add))
#define WGMMA_REGISTERS_64(shape, types, kind, more)                                                            \
    WGMMA_REGISTERS(shape, types, WGMMA_64_ACCUMULATORS, WGMMA_64(kind, 0), "{%64, %65, %66, %67}", "68", "69", \
                    more)

static __device__ inline void wgmma_mma_async(float (&d)[32], const uint32_t (&a)[4], uint64_t b, bool add,
                                              float) // as TF32
{
    WGMMA_REGISTERS("m64n64k8", "f32.tf32.tf32", WGMMA_32_ACCUMULATORS, WGMMA_32("+f", 0), "{%32, %33, %34, %35}",
                    "36", "37", ", 1, 1");
}

static __device__ inline void wgmma_mma_async(float (&d)[64], const uint32_t (&a)[4], uint64_t b, bool add, float)
{
    WGMMA_REGISTERS_64("m64n128k8", "f32.tf32.tf32", "+f", ", 1, 1");
}

static __device__ inline void wgmma_mma_async(uint32_t (&d)[64], const uint32_t (&a)[4], uint64_t b, bool add,
                                              int8_t)
{
    WGMMA_REGISTERS_64("m64n128k32", "s32.s8.s8", "+r", "");
}

static __device__ inline void wgmma_mma_async(uint32_t (&d)[64], const uint32_t (&a)[4], uint64_t b, bool add,
                                              uint8_t)
{
    WGMMA_REGISTERS_64("m64n128k32", "s32.u8.u8", "+r", "");
}

} // namespace ptx
