// setmaxnreg: a warpgroup gives registers back, or asks for more and waits until there are so many, sm_90a. (PTX
// ISA, "setmaxnreg")
//
// COUNT: registers per thread, a multiple of 8 from 24 to 256. All warps of the warpgroup execute it.
#pragma once

#include <cuda_runtime.h>

namespace ptx
{

template <int COUNT>
static __device__ inline void setmaxnreg_dec()
{
    asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(COUNT));
}

template <int COUNT>
static __device__ inline void setmaxnreg_inc()
{
    asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(COUNT));
}

} // namespace ptx
