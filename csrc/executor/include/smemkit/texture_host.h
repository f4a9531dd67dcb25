/* The host's side of textures: arrays, their copies, and the objects that describe them. */
#ifndef SMEMKIT_TEXTURE_HOST_H
#define SMEMKIT_TEXTURE_HOST_H

#include "texture.h"

static inline cudaChannelFormatDesc cudaCreateChannelDesc(int x, int y, int z, int w, cudaChannelFormatKind kind)
{
    return {x, y, z, w, kind};
}
template <class T>
static inline cudaChannelFormatDesc cudaCreateChannelDesc()
{
    using element = typename smemkit::texel<T>::type;
    const int bits = 8 * (int)sizeof(element), lanes = smemkit::texel<T>::lanes;
    return {bits, lanes > 1 ? bits : 0, lanes > 2 ? bits : 0, lanes > 3 ? bits : 0,
            !std::is_integral_v<element> ? cudaChannelFormatKindFloat
            : std::is_signed_v<element>  ? cudaChannelFormatKindSigned
                                         : cudaChannelFormatKindUnsigned};
}
static inline cudaExtent make_cudaExtent(size_t width, size_t height, size_t depth)
{
    return {width, height, depth};
}
static inline cudaPos make_cudaPos(size_t x, size_t y, size_t z)
{
    return {x, y, z};
}
static inline cudaPitchedPtr make_cudaPitchedPtr(void *memory, size_t pitch, size_t width, size_t height)
{
    return {memory, pitch, width, height};
}
static inline cudaError_t cudaMalloc3DArray(cudaArray_t *array, const cudaChannelFormatDesc *format,
                                            cudaExtent extent, unsigned flags = 0)
{
    const size_t rows = extent.height ? extent.height : 1, slices = extent.depth ? extent.depth : 1;
    auto *data = (unsigned char *)smemkit_allocate(extent.width * rows * slices * smemkit::texel_bytes(*format));
    *array = data ? new cudaArray{*format, extent, flags, data} : nullptr;
    return (cudaError_t)smemkit_set_error(data ? cudaSuccess : cudaErrorMemoryAllocation);
}
static inline cudaError_t cudaMallocArray(cudaArray_t *array, const cudaChannelFormatDesc *format, size_t width,
                                          size_t height = 0, unsigned flags = 0)
{
    return cudaMalloc3DArray(array, format, {width, height, 0}, flags);
}
static inline cudaError_t cudaFreeArray(cudaArray_t array)
{
    if (array)
        smemkit_release(array->data);
    delete array;
    return cudaSuccess;
}
/* the address of row y of slice z on one side of a copy, which is an array, or pitched memory */
static inline unsigned char *smemkit_copied_row(cudaArray_t array, cudaPos at, cudaPitchedPtr memory, size_t y,
                                                size_t z)
{
    if (!array)
        return (unsigned char *)memory.ptr + ((at.z + z) * memory.ysize + at.y + y) * memory.pitch + at.x;
    const size_t texels = smemkit::texel_bytes(array->format), rows = array->extent.height + !array->extent.height;
    return array->data + (((at.z + z) * rows + at.y + y) * array->extent.width + at.x) * texels;
}
static inline cudaError_t cudaMemcpy3D(const cudaMemcpy3DParms *copy)
{
    const cudaArray_t any = copy->srcArray ? copy->srcArray : copy->dstArray;
    const size_t bytes = copy->extent.width * (any ? smemkit::texel_bytes(any->format) : 1);
    for (size_t z = 0; z < copy->extent.depth; z++)
        for (size_t y = 0; y < copy->extent.height; y++)
            memmove(smemkit_copied_row(copy->dstArray, copy->dstPos, copy->dstPtr, y, z),
                    smemkit_copied_row(copy->srcArray, copy->srcPos, copy->srcPtr, y, z), bytes);
    return cudaSuccess;
}
static inline cudaError_t cudaMemcpy2DToArray(cudaArray_t array, size_t x, size_t y, const void *from,
                                              size_t pitch, size_t width, size_t height, cudaMemcpyKind)
{
    const size_t row = array->extent.width * smemkit::texel_bytes(array->format);
    for (size_t i = 0; i < height; i++)
        memmove(array->data + (y + i) * row + x, (const char *)from + i * pitch, width);
    return cudaSuccess;
}
static inline cudaError_t cudaMemcpyToArray(cudaArray_t array, size_t x, size_t y, const void *from, size_t bytes,
                                            cudaMemcpyKind kind)
{
    return cudaMemcpy2DToArray(array, x, y, from, bytes, bytes, 1, kind);
}
static inline cudaError_t cudaMemcpy2DFromArray(void *to, size_t pitch, cudaArray_const_t array, size_t x,
                                                size_t y, size_t width, size_t height, cudaMemcpyKind)
{
    const size_t row = array->extent.width * smemkit::texel_bytes(array->format);
    for (size_t i = 0; i < height; i++)
        memmove((char *)to + i * pitch, array->data + (y + i) * row + x, width);
    return cudaSuccess;
}

namespace smemkit
{

SMEMKIT_INLINE texture *make_texture(const cudaResourceDesc &resource, const cudaTextureDesc &how)
{
    if (resource.resType == cudaResourceTypeLinear) {
        const auto &linear = resource.res.linear;
        const long width = (long)linear.sizeInBytes / texel_bytes(linear.desc);
        return new texture{
            (const unsigned char *)linear.devPtr, linear.desc, {width, 1, 1}, 0, 0, how, false, true};
    }
    if (resource.resType == cudaResourceTypePitch2D) {
        const auto &pitched = resource.res.pitch2D;
        const long width = (long)pitched.width, height = (long)pitched.height;
        const auto *data = (const unsigned char *)pitched.devPtr;
        return new texture{data, pitched.desc, {width, height, 1}, pitched.pitchInBytes, 0, how, false, false};
    }
    const cudaArray &array = *resource.res.array.array;
    const long width = (long)array.extent.width, height = (long)array.extent.height + !array.extent.height;
    const size_t row = array.extent.width * (size_t)texel_bytes(array.format);
    const long depth = (long)array.extent.depth + !array.extent.depth;
    const bool cubemap = array.flags & cudaArrayCubemap;
    return new texture{array.data, array.format, {width, height, depth}, row, row * (size_t)height, how,
                       cubemap,    false};
}

} // namespace smemkit

static inline cudaError_t cudaCreateTextureObject(cudaTextureObject_t *object, const cudaResourceDesc *resource,
                                                  const cudaTextureDesc *how, const void *)
{
    enum { PITCH_ALIGNMENT = 32 }; // cudaDeviceProp::texturePitchAlignment
    if (resource->resType == cudaResourceTypePitch2D && resource->res.pitch2D.pitchInBytes % PITCH_ALIGNMENT)
        return (cudaError_t)smemkit_set_error(cudaErrorInvalidValue);
    *object = (cudaTextureObject_t)smemkit::make_texture(*resource, *how);
    return cudaSuccess;
}
static inline cudaError_t cudaDestroyTextureObject(cudaTextureObject_t object)
{
    delete (smemkit::texture *)object;
    return cudaSuccess;
}
static inline cudaError_t cudaCreateSurfaceObject(cudaSurfaceObject_t *object, const cudaResourceDesc *resource)
{
    const cudaTextureDesc how = {};
    return cudaCreateTextureObject(object, resource, &how, nullptr);
}
static inline cudaError_t cudaDestroySurfaceObject(cudaSurfaceObject_t object)
{
    return cudaDestroyTextureObject(object);
}

#endif
