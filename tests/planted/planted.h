// A program with a fault for compute-sanitizer to find: it launches the kernel of the including file once.
// It exits with 0 with or without the fault, so that the exit status is the sanitizer's verdict alone.
//
//   nvcc -DFAULTY race.cu    the kernel with the fault
//   nvcc race.cu             the same kernel without it
#pragma once

#include <cstdio>
#include <cuda_runtime.h>

#ifdef FAULTY
constexpr bool faulty = true;
#else
constexpr bool faulty = false;
#endif

constexpr int THREADS = 128;

__global__ void planted(int *x, int n);

// Runs `planted` with one block of THREADS threads on n ints.
inline int run(int n)
{
    int *x = nullptr;

    if (cudaMalloc(&x, n * sizeof *x) != cudaSuccess || cudaMemset(x, 0, n * sizeof *x) != cudaSuccess)
        return printf("no GPU\n"), 2;
    planted<<<1, THREADS>>>(x, n);
    (void)cudaDeviceSynchronize();
    return 0;
}
