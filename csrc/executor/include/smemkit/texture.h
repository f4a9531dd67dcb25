/* Texture and surface objects, by the rules of the CUDA Programming Guide's appendix "Texture Fetching": addresses
 * outside by the address mode, point or linear filtering, fractions with 8 bits, integers as they are or as
 * normalised floats. An object is the address of its description. Mipmaps have one level. Texels are read from an
 * array, or from linear memory; the checker does not see these reads. */
#ifndef SMEMKIT_TEXTURE_H
#define SMEMKIT_TEXTURE_H

#include "narrow_bits.h"

typedef unsigned long long cudaTextureObject_t;
typedef unsigned long long cudaSurfaceObject_t;

enum cudaChannelFormatKind {
    cudaChannelFormatKindSigned,
    cudaChannelFormatKindUnsigned,
    cudaChannelFormatKindFloat,
    cudaChannelFormatKindNone
};
enum cudaTextureAddressMode {
    cudaAddressModeWrap,
    cudaAddressModeClamp,
    cudaAddressModeMirror,
    cudaAddressModeBorder
};
enum cudaTextureFilterMode { cudaFilterModePoint, cudaFilterModeLinear };
enum cudaTextureReadMode { cudaReadModeElementType, cudaReadModeNormalizedFloat };
enum cudaSurfaceBoundaryMode { cudaBoundaryModeZero, cudaBoundaryModeClamp, cudaBoundaryModeTrap };
enum cudaResourceType {
    cudaResourceTypeArray,
    cudaResourceTypeMipmappedArray,
    cudaResourceTypeLinear,
    cudaResourceTypePitch2D
};
enum { cudaArrayDefault = 0, cudaArrayLayered = 1, cudaArraySurfaceLoadStore = 2, cudaArrayCubemap = 4 };

struct cudaChannelFormatDesc {
    int x, y, z, w; /* bits of each component */
    cudaChannelFormatKind f;
};
struct cudaExtent {
    size_t width, height, depth;
};
struct cudaPos {
    size_t x, y, z;
};
struct cudaPitchedPtr {
    void *ptr;
    size_t pitch, xsize, ysize;
};
struct cudaArray {
    cudaChannelFormatDesc format;
    cudaExtent extent; /* a missing dimension is 0; depth counts layers as well */
    unsigned flags;
    unsigned char *data;
};
typedef cudaArray *cudaArray_t;
typedef const cudaArray *cudaArray_const_t;
typedef cudaArray *cudaMipmappedArray_t;

struct cudaResourceDesc {
    cudaResourceType resType;
    union {
        struct {
            cudaArray_t array;
        } array;
        struct {
            cudaMipmappedArray_t mipmap;
        } mipmap;
        struct {
            void *devPtr;
            cudaChannelFormatDesc desc;
            size_t sizeInBytes;
        } linear;
        struct {
            void *devPtr;
            cudaChannelFormatDesc desc;
            size_t width, height, pitchInBytes;
        } pitch2D;
    } res;
};
struct cudaTextureDesc {
    cudaTextureAddressMode addressMode[3];
    cudaTextureFilterMode filterMode;
    cudaTextureReadMode readMode;
    int sRGB;
    float borderColor[4];
    int normalizedCoords;
    unsigned maxAnisotropy;
    cudaTextureFilterMode mipmapFilterMode;
    float mipmapLevelBias, minMipmapLevelClamp, maxMipmapLevelClamp;
    int disableTrilinearOptimization, seamlessCubemap;
};
struct cudaMemcpy3DParms {
    cudaArray_t srcArray;
    cudaPos srcPos;
    cudaPitchedPtr srcPtr;
    cudaArray_t dstArray;
    cudaPos dstPos;
    cudaPitchedPtr dstPtr;
    cudaExtent extent;
    cudaMemcpyKind kind;
};

namespace smemkit
{

struct texture {
    const unsigned char *data;
    cudaChannelFormatDesc format;
    long size[3]; /* a missing dimension is 1 */
    size_t row, slice;
    cudaTextureDesc how;
    bool cubemap;
    bool linear; /* memory without dimensions, for tex1Dfetch */
};
static_assert(sizeof(texture) == 152 && sizeof(cudaTextureDesc) == 72, "as in smemkit/user_kernel/cpu_texture.py");

template <class T>
struct texel {
    using type = T;
    static constexpr int lanes = 1;
};
#define SMEMKIT_TEXEL(name, base)       \
    template <>                         \
    struct texel<name##1> {             \
        using type = base;              \
        static constexpr int lanes = 1; \
    };                                  \
    template <>                         \
    struct texel<name##2> {             \
        using type = base;              \
        static constexpr int lanes = 2; \
    };                                  \
    template <>                         \
    struct texel<name##3> {             \
        using type = base;              \
        static constexpr int lanes = 3; \
    };                                  \
    template <>                         \
    struct texel<name##4> {             \
        using type = base;              \
        static constexpr int lanes = 4; \
    };
SMEMKIT_TEXEL(char, signed char)
SMEMKIT_TEXEL(uchar, unsigned char)
SMEMKIT_TEXEL(short, short)
SMEMKIT_TEXEL(ushort, unsigned short)
SMEMKIT_TEXEL(int, int)
SMEMKIT_TEXEL(uint, unsigned)
SMEMKIT_TEXEL(long, long)
SMEMKIT_TEXEL(ulong, unsigned long)
SMEMKIT_TEXEL(float, float)
#undef SMEMKIT_TEXEL

SMEMKIT_INLINE int texel_bytes(const cudaChannelFormatDesc &format)
{
    return (format.x + format.y + format.z + format.w) / 8;
}

/* The index of a texel under an address mode; -1: outside, the border */
SMEMKIT_INLINE long wrapped(long i, long size, cudaTextureAddressMode mode, bool normalized)
{
    if (i >= 0 && i < size)
        return i;
    if (mode == cudaAddressModeBorder)
        return -1;
    if (mode == cudaAddressModeClamp || !normalized)
        return i < 0 ? 0 : size - 1;
    const long period = mode == cudaAddressModeWrap ? size : 2 * size, at = (i % period + period) % period;
    return at < size ? at : period - 1 - at;
}

/* The bits of a component, extended to 32 */
SMEMKIT_INLINE uint32_t component_bits(const texture &t, const unsigned char *at, int component)
{
    const int bytes = t.format.x / 8;
    uint32_t bits = 0;
    for (int i = 0; i < bytes; i++) /* memcpy would be an access of the kernel to the checker */
        bits |= (uint32_t)at[component * bytes + i] << 8 * i;
    if (t.format.f == cudaChannelFormatKindSigned && bytes < 4 && bits >> (8 * bytes - 1))
        bits |= ~0u << 8 * bytes;
    return bits;
}

SMEMKIT_INLINE float component_float(const texture &t, uint32_t bits)
{
    const int width = t.format.x;
    if (t.format.f == cudaChannelFormatKindFloat)
        return width == 16 ? float16_to_float((uint16_t)bits) : __uint_as_float(bits);
    if (t.format.f == cudaChannelFormatKindUnsigned)
        return (float)bits / (float)((1ull << width) - 1);
    const float value = (float)(int)bits / (float)((1ull << (width - 1)) - 1);
    return value < -1 ? -1 : value;
}

SMEMKIT_INLINE int components(const texture &t)
{
    return !!t.format.x + !!t.format.y + !!t.format.z + !!t.format.w;
}

/* The address of a texel; null: outside */
SMEMKIT_INLINE const unsigned char *texel_address(const texture &t, long x, long y, long z)
{
    const bool normalized = t.how.normalizedCoords;
    x = wrapped(x, t.size[0], t.how.addressMode[0], normalized);
    y = wrapped(y, t.size[1], t.how.addressMode[1], normalized);
    z = wrapped(z, t.size[2], t.how.addressMode[2], normalized);
    return (x | y | z) < 0 ? nullptr : t.data + z * t.slice + y * t.row + x * texel_bytes(t.format);
}

SMEMKIT_INLINE float texel_float(const texture &t, long x, long y, long z, int component)
{
    const unsigned char *at = texel_address(t, x, y, z);
    if (!at)
        return t.how.borderColor[component];
    return component < components(t) ? component_float(t, component_bits(t, at, component)) : 0;
}

struct filtered_axis {
    long first;
    float fraction; /* 0: the first texel alone */
};
SMEMKIT_INLINE filtered_axis filter_axis(const texture &t, int axis, float at)
{
    const float x = t.how.normalizedCoords ? at * (float)t.size[axis] : at;
    if (t.how.filterMode == cudaFilterModePoint)
        return {(long)floorf(x), 0};
    const float centred = x - 0.5f, first = floorf(centred);
    return {(long)first, rintf((centred - first) * 256) / 256};
}

/* The linear interpolation between up to eight texels */
SMEMKIT_INLINE float filtered(const texture &t, const filtered_axis (&axes)[3], int component)
{
    float sum = 0;
    for (int corner = 0; corner < 8; corner++) {
        float weight = 1;
        long at[3];
        for (int i = 0; i < 3; i++) {
            const bool second = corner >> i & 1;
            weight *= second ? axes[i].fraction : 1 - axes[i].fraction;
            at[i] = axes[i].first + second;
        }
        if (weight != 0)
            sum += weight * texel_float(t, at[0], at[1], at[2], component);
    }
    return sum;
}

/* The description is not memory of the kernel, so the checker must not see reads of it. */
SMEMKIT_INLINE texture texture_of(unsigned long long object, const char *what, const char *file, int line)
{
    if (!object)
        smemkit_trap(what, file, line);
    return load((const texture *)object);
}
SMEMKIT_INLINE texture texture_of(cudaTextureObject_t object, const char *file, int line)
{
    return texture_of(object, "a fetch from the texture object 0", file, line);
}

/* Fetches at up to three filtered axes */
template <class T>
SMEMKIT_INLINE T fetch(const texture &t, const filtered_axis (&axes)[3])
{
    using element = typename texel<T>::type;
    element values[4] = {};
    const bool as_float = std::is_same_v<element, float>;
    const unsigned char *at = texel_address(t, axes[0].first, axes[1].first, axes[2].first);
    for (int i = 0; i < texel<T>::lanes; i++) {
        if (as_float)
            values[i] = (element)filtered(t, axes, i);
        else if (at && i < components(t)) {
            const uint32_t bits = component_bits(t, at, i);
            memcpy(&values[i], &bits, sizeof values[i] < 4 ? sizeof values[i] : 4);
        }
    }
    T result;
    memcpy(&result, values, sizeof result);
    return result;
}

template <class T>
SMEMKIT_INLINE T fetch_at(cudaTextureObject_t object, int axes, float x, float y, float z, int layer,
                          const char *file, int line)
{
    texture t = texture_of(object, file, line);
    if (t.linear)
        smemkit_trap("a fetch by coordinates from a texture of linear memory, which tex1Dfetch alone reads", file,
                     line);
    const float at[3] = {x, y, z};
    filtered_axis found[3] = {};
    for (int i = 0; i < axes; i++)
        found[i] = filter_axis(t, i, at[i]);
    if (axes < 3 && t.size[2] > 1) { /* a layer; clamped */
        t.data += t.slice * (size_t)(layer < 0 ? 0 : layer < t.size[2] ? layer : t.size[2] - 1);
        t.size[2] = 1;
    }
    return fetch<T>(t, found);
}

/* The face of a cube and the position on it, by the table of the guide's "Cubemap Textures" */
struct cube_place {
    int face;
    float s, t;
};
SMEMKIT_INLINE cube_place place_on_cube(float x, float y, float z)
{
    const float ax = fabsf(x), ay = fabsf(y), az = fabsf(z);
    int face = x >= 0 ? 0 : 1;
    float m = ax, s = x >= 0 ? -z : z, t = -y;
    if (ay > ax && ay >= az) {
        face = y >= 0 ? 2 : 3;
        m = ay, s = x, t = y >= 0 ? z : -z;
    } else if (az > ax && az > ay) {
        face = z >= 0 ? 4 : 5;
        m = az, s = z >= 0 ? x : -x, t = -y;
    }
    return {face, (s / m + 1) / 2, (t / m + 1) / 2};
}

template <class T>
SMEMKIT_INLINE T fetch_cube(cudaTextureObject_t object, float x, float y, float z, int layer, const char *file,
                            int line)
{
    const texture t = texture_of(object, file, line);
    const cube_place at = place_on_cube(x, y, z);
    const float scale = t.how.normalizedCoords ? 1 : (float)t.size[0];
    return fetch_at<T>(object, 2, at.s * scale, at.t * scale, 0, 6 * layer + at.face, file, line);
}

/* tex1Dfetch: an integer index; outside it gives 0 */
template <class T>
SMEMKIT_INLINE T fetch_index(cudaTextureObject_t object, int x, const char *file, int line)
{
    const texture t = texture_of(object, file, line);
    if (!t.linear)
        smemkit_trap("tex1Dfetch from a texture that is not of linear memory", file, line);
    if (x < 0 || x >= t.size[0])
        return T{};
    return fetch<T>(t, {{x, 0}, {0, 0}, {0, 0}});
}

/* tex2Dgather: one component of the four texels that linear filtering would take, anticlockwise from the lower
 * left */
template <class T>
SMEMKIT_INLINE T gather(cudaTextureObject_t object, float x, float y, int component, const char *file, int line)
{
    texture t = texture_of(object, file, line);
    using element = typename texel<T>::type;
    const int dx[4] = {0, 1, 1, 0}, dy[4] = {1, 1, 0, 0};
    element values[4];
    t.how.filterMode = cudaFilterModeLinear;
    const long i = filter_axis(t, 0, x).first, j = filter_axis(t, 1, y).first;
    t.how.filterMode = cudaFilterModePoint;
    for (int k = 0; k < 4; k++) {
        if (std::is_same_v<element, float>) {
            values[k] = (element)texel_float(t, i + dx[k], j + dy[k], 0, component);
        } else {
            const unsigned char *at = texel_address(t, i + dx[k], j + dy[k], 0);
            const uint32_t bits = at ? component_bits(t, at, component) : 0;
            memcpy(&values[k], &bits, sizeof values[k]);
        }
    }
    T result;
    memcpy(&result, values, sizeof result);
    return result;
}

} // namespace smemkit

/* Each fetch also has a form that stores its result. */
#define SMEMKIT_FETCH(name, parameters, arguments, call)                                                     \
    template <class T>                                                                                       \
    SMEMKIT_INLINE T name(cudaTextureObject_t object, SMEMKIT_UNPACK parameters, SMEMKIT_HERE)               \
    {                                                                                                        \
        return call;                                                                                         \
    }                                                                                                        \
    template <class T>                                                                                       \
    SMEMKIT_INLINE void name(T *result, cudaTextureObject_t object, SMEMKIT_UNPACK parameters, SMEMKIT_HERE) \
    {                                                                                                        \
        *result = name<T>(object, SMEMKIT_UNPACK arguments, file, line);                                     \
    }
#define SMEMKIT_UNPACK(...) __VA_ARGS__
SMEMKIT_FETCH(tex1Dfetch, (int x), (x), smemkit::fetch_index<T>(object, x, file, line))
SMEMKIT_FETCH(tex1D, (float x), (x), smemkit::fetch_at<T>(object, 1, x, 0, 0, 0, file, line))
SMEMKIT_FETCH(tex2D, (float x, float y), (x, y), smemkit::fetch_at<T>(object, 2, x, y, 0, 0, file, line))
SMEMKIT_FETCH(tex3D, (float x, float y, float z), (x, y, z),
              smemkit::fetch_at<T>(object, 3, x, y, z, 0, file, line))
SMEMKIT_FETCH(tex1DLayered, (float x, int layer), (x, layer),
              smemkit::fetch_at<T>(object, 1, x, 0, 0, layer, file, line))
SMEMKIT_FETCH(tex2DLayered, (float x, float y, int layer), (x, y, layer),
              smemkit::fetch_at<T>(object, 2, x, y, 0, layer, file, line))
SMEMKIT_FETCH(texCubemap, (float x, float y, float z), (x, y, z),
              smemkit::fetch_cube<T>(object, x, y, z, 0, file, line))
SMEMKIT_FETCH(texCubemapLayered, (float x, float y, float z, int layer), (x, y, z, layer),
              smemkit::fetch_cube<T>(object, x, y, z, layer, file, line))
SMEMKIT_FETCH(tex1DLod, (float x, float level), (x, level),
              ((void)level, smemkit::fetch_at<T>(object, 1, x, 0, 0, 0, file, line)))
SMEMKIT_FETCH(tex2DLod, (float x, float y, float level), (x, y, level),
              ((void)level, smemkit::fetch_at<T>(object, 2, x, y, 0, 0, file, line)))
SMEMKIT_FETCH(tex3DLod, (float x, float y, float z, float level), (x, y, z, level),
              ((void)level, smemkit::fetch_at<T>(object, 3, x, y, z, 0, file, line)))
SMEMKIT_FETCH(tex2DGrad, (float x, float y, float2 dx, float2 dy), (x, y, dx, dy),
              ((void)dx, (void)dy, smemkit::fetch_at<T>(object, 2, x, y, 0, 0, file, line)))
SMEMKIT_FETCH(tex3DGrad, (float x, float y, float z, float4 dx, float4 dy), (x, y, z, dx, dy),
              ((void)dx, (void)dy, smemkit::fetch_at<T>(object, 3, x, y, z, 0, file, line)))
template <class T>
SMEMKIT_INLINE T tex2Dgather(cudaTextureObject_t object, float x, float y, int component = 0, SMEMKIT_HERE)
{
    return smemkit::gather<T>(object, x, y, component, file, line);
}
#undef SMEMKIT_FETCH

/* ---- surfaces: x is in bytes ---- */

namespace smemkit
{

SMEMKIT_INLINE unsigned char *surface_address(cudaSurfaceObject_t object, size_t bytes, int x, int y, int z,
                                              cudaSurfaceBoundaryMode mode, const char *file, int line)
{
    const texture t = texture_of(object, "an access to the surface object 0", file, line);
    if (x % (int)bytes)
        smemkit_trap("a misaligned access to a surface: x is in bytes, a multiple of the type's size", file, line);
    const long texels = texel_bytes(t.format), end = t.size[0] * texels;
    const bool inside = x >= 0 && x + (long)bytes <= end && y >= 0 && y < t.size[1] && z >= 0 && z < t.size[2];
    if (!inside && mode == cudaBoundaryModeTrap)
        smemkit_trap("an access outside of a surface", file, line);
    if (!inside && mode == cudaBoundaryModeZero)
        return nullptr;
    auto clamp = [](long i, long last) SMEMKIT_NO_HOOKS { return i < 0 ? 0 : i < last ? i : last; };
    return const_cast<unsigned char *>(t.data) + clamp(z, t.size[2] - 1) * t.slice +
           clamp(y, t.size[1] - 1) * t.row + clamp(x, end - (long)bytes);
}
template <class T>
SMEMKIT_INLINE T surface_read(const unsigned char *at)
{
    T value{};
    if (at)
        copy_unreported(&value, (const T *)at);
    return value;
}
template <class T>
SMEMKIT_INLINE void surface_write(unsigned char *at, T value)
{
    if (at)
        copy_unreported((T *)at, &value);
}

} // namespace smemkit

#define SMEMKIT_SURFACE(name, parameters, x, y, z)                                                               \
    template <class T>                                                                                           \
    SMEMKIT_INLINE T name##read(cudaSurfaceObject_t object, SMEMKIT_UNPACK parameters,                           \
                                cudaSurfaceBoundaryMode mode = cudaBoundaryModeTrap, SMEMKIT_HERE)               \
    {                                                                                                            \
        return smemkit::surface_read<T>(smemkit::surface_address(object, sizeof(T), x, y, z, mode, file, line)); \
    }                                                                                                            \
    template <class T>                                                                                           \
    SMEMKIT_INLINE void name##read(T *result, cudaSurfaceObject_t object, SMEMKIT_UNPACK parameters,             \
                                   cudaSurfaceBoundaryMode mode = cudaBoundaryModeTrap, SMEMKIT_HERE)            \
    {                                                                                                            \
        *result =                                                                                                \
            smemkit::surface_read<T>(smemkit::surface_address(object, sizeof(T), x, y, z, mode, file, line));    \
    }                                                                                                            \
    template <class T>                                                                                           \
    SMEMKIT_INLINE void name##write(T value, cudaSurfaceObject_t object, SMEMKIT_UNPACK parameters,              \
                                    cudaSurfaceBoundaryMode mode = cudaBoundaryModeTrap, SMEMKIT_HERE)           \
    {                                                                                                            \
        smemkit::surface_write(smemkit::surface_address(object, sizeof(T), x, y, z, mode, file, line), value);   \
    }
SMEMKIT_SURFACE(surf1D, (int x), x, 0, 0)
SMEMKIT_SURFACE(surf2D, (int x, int y), x, y, 0)
SMEMKIT_SURFACE(surf3D, (int x, int y, int z), x, y, z)
SMEMKIT_SURFACE(surf1DLayered, (int x, int layer), x, 0, layer)
SMEMKIT_SURFACE(surf2DLayered, (int x, int y, int layer), x, y, layer)
SMEMKIT_SURFACE(surfCubemap, (int x, int y, int face), x, y, face)
SMEMKIT_SURFACE(surfCubemapLayered, (int x, int y, int layer_face), x, y, layer_face)
#undef SMEMKIT_SURFACE
#undef SMEMKIT_UNPACK

#endif
