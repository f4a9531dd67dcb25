/* The dialect: CUDA C++ as the host's C++ compiler can read it. Found as <cuda_runtime.h> by include path, so
 * that a kernel file holds nothing that is not CUDA. smemkit/dialect.py rewrites before it what C++ has no
 * words for: kernel<<<…>>>(…) and extern __shared__ arrays. What runs it: csrc/cpu/executor.h.
 */
#ifndef SMEMKIT_CUDA_RUNTIME_H
#define SMEMKIT_CUDA_RUNTIME_H

#include <cfloat>
#include <climits>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <type_traits>
#include <utility>

#include "../executor.h"

/* smemkit's own library holds its kernels twice, for a GPU and for the CPU: the tag keeps their symbols apart. */
#ifdef SMEMKIT_BESIDE_CUDA
#define __global__ __attribute__((abi_tag("cpu")))
#else
#define __global__
#endif
#define __device__
#define __host__
#define __shared__ thread_local __attribute__((aligned(16)))
#define __constant__
#define __managed__
#define __grid_constant__
#define __forceinline__ inline __attribute__((always_inline))
#define __noinline__    __attribute__((noinline))
#define __launch_bounds__(...)
#define __maxnreg__(...)
#define __cluster_dims__(...)
#define __align__(n) __attribute__((aligned(n)))
#ifndef __CUDACC__
#define __CUDACC__ 1
#endif

/* so that a kernel's pointer can be launched with NULL */
#undef NULL
#define NULL nullptr

#define SMEMKIT_HERE const char *file = __builtin_FILE(), int line = __builtin_LINE()

#include "vector_types.h"
#include "smemkit/host.h"
#include "smemkit/print.h"
#include "smemkit/math.h"
#include "smemkit/sync.h"
#include "smemkit/atomics.h"

#endif
