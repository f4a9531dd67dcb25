// ldmatrix, stmatrix, movmatrix: 8 x 8 matrices of 16-bit elements between shared memory and a warp's registers.
// (PTX ISA, "ldmatrix", sm_75; "stmatrix", sm_90; "movmatrix", sm_75)
//
// Lane i of the first 8 N gives the address of row i, 16 bytes at a multiple of 16. Word m of lane t holds the
// elements 2 (t % 4) and the next of row t / 4 of matrix m; transposed, those of column t / 4.
#pragma once

#include <cuda_runtime.h>
#include <cstdint>

#include "shared_address.cuh"

namespace ptx
{

static __device__ inline void ldmatrix_x4(uint32_t (&d)[4], const void *row)
{
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(d[0]), "=r"(d[1]), "=r"(d[2]), "=r"(d[3])
                 : "r"(shared_address(row))
                 : "memory");
}

static __device__ inline void ldmatrix_x4_trans(uint32_t (&d)[4], const void *row)
{
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(d[0]), "=r"(d[1]), "=r"(d[2]), "=r"(d[3])
                 : "r"(shared_address(row))
                 : "memory");
}

static __device__ inline void ldmatrix_x2(uint32_t (&d)[2], const void *row)
{
    asm volatile("ldmatrix.sync.aligned.m8n8.x2.shared.b16 {%0, %1}, [%2];"
                 : "=r"(d[0]), "=r"(d[1])
                 : "r"(shared_address(row))
                 : "memory");
}

static __device__ inline void ldmatrix_x2_trans(uint32_t (&d)[2], const void *row)
{
    asm volatile("ldmatrix.sync.aligned.m8n8.x2.trans.shared.b16 {%0, %1}, [%2];"
                 : "=r"(d[0]), "=r"(d[1])
                 : "r"(shared_address(row))
                 : "memory");
}

static __device__ inline void stmatrix_x4(void *row, const uint32_t (&words)[4])
{
    asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(shared_address(row)),
                 "r"(words[0]), "r"(words[1]), "r"(words[2]), "r"(words[3])
                 : "memory");
}

static __device__ inline uint32_t movmatrix_trans(uint32_t word)
{
    uint32_t transposed;

    asm("movmatrix.sync.aligned.m8n8.trans.b16 %0, %1;" : "=r"(transposed) : "r"(word));
    return transposed;
}

} // namespace ptx
