/* The dialect: CUDA C++ as the host's C++ compiler can read it. Found as <cuda_runtime.h> by include path, so
 * that a kernel file holds nothing that is not CUDA. smemkit/dialect.py rewrites before it what C++ has no
 * words for: kernel<<<…>>>(…) and __shared__ variables. What runs it: csrc/cpu/executor.h.
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
#include <ctime>
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
#define __shared__ _Pragma("GCC error \"smemkit: a declaration of shared memory that the CPU device cannot read\"")
#define __constant__
#define __managed__
#define __grid_constant__
#define __forceinline__ inline __attribute__((always_inline))
#define __noinline__    /* nothing: the C++ library of gcc 13 writes __attribute__((__noinline__)) */
#define __launch_bounds__(...)
#define __maxnreg__(...)
#define __cluster_dims__(...)
#define __align__(n) __attribute__((aligned(n)))
#ifndef __CUDACC__
#define __CUDACC__ 1
#endif
/* What a kernel that asks is told: the oldest GPU that smemkit knows. Code for newer ones is mostly inline PTX,
 * and has another way beside it. */
#ifndef __CUDA_ARCH__
#define __CUDA_ARCH__ 750
#endif

/* so that a kernel's pointer can be launched with NULL */
#undef NULL
#define NULL nullptr

/* A build for checking has a hook at every access to memory and at every basic block of the kernel. The dialect's
 * own functions have none: they are not what is checked, and what they do for the kernel they tell the checker
 * themselves, with the place in the kernel that called them (SMEMKIT_PC, in the function that the kernel calls).
 */
#ifndef SMEMKIT_CHECKED
#define SMEMKIT_UNSEEN
#define SMEMKIT_PC ((const void *)nullptr)
#else
#if defined(__clang__) && __has_attribute(disable_sanitizer_instrumentation)
#define SMEMKIT_UNSEEN \
    __attribute__((no_sanitize("thread", "coverage", "bounds"), disable_sanitizer_instrumentation))
#elif defined(__clang__)
#define SMEMKIT_UNSEEN __attribute__((no_sanitize("thread", "coverage", "bounds")))
#elif __has_attribute(no_sanitize_coverage)
#define SMEMKIT_UNSEEN __attribute__((no_sanitize("thread,bounds"), no_sanitize_coverage))
#else
#define SMEMKIT_UNSEEN __attribute__((no_sanitize("thread,bounds")))
#endif
#define SMEMKIT_PC ((const void *)__builtin_return_address(0))
#endif
#define SMEMKIT_INLINE SMEMKIT_UNSEEN static inline

/* For what CUDA has and the CPU device has not: an error in the line of the kernel that calls it */
#if __has_attribute(unavailable)
#define SMEMKIT_UNAVAILABLE(message) __attribute__((unavailable(message)))
#else
#define SMEMKIT_UNAVAILABLE(message) __attribute__((error(message)))
#endif

#define SMEMKIT_HERE const char *file = __builtin_FILE(), int line = __builtin_LINE()

#include "vector_types.h"
#include "smemkit/checked.h"
#include "smemkit/shared.h"
#include "smemkit/host.h"
#include "smemkit/print.h"
#include "smemkit/math.h"
#include "smemkit/sync.h"
#include "smemkit/atomics.h"

/* Where gcc checks that a function has not written past the end of its local arrays */
extern "C" SMEMKIT_UNSEEN __attribute__((weak, used, visibility("hidden"), noreturn)) void __stack_chk_fail()
{
    smemkit_overrun((const void *)__builtin_return_address(0));
}

/* In a checked build copies are calls of functions, since gcc moves 12 or 24 bytes without a hook */
#ifdef SMEMKIT_CHECKED
#define __builtin_memcpy  memcpy
#define __builtin_memmove memmove
#define __builtin_memset  memset
#endif

#endif
