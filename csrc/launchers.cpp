// The table of launchers of one target. Compiled once per target: for the CPU with the dialect's <cuda_runtime.h>,
// for CUDA with NVIDIA's. SMEMKIT_LAUNCHERS is the table's name.
#include <cuda_runtime.h>

#include "kernels.h"
#include "base/table.h"

#ifdef SMEMKIT_TARGET_CPU
#define HAS_CPU    1
#define HAS_NO_CPU 0
#ifdef SMEMKIT_CHECKED
#define HAS_HOST 0 // plain C is not checked
#else
#define HAS_HOST 1
#endif
#define HAS_ANY    1
#define HAS_SM_80  1 // if the row says CPU
#define HAS_SM_90A 1
#else
#define HAS_CPU    1
#define HAS_NO_CPU 1
#define HAS_HOST   0
#define HAS_ANY    1
#ifdef SMEMKIT_NO_SM_80
#define HAS_SM_80 0
#else
#define HAS_SM_80 1
#endif
#ifdef SMEMKIT_NO_SM_90A
#define HAS_SM_90A 0
#else
#define HAS_SM_90A 1
#endif
#endif

// A rung that runs on the host is a C function without a stream.
#define DECLARE_HOST(op, name)              extern "C" int launch_##op##_##name(const op##_args *);
#define DECLARE_ANY(op, name)               cudaError_t launch_##op##_##name(const op##_args *, cudaStream_t);
#define DECLARE_SM_80                       DECLARE_ANY
#define DECLARE_SM_90A                      DECLARE_ANY
#define KERNEL(op, name, order, needs, ...) DECLARE_##needs(op, name)
#include "kernels.def"
#undef KERNEL

namespace
{

template <class Args, int (*LAUNCHER)(const Args *)>
int call(const void *args, void *)
{
    return LAUNCHER((const Args *)args);
}

template <class Args, cudaError_t (*LAUNCHER)(const Args *, cudaStream_t)>
int call(const void *args, void *stream)
{
    return (int)LAUNCHER((const Args *)args, (cudaStream_t)stream);
}

} // namespace

#define PICK_1(op, name)                         call<op##_args, launch_##op##_##name>
#define PICK_0(op, name)                         nullptr
#define PICK2(has, op, name)                     PICK_##has(op, name)
#define PICK(has, op, name)                      PICK2(has, op, name)
#define AND_11                                   1
#define AND_10                                   0
#define AND_01                                   0
#define AND_00                                   0
#define AND2(a, b)                               AND_##a##b
#define AND(a, b)                                AND2(a, b)
#define KERNEL(op, name, order, needs, cpu, ...) PICK(AND(HAS_##needs, HAS_##cpu), op, name),

#ifndef SMEMKIT_EXPORT
#define SMEMKIT_EXPORT
#endif
extern "C" SMEMKIT_EXPORT const kernel_launcher SMEMKIT_LAUNCHERS[] = {
#include "kernels.def"
};
