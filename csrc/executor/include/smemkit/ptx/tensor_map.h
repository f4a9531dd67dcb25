/* tensormap.replace, tensormap.cp_fenceproxy and fence.proxy.tensormap of PTX: tensor maps that a kernel changes.
 * csrc/executor/tensor_map.c has the rules. */
#ifndef SMEMKIT_PTX_TENSOR_MAP_H
#define SMEMKIT_PTX_TENSOR_MAP_H

#include "bulk.h"

namespace smemkit
{

enum ptx_tensor_field {
    ptx_global_address = SMEMKIT_GLOBAL_ADDRESS,
    ptx_rank = SMEMKIT_RANK,
    ptx_box_dim = SMEMKIT_BOX_DIM,
    ptx_global_dim = SMEMKIT_GLOBAL_DIM,
    ptx_global_stride = SMEMKIT_GLOBAL_STRIDE,
    ptx_element_stride = SMEMKIT_ELEMENT_STRIDE,
    ptx_elemtype = SMEMKIT_ELEMTYPE,
    ptx_interleave_layout = SMEMKIT_INTERLEAVE_LAYOUT,
    ptx_swizzle_mode = SMEMKIT_SWIZZLE_MODE,
    ptx_fill_mode = SMEMKIT_FILL_MODE
};

SMEMKIT_INLINE void tensor_map_space(const void *map, bool shared, const char *file, int line)
{
    if (smemkit_is_shared(map) != shared)
        smemkit_trap(shared ? "tensormap of an address outside the block's shared memory, which it needs,"
                            : "tensormap of an address in shared memory, where it needs global memory,",
                     file, line);
}

/* A weak access to the whole map, of which the first word stands for all: one request of the instruction */
SMEMKIT_INLINE void replace_in_tensor_map(smemkit_tensor_field field, void *map, bool shared, unsigned dimension,
                                          uint64_t value, const void *pc, const char *file, int line)
{
    tensor_map_space(map, shared, file, line);
    report_write(map, 8, pc);
    smemkit_replace_in_tensor_map(field, map, dimension, value, file, line);
}
SMEMKIT_INLINE void ptx_tensormap_replace(ptx_tensor_field field, char *map, bool shared, unsigned dimension,
                                          uint64_t value, SMEMKIT_HERE)
{
    replace_in_tensor_map((smemkit_tensor_field)field, map, shared, dimension, value, SMEMKIT_PC, file, line);
}

/* fence.proxy.tensormap::generic.release: maps that the thread has written so far can be acquired. scope: as of a
 * memory fence */
SMEMKIT_INLINE void tensor_map_release(int scope)
{
#ifdef SMEMKIT_CHECKED
    smemkit_checked_tensor_map_release();
#endif
    fence(scope);
}
/* .acquire: copies by this thread see the map at this address as other threads have released it */
SMEMKIT_INLINE void tensor_map_acquire(int scope, [[maybe_unused]] const void *map, uint64_t bytes,
                                       const char *file, int line)
{
    if (bytes != SMEMKIT_TENSOR_MAP_BYTES)
        smemkit_trap("fence.proxy.tensormap of a number of bytes other than 128,", file, line);
    tensor_map_space(map, false, file, line);
    if ((uintptr_t)map % 64)
        smemkit_trap("fence.proxy.tensormap of an address that is not a multiple of 64,", file, line);
    fence(scope);
#ifdef SMEMKIT_CHECKED
    smemkit_checked_tensor_map_acquire(map);
#endif
}
SMEMKIT_INLINE void ptx_tensor_map_acquire(int scope, const char *map, uint64_t bytes, SMEMKIT_HERE)
{
    tensor_map_acquire(scope, map, bytes, file, line);
}

/* The lanes of a warp copy a map from shared to global memory, four bytes each, and release it. */
SMEMKIT_INLINE void copy_tensor_map(int scope, void *to, const void *from, uint64_t bytes, const void *pc,
                                    const char *file, int line)
{
    const unsigned at = (unsigned)lane() * 4;
    smemkit_tensor_map_copy copy = {};
    tensor_map_space(from, true, file, line);
    tensor_map_space(to, false, file, line);
    report_read((const char *)from + at, 4, pc);
    report_write((char *)to + at, 4, pc);
    copy.to = to;
    copy.from = from;
    copy.bytes = (unsigned)bytes;
    smemkit_copy_tensor_map(&copy, file, line);
    tensor_map_release(scope);
    smemkit_warp(SMEMKIT_SYNC, 0xffffffffu, 0, 0, file, line); /* .sync */
}
SMEMKIT_INLINE void ptx_copy_tensor_map(int scope, char *to, const char *from, uint64_t bytes, SMEMKIT_HERE)
{
    copy_tensor_map(scope, to, from, bytes, SMEMKIT_PC, file, line);
}

} // namespace smemkit

#endif
