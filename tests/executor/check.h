// Shared by the programs in this folder: arrays, exact checks, and an exit status that is 0 if all of them pass.
#pragma once

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <type_traits>

#include <cuda_runtime.h>

static int wrong;

template <typename T>
static void show(T value)
{
    if constexpr (std::is_floating_point<T>::value)
        printf("%.17g", (double)value);
    else if constexpr (std::is_signed<T>::value)
        printf("%lld", (long long)value);
    else
        printf("%llu", (unsigned long long)value);
}

// A NaN equals nothing, so it is wrong wherever a number is expected.
template <typename Got, typename Want>
static void equal(const char *file, int line, const char *what, long index, Got got, Want want)
{
    if (got == (Got)want)
        return;
    if (++wrong > 20)
        return;
    const char *base = strrchr(file, '/');
    printf("%s:%d: %s", base ? base + 1 : file, line, what);
    if (index >= 0)
        printf(" at %ld", index);
    printf(" is ");
    show(got);
    printf(", not ");
    show((Got)want);
    printf("\n");
}

inline void within(int line, const char *what, double got, double want, double bound)
{
    if (got - want <= bound && want - got <= bound)
        return;
    if (++wrong <= 20)
        printf("line %d: %s is %.17g, not %.17g +- %g\n", line, what, got, want, bound);
}

static void same_error(int line, const char *what, cudaError_t got, cudaError_t want)
{
    if (got == want)
        return;
    if (++wrong <= 20)
        printf("line %d: %s gives %s, not %s\n", line, what, cudaGetErrorName(got), cudaGetErrorName(want));
}

#define EQUAL(got, want)         equal(__FILE__, __LINE__, #got, -1, got, want)
#define EQUAL_AT(i, got, want)   equal(__FILE__, __LINE__, #got, (long)(i), got, want)
#define WITHIN(got, want, bound) within(__LINE__, #got, got, want, bound)
#define ERROR(call, want)        same_error(__LINE__, #call, call, want)
#define RUNS()                                                            \
    (same_error(__LINE__, "the launch", cudaGetLastError(), cudaSuccess), \
     same_error(__LINE__, "the kernel", cudaDeviceSynchronize(), cudaSuccess))

// n elements on the device and on the host. On the device every byte is 0xA5 until upload() or a kernel writes it.
template <typename T>
struct Array {
    size_t n;
    T *host, *device;

    explicit Array(size_t n) : n(n), host((T *)malloc(n * sizeof(T))), device(nullptr)
    {
        memset((void *)host, 0x5A, n * sizeof(T));
        same_error(__LINE__, "cudaMalloc", cudaMalloc(&device, n * sizeof(T)), cudaSuccess);
        same_error(__LINE__, "cudaMemset", cudaMemset(device, 0xA5, n * sizeof(T)), cudaSuccess);
    }
    Array(const Array &) = delete;
    ~Array()
    {
        cudaFree(device);
        free(host);
    }
    void upload()
    {
        same_error(__LINE__, "upload", cudaMemcpy(device, host, n * sizeof(T), cudaMemcpyHostToDevice),
                   cudaSuccess);
    }
    void download()
    {
        same_error(__LINE__, "download", cudaMemcpy(host, device, n * sizeof(T), cudaMemcpyDeviceToHost),
                   cudaSuccess);
    }
    void zero()
    {
        same_error(__LINE__, "zero", cudaMemset(device, 0, n * sizeof(T)), cudaSuccess);
    }
    T &operator[](size_t i)
    {
        return host[i];
    }
};

static int verdict()
{
    if (wrong)
        printf("%d wrong\n", wrong);
    else
        printf("ok\n");
    return wrong != 0;
}
