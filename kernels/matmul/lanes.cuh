// How the lanes of a warp share its tile of C: 4 rows of 8 threads. Lanes t and t ^ 1 are neighbours in a row, and
// t and t ^ 2 in a column. So lanes 0 to 3 of each four read two elements of A and two of B, and a load of 16
// bytes takes two wavefronts, not four (measured with Nsight Compute, as smemkit.wavefronts predicts).
#pragma once

#include <cuda_runtime.h>

constexpr int LANES_DOWN = 4, LANES_ACROSS = 8;

static __device__ inline int lane_row(int lane)
{
    return (lane >> 1 & 1) | (lane >> 4 & 1) << 1;
}

static __device__ inline int lane_column(int lane)
{
    return (lane & 1) | (lane >> 2 & 3) << 1;
}
