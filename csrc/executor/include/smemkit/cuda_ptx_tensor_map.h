/* cuda::ptx: the instructions that change tensor maps. */
#ifndef SMEMKIT_CUDA_PTX_TENSOR_MAP_H
#define SMEMKIT_CUDA_PTX_TENSOR_MAP_H

#include "ptx/tensor_map.h"

namespace cuda
{
namespace ptx
{

template <class Scope>
SMEMKIT_INLINE constexpr int fence_scope()
{
    return ::std::is_same_v<Scope, scope_cta_t> ? 1 : ::std::is_same_v<Scope, scope_sys_t> ? 3 : 2;
}

#define SMEMKIT_REPLACE(name, field, bytes)                                                                     \
    template <class Space, class T>                                                                             \
    SMEMKIT_INLINE void tensormap_replace_##name(Space, void *map, T value, SMEMKIT_HERE)                       \
    {                                                                                                           \
        static_assert(sizeof(T) == bytes, "tensormap.replace of " #name " takes a value of another size");      \
        smemkit::replace_in_tensor_map(field, map, ::std::is_same_v<Space, space_shared_t>, 0, (uint64_t)value, \
                                       SMEMKIT_PC, file, line);                                                 \
    }
#define SMEMKIT_REPLACE_OF_DIMENSION(name, field, bytes)                                                        \
    template <class Space, int N, class T>                                                                      \
    SMEMKIT_INLINE void tensormap_replace_##name(Space, void *map, n32_t<N>, T value, SMEMKIT_HERE)             \
    {                                                                                                           \
        static_assert(sizeof(T) == bytes, "tensormap.replace of " #name " takes a value of another size");      \
        smemkit::replace_in_tensor_map(field, map, ::std::is_same_v<Space, space_shared_t>, N, (uint64_t)value, \
                                       SMEMKIT_PC, file, line);                                                 \
    }
#define SMEMKIT_REPLACE_BY_CONSTANT(name, field)                                                              \
    template <class Space, int N>                                                                             \
    SMEMKIT_INLINE void tensormap_replace_##name(Space, void *map, n32_t<N>, SMEMKIT_HERE)                    \
    {                                                                                                         \
        smemkit::replace_in_tensor_map(field, map, ::std::is_same_v<Space, space_shared_t>, 0, N, SMEMKIT_PC, \
                                       file, line);                                                           \
    }
SMEMKIT_REPLACE(global_address, SMEMKIT_GLOBAL_ADDRESS, 8)
SMEMKIT_REPLACE(rank, SMEMKIT_RANK, 4)
SMEMKIT_REPLACE_OF_DIMENSION(box_dim, SMEMKIT_BOX_DIM, 4)
SMEMKIT_REPLACE_OF_DIMENSION(global_dim, SMEMKIT_GLOBAL_DIM, 4)
SMEMKIT_REPLACE_OF_DIMENSION(global_stride, SMEMKIT_GLOBAL_STRIDE, 8)
SMEMKIT_REPLACE_OF_DIMENSION(element_stride, SMEMKIT_ELEMENT_STRIDE, 4)
SMEMKIT_REPLACE_OF_DIMENSION(element_size, SMEMKIT_ELEMENT_STRIDE, 4) /* the old name */
SMEMKIT_REPLACE_BY_CONSTANT(elemtype, SMEMKIT_ELEMTYPE)
SMEMKIT_REPLACE_BY_CONSTANT(interleave_layout, SMEMKIT_INTERLEAVE_LAYOUT)
SMEMKIT_REPLACE_BY_CONSTANT(swizzle_mode, SMEMKIT_SWIZZLE_MODE)
SMEMKIT_REPLACE_BY_CONSTANT(fill_mode, SMEMKIT_FILL_MODE)
#undef SMEMKIT_REPLACE
#undef SMEMKIT_REPLACE_OF_DIMENSION
#undef SMEMKIT_REPLACE_BY_CONSTANT

template <class Scope, int N>
SMEMKIT_INLINE void tensormap_cp_fenceproxy(sem_release_t, Scope, void *to, const void *from, n32_t<N>,
                                            SMEMKIT_HERE)
{
    smemkit::copy_tensor_map(fence_scope<Scope>(), to, from, N, SMEMKIT_PC, file, line);
}
template <class Scope>
SMEMKIT_INLINE void fence_proxy_tensormap_generic(sem_release_t, Scope)
{
    smemkit::tensor_map_release(fence_scope<Scope>());
}
template <class Scope, int N>
SMEMKIT_INLINE void fence_proxy_tensormap_generic(sem_acquire_t, Scope, const void *map, n32_t<N>, SMEMKIT_HERE)
{
    smemkit::tensor_map_acquire(fence_scope<Scope>(), map, N, file, line);
}

} // namespace ptx
} // namespace cuda

#endif
