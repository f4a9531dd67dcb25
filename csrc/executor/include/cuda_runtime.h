/* The dialect: CUDA C++ for the host's C++ compiler. The include path finds it as <cuda_runtime.h>, so that kernel
 * files contain only CUDA. smemkit/cuda_source/ first rewrites what C++ cannot express: kernel<<<…>>>(…) and
 * __shared__ variables. The executor that runs it: csrc/executor/executor.h.
 */
#ifndef SMEMKIT_CUDA_RUNTIME_H
#define SMEMKIT_CUDA_RUNTIME_H

#include <cfloat>
#include <climits>
#if __has_include(<bits/stl_algobase.h>) /* libstdc++ */
#undef _GLIBCXX_USE_STD_SPEC_FUNCS       /* of <cmath>: std::riemann_zeta and its like, slow and not for a GPU */
#include <bits/stl_algobase.h>           /* std::min, std::max and std::swap, which come with them */
#endif
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <limits>
#include <new>
#include <type_traits>
#include <utility>

#include <math.h> /* sin(float) and its like at file scope, as in CUDA */

#include "../executor.h"

/* smemkit's own library contains each kernel twice, for a GPU and for the CPU: the tag makes their symbols
 * different. */
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
#ifdef SMEMKIT_CHECKED /* faults are reported with the calls that led to them */
#define __forceinline__ inline
#else
#define __forceinline__ inline __attribute__((always_inline))
#endif
#define __noinline__ /* empty: gcc 13's C++ library uses __attribute__((__noinline__)) */
#define __launch_bounds__(...)
#define __maxnreg__(...)
#define __cluster_dims__(...) SMEMKIT_CLUSTER_DIMS(__VA_ARGS__)
#define SMEMKIT_CLUSTER_DIMS(...)
#define __align__(n) __attribute__((aligned(n)))
#ifndef __CUDACC__
#define __CUDACC__ 1
#endif
/* The architecture that kernels see; -D__CUDA_ARCH__=800 selects another one. smemkit's own kernels take the path
 * of the oldest one, without inline PTX. The versions are those of the newest toolkit supported. */
#ifndef __CUDA_ARCH__
#ifdef SMEMKIT_UNWATCHED
#define __CUDA_ARCH__ 750
#else
#define __CUDA_ARCH__ 900
#endif
#endif
#ifndef __NVCC__
#define __NVCC__ 1
#endif
#ifndef __CUDACC_VER_MAJOR__
#define __CUDACC_VER_MAJOR__ 13
#define __CUDACC_VER_MINOR__ 0
#define __CUDACC_VER_BUILD__ 0
#endif
#ifndef CUDART_VERSION
#define CUDART_VERSION 13000
#endif

/* so that NULL can be passed as a kernel's pointer argument */
#undef NULL
#define NULL nullptr

/* A checked build has a hook at every memory access and at every basic block of the kernel. The dialect's own
 * functions have none, because they are not what is checked; they report the kernel's accesses themselves, with
 * the kernel's call site (SMEMKIT_PC, in the function that the kernel calls).
 */
#ifndef SMEMKIT_CHECKED
#define SMEMKIT_NO_HOOKS
#define SMEMKIT_PC ((const void *)nullptr)
#else
#if defined(__clang__) && __has_attribute(disable_sanitizer_instrumentation)
#define SMEMKIT_NO_HOOKS \
    __attribute__((no_sanitize("thread", "coverage", "bounds"), disable_sanitizer_instrumentation))
#elif defined(__clang__)
#define SMEMKIT_NO_HOOKS __attribute__((no_sanitize("thread", "coverage", "bounds")))
#elif __has_attribute(no_sanitize_coverage)
#define SMEMKIT_NO_HOOKS __attribute__((no_sanitize("thread,bounds"), no_sanitize_coverage))
#else
#define SMEMKIT_NO_HOOKS __attribute__((no_sanitize("thread,bounds")))
#endif
#define SMEMKIT_PC ((const void *)__builtin_return_address(0))
#endif
#define SMEMKIT_INLINE SMEMKIT_NO_HOOKS static inline
/* For an overloaded function that uses templates: as a template it is compiled only where it is used. The
 * templates that other functions use are instantiated for every kernel, even from a precompiled header. */
#define SMEMKIT_IF_USED     \
    template <class = void> \
    SMEMKIT_INLINE

/* For CUDA features that the CPU device lacks: a compile error at the line of the kernel that uses them */
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
#include "smemkit/special.h"
#include "smemkit/simd.h"
#include "smemkit/sync.h"
#include "smemkit/cluster.h"
#include "smemkit/atomics.h"
#include "smemkit/nv_atomic.h"
#include "smemkit/texture.h"
#include "smemkit/texture_host.h"

/* Called by gcc's check for writes past the end of local arrays */
extern "C" SMEMKIT_NO_HOOKS __attribute__((weak, used, visibility("hidden"), noreturn)) void __stack_chk_fail()
{
    smemkit_overrun((const void *)__builtin_return_address(0));
}

/* In a checked build copies are function calls, because gcc copies 12 or 24 bytes without a hook */
#ifdef SMEMKIT_CHECKED
#define __builtin_memcpy  memcpy
#define __builtin_memmove memmove
#define __builtin_memset  memset
#endif

#endif
