// Texture and surface objects: point and linear filtering, address modes, formats, by values computed by hand.
#include "check.h"

static cudaTextureDesc described(cudaTextureAddressMode mode, cudaTextureFilterMode filter, bool normalized)
{
    cudaTextureDesc how = {};
    how.addressMode[0] = how.addressMode[1] = how.addressMode[2] = mode;
    how.filterMode = filter;
    how.normalizedCoords = normalized;
    return how;
}

// a texture of an array with these texels
template <typename T>
static cudaTextureObject_t make(const T *texels, cudaExtent extent, cudaTextureDesc how, unsigned flags = 0)
{
    cudaChannelFormatDesc format = cudaCreateChannelDesc<T>();
    const size_t rows = extent.height ? extent.height : 1, slices = extent.depth ? extent.depth : 1;
    cudaMemcpy3DParms copy = {};
    cudaResourceDesc resource = {};
    cudaTextureObject_t object = 0;

    ERROR(cudaMalloc3DArray(&copy.dstArray, &format, extent, flags), cudaSuccess);
    copy.srcPtr = make_cudaPitchedPtr((void *)texels, extent.width * sizeof(T), extent.width, rows);
    copy.extent = make_cudaExtent(extent.width, rows, slices);
    copy.kind = cudaMemcpyHostToDevice;
    ERROR(cudaMemcpy3D(&copy), cudaSuccess);
    resource.resType = cudaResourceTypeArray;
    resource.res.array.array = copy.dstArray;
    ERROR(cudaCreateTextureObject(&object, &resource, &how, nullptr), cudaSuccess);
    return object;
}

__global__ void along_x(cudaTextureObject_t object, const float *x, float *out)
{
    out[threadIdx.x] = tex1D<float>(object, x[threadIdx.x]);
}

static void check_1d(cudaTextureObject_t object, int n, const float *at, const float *want)
{
    Array<float> x(n), out(n);
    for (int i = 0; i < n; i++)
        x[i] = at[i];
    x.upload();
    along_x<<<1, n>>>(object, x.device, out.device);
    RUNS();
    out.download();
    for (int i = 0; i < n; i++)
        EQUAL_AT(i, out[i], want[i]);
}

static void one_dimension()
{
    const float texels[4] = {10, 20, 40, 80};
    const cudaExtent four = make_cudaExtent(4, 0, 0);
    const float at[] = {-1.5f, 0, 0.99f, 1, 3.5f, 4, 9};
    const float clamped[] = {10, 10, 10, 20, 80, 80, 80}, border[] = {0, 10, 10, 20, 80, 0, 0};
    check_1d(make(texels, four, described(cudaAddressModeClamp, cudaFilterModePoint, false)), 7, at, clamped);
    check_1d(make(texels, four, described(cudaAddressModeBorder, cudaFilterModePoint, false)), 7, at, border);
    // between the centres 0.5 and 1.5; at a border the border's colour, 0, counts
    const float between[] = {0.5f, 1, 1.25f, 2.5f, 0, 4};
    const float linear[] = {10, 15, 17.5f, 40, 10, 80}, faded[] = {10, 15, 17.5f, 40, 5, 40};
    check_1d(make(texels, four, described(cudaAddressModeClamp, cudaFilterModeLinear, false)), 6, between, linear);
    cudaTextureDesc along_x_only = described(cudaAddressModeBorder, cudaFilterModeLinear, false);
    along_x_only.addressMode[1] = along_x_only.addressMode[2] = cudaAddressModeClamp; // a GPU fades across x, too
    check_1d(make(texels, four, along_x_only), 6, between, faded);
    // fractions have 8 bits: 1/1024 is 0, 3/512 is 2/256
    const float fine[] = {0.5f + 1.0f / 1024, 0.5f + 3.0f / 512}, coarse[] = {10, 10 + 10 * 2.0f / 256};
    check_1d(make(texels, four, described(cudaAddressModeClamp, cudaFilterModeLinear, false)), 2, fine, coarse);
    // normalised: 1.125 is 4.5
    const float scaled[] = {0.125f, 0.625f, 1.125f, -0.125f, 1.375f};
    const float wrapped[] = {10, 40, 10, 80, 20}, mirrored[] = {10, 40, 80, 10, 40};
    check_1d(make(texels, four, described(cudaAddressModeWrap, cudaFilterModePoint, true)), 5, scaled, wrapped);
    check_1d(make(texels, four, described(cudaAddressModeMirror, cudaFilterModePoint, true)), 5, scaled, mirrored);
}

__global__ void solid(cudaTextureObject_t object, float *out)
{
    out[0] = tex3D<float>(object, 0.5f, 1.5f, 1.5f);
    out[1] = tex3D<float>(object, 1, 1, 1);
    out[2] = tex3D<float>(object, 2.5f, 0.5f, 1);
    tex3D(&out[3], object, 9, 9, 9);
}

static void three_dimensions()
{
    float texels[12]; // texel (x, y, z) is x + 10 y + 100 z
    for (int i = 0; i < 12; i++)
        texels[i] = (float)(i % 3 + i / 3 % 2 * 10 + i / 6 * 100);
    const float point[] = {110, 111, 102, 112}, linear[] = {110, 55.5f, 52, 112};
    for (int filter = 0; filter < 2; filter++) {
        Array<float> out(4);
        solid<<<1, 1>>>(make(texels, make_cudaExtent(3, 2, 2),
                             described(cudaAddressModeClamp, (cudaTextureFilterMode)filter, false)),
                        out.device);
        RUNS();
        out.download();
        for (int i = 0; i < 4; i++)
            EQUAL_AT(i, out[i], (filter ? linear : point)[i]);
    }
}

__global__ void formats(cudaTextureObject_t bytes, cudaTextureObject_t norms, cudaTextureObject_t rows,
                        cudaTextureObject_t line, float *out)
{
    const uchar4 byte = tex2D<uchar4>(bytes, 1, 0);
    const float4 norm = tex2D<float4>(norms, 1, 0);
    const float4 four = tex2Dgather<float4>(rows, 1, 1);
    const float got[] = {(float)byte.x,
                         (float)byte.w,
                         norm.x,
                         norm.y,
                         four.x,
                         four.y,
                         four.z,
                         four.w,
                         tex1Dfetch<float>(line, 2),
                         tex1Dfetch<float>(line, -1),
                         tex2D<float>(rows, 1, 1)};
    for (int i = 0; i < 11; i++)
        out[i] = got[i];
}

static void other_formats()
{
    const uchar4 texels[2] = {{0, 1, 2, 3}, {255, 51, 7, 8}};
    Array<float> pitched(16), out(11);
    cudaTextureDesc how = described(cudaAddressModeClamp, cudaFilterModePoint, false), norm = how;
    cudaResourceDesc resource = {};
    cudaTextureObject_t rows = 0, line = 0;

    norm.readMode = cudaReadModeNormalizedFloat;
    for (int i = 0; i < 16; i++)
        pitched[i] = i % 8 < 4 ? (float)(i % 8 + i / 8 * 4) : NAN;
    pitched.upload();
    resource.resType = cudaResourceTypePitch2D; // rows of 3 texels in 32 bytes
    resource.res.pitch2D.devPtr = pitched.device;
    resource.res.pitch2D.desc = cudaCreateChannelDesc<float>();
    resource.res.pitch2D.width = 3;
    resource.res.pitch2D.height = 2;
    resource.res.pitch2D.pitchInBytes = 16;
    ERROR(cudaCreateTextureObject(&rows, &resource, &how, nullptr), cudaErrorInvalidValue);
    cudaGetLastError();
    resource.res.pitch2D.pitchInBytes = 32;
    ERROR(cudaCreateTextureObject(&rows, &resource, &how, nullptr), cudaSuccess);
    resource = {};
    resource.resType = cudaResourceTypeLinear;
    resource.res.linear.devPtr = pitched.device;
    resource.res.linear.desc = cudaCreateChannelDesc<float>();
    resource.res.linear.sizeInBytes = 16;
    ERROR(cudaCreateTextureObject(&line, &resource, &how, nullptr), cudaSuccess);
    formats<<<1, 1>>>(make(texels, make_cudaExtent(2, 1, 0), how), make(texels, make_cudaExtent(2, 1, 0), norm),
                      rows, line, out.device);
    RUNS();
    out.download();
    const float want[] = {255, 8, 1, 0.2f, 4, 5, 1, 0, 2, 0, 5};
    for (int i = 0; i < 11; i++)
        EQUAL_AT(i, out[i], want[i]);
}

__global__ void layers(cudaTextureObject_t cube, cudaTextureObject_t stack, float *out)
{
    const float3 axes[] = {{1, 0, 0}, {-1, 0, 0}, {0, 1, 0}, {0, -1, 0}, {0, 0, 1}, {0, 0, -1}};
    for (int i = 0; i < 6; i++)
        out[i] = texCubemap<float>(cube, axes[i].x, axes[i].y, axes[i].z);
    out[6] = tex2DLayered<float>(stack, 0.5f, 0.5f, 4);
    out[7] = tex2DLayered<float>(stack, 0.5f, 0.5f, 99);
}

static void layered()
{
    const float texels[6] = {3, 1, 4, 15, 9, 2};
    const cudaTextureDesc how = described(cudaAddressModeClamp, cudaFilterModePoint, true);
    Array<float> out(8);
    layers<<<1, 1>>>(make(texels, make_cudaExtent(1, 1, 6), how, cudaArrayCubemap),
                     make(texels, make_cudaExtent(1, 1, 6), how, cudaArrayLayered), out.device);
    RUNS();
    out.download();
    for (int i = 0; i < 6; i++)
        EQUAL_AT(i, out[i], texels[i]);
    EQUAL(out[6], 9);
    EQUAL(out[7], 2);
}

__global__ void swap_columns(cudaSurfaceObject_t object, int *outside)
{
    const int y = threadIdx.y;
    const short2 left = surf2Dread<short2>(object, 0, y), right = surf2Dread<short2>(object, 4, y);
    surf2Dwrite(right, object, 0, y);
    surf2Dwrite(left, object, 4, y);
    outside[y] = surf2Dread<short2>(object, 8, y, cudaBoundaryModeZero).x +
                 surf2Dread<short2>(object, 100, y, cudaBoundaryModeClamp).x;
}

static void surfaces()
{
    const cudaChannelFormatDesc format = cudaCreateChannelDesc<short2>();
    const short2 before[4] = {{1, 2}, {3, 4}, {5, 6}, {7, 8}};
    short2 after[4];
    Array<int> outside(2);
    cudaArray_t array = nullptr;
    cudaResourceDesc resource = {};
    cudaSurfaceObject_t object = 0;

    ERROR(cudaMallocArray(&array, &format, 2, 2, cudaArraySurfaceLoadStore), cudaSuccess);
    ERROR(cudaMemcpy2DToArray(array, 0, 0, before, 8, 8, 2, cudaMemcpyHostToDevice), cudaSuccess);
    resource.res.array.array = array;
    ERROR(cudaCreateSurfaceObject(&object, &resource), cudaSuccess);
    swap_columns<<<1, dim3(1, 2)>>>(object, outside.device);
    RUNS();
    ERROR(cudaMemcpy2DFromArray(after, 8, array, 0, 0, 8, 2, cudaMemcpyDeviceToHost), cudaSuccess);
    outside.download();
    const short want[] = {3, 4, 1, 2, 7, 8, 5, 6};
    for (int i = 0; i < 8; i++)
        EQUAL_AT(i, ((short *)after)[i], want[i]);
    EQUAL(outside[0], 1);
    EQUAL(outside[1], 5);
    ERROR(cudaDestroySurfaceObject(object), cudaSuccess);
    ERROR(cudaFreeArray(array), cudaSuccess);
}

int main()
{
    one_dimension();
    three_dimensions();
    other_formats();
    layered();
    surfaces();
    return verdict();
}
