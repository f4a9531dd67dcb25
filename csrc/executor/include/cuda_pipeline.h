/* cp.async as functions: asynchronous copies from global to shared memory. Here they are performed at the wait
 * (csrc/executor/async.c), so that a missing wait shows in the result. */
#ifndef SMEMKIT_CUDA_PIPELINE_H
#define SMEMKIT_CUDA_PIPELINE_H

#include <cuda_runtime.h>

#include "smemkit/async.h"

SMEMKIT_INLINE void __pipeline_memcpy_async(void *to, const void *from, size_t bytes, SMEMKIT_HERE)
{
    smemkit_async_copy(to, from, (unsigned)bytes, 0, smemkit::path_of(bytes, false), SMEMKIT_PC, file, line);
}
/* a template, so that the number 0 is no name of a file */
template <class Integer, class = std::enable_if_t<std::is_integral_v<Integer>>>
SMEMKIT_INLINE void __pipeline_memcpy_async(void *to, const void *from, size_t bytes, Integer zeros, SMEMKIT_HERE)
{
    smemkit_async_copy(to, from, (unsigned)bytes, (unsigned)zeros, smemkit::path_of(bytes, true), SMEMKIT_PC, file,
                       line);
}
SMEMKIT_INLINE void __pipeline_commit()
{
    smemkit_async_commit();
}
/* waits for all but the last `prior` groups */
SMEMKIT_INLINE void __pipeline_wait_prior(size_t prior)
{
    smemkit_async_wait((unsigned)prior);
}
template <class Barrier>
void __pipeline_arrive_on(Barrier *)
    SMEMKIT_UNAVAILABLE("__pipeline_arrive_on, which needs an mbarrier, does not run on the CPU device; use "
                        "__pipeline_wait_prior and __syncthreads");

#endif
