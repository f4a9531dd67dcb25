/* What kernels and variables are, told by the compiler itself: for smemkit/kernel.py, which puts this text behind
 * the user's, for NVRTC as for the host's compiler. So it includes nothing, and uses nothing of the standard
 * library. Keep the fields in the order of smemkit/parameters.py. */
#ifndef SMEMKIT_DESCRIBE_H
#define SMEMKIT_DESCRIBE_H

namespace smemkit
{

/* kind: NumPy's letter for a scalar (b bool, i, u, f), or E bfloat16, V a struct, v void, P a pointer;
 * `size` its bytes. A float4 is four lanes of f. */
struct described {
    long long pointer, constant, kind, size, lanes, extent[4]; /* extent: of an array; 0 behind its dimensions */
};

template <class T, bool STRUCT>
struct plain_element {
    enum { kind = T(0.5) != T(0) ? 'f' : T(-1) < T(0) ? 'i' : 'u', size = sizeof(T), lanes = 1 };
};
template <class T>
struct plain_element<T, true> {
    enum { kind = 'V', size = sizeof(T), lanes = 1 };
};
template <class T>
struct element : plain_element<T, __is_class(T) || __is_union(T)> {
};
template <class T>
struct element<T *> {
    enum { kind = 'P', size = sizeof(T *), lanes = 1 };
};

/* of float (*)[8] and float [][8]: what the rows are made of */
template <class T, decltype(sizeof(0)) N>
struct element<T[N]> : element<T> {
};
template <class T>
struct element<const T> : element<T> {
};
template <class T, decltype(sizeof(0)) N>
struct element<const T[N]> : element<T> {
};
template <class R, class... A>
struct element<R(A...)> {
    enum { kind = 'P', size = sizeof(void *), lanes = 1 };
};

#define SMEMKIT_ELEMENT(type, letter, bytes, count)          \
    template <>                                              \
    struct element<type> {                                   \
        enum { kind = letter, size = bytes, lanes = count }; \
    };
#define SMEMKIT_VECTOR_ELEMENTS(name, letter, bytes) \
    SMEMKIT_ELEMENT(name##1, letter, bytes, 1)       \
    SMEMKIT_ELEMENT(name##2, letter, bytes, 2)       \
    SMEMKIT_ELEMENT(name##3, letter, bytes, 3)       \
    SMEMKIT_ELEMENT(name##4, letter, bytes, 4)
SMEMKIT_ELEMENT(void, 'v', 1, 1)
SMEMKIT_ELEMENT(bool, 'b', 1, 1)
SMEMKIT_ELEMENT(dim3, 'u', 4, 3)
SMEMKIT_VECTOR_ELEMENTS(char, 'i', 1)
SMEMKIT_VECTOR_ELEMENTS(uchar, 'u', 1)
SMEMKIT_VECTOR_ELEMENTS(short, 'i', 2)
SMEMKIT_VECTOR_ELEMENTS(ushort, 'u', 2)
SMEMKIT_VECTOR_ELEMENTS(int, 'i', 4)
SMEMKIT_VECTOR_ELEMENTS(uint, 'u', 4)
SMEMKIT_VECTOR_ELEMENTS(long, 'i', sizeof(long))
SMEMKIT_VECTOR_ELEMENTS(ulong, 'u', sizeof(long))
SMEMKIT_VECTOR_ELEMENTS(longlong, 'i', 8)
SMEMKIT_VECTOR_ELEMENTS(ulonglong, 'u', 8)
SMEMKIT_VECTOR_ELEMENTS(float, 'f', 4)
SMEMKIT_VECTOR_ELEMENTS(double, 'f', 8)
#if defined(__CUDA_FP16_H__) || defined(SMEMKIT_CUDA_FP16_H)
SMEMKIT_ELEMENT(__half, 'f', 2, 1)
SMEMKIT_ELEMENT(__half2, 'f', 2, 2)
#endif
#if defined(__CUDA_BF16_H__) || defined(SMEMKIT_CUDA_BF16_H)
SMEMKIT_ELEMENT(__nv_bfloat16, 'E', 2, 1)
SMEMKIT_ELEMENT(__nv_bfloat162, 'E', 2, 2)
#endif
#undef SMEMKIT_VECTOR_ELEMENTS
#undef SMEMKIT_ELEMENT

template <class T>
struct description {
    static constexpr described value = {0, 0, element<T>::kind, element<T>::size, element<T>::lanes, {}};
};
template <class T>
struct description<T *> {
    static constexpr described value = {1, 0, element<T>::kind, element<T>::size, element<T>::lanes, {}};
};
template <class T>
struct description<const T *> {
    static constexpr described value = {1, 1, element<T>::kind, element<T>::size, element<T>::lanes, {}};
};
/* of what cannot change */
constexpr described constant_of(described one)
{
    return {one.pointer, 1, one.kind, one.size, one.lanes, {}};
}
template <class T>
struct description<T &> {
    static_assert(sizeof(T) == 0, "a __global__ function takes no references");
    static constexpr described value = {};
};
template <class T>
struct description<volatile T *> : description<T *> {
};
template <class T>
struct description<const volatile T *> : description<const T *> {
};
template <class T>
struct description<const T> {
    static constexpr described value = constant_of(description<T>::value);
};
template <class T>
struct description<volatile T> : description<T> {
};

/* of an array: the element's, and one dimension more in front */
constexpr described array_of(described one, long long length)
{
    return {0, one.constant, one.kind, one.size, one.lanes, {length, one.extent[0], one.extent[1], one.extent[2]}};
}
template <class T, decltype(sizeof(0)) N>
struct description<T[N]> {
    static constexpr described value = array_of(description<T>::value, N);
};
template <class T, decltype(sizeof(0)) N>
struct description<const T[N]> {
    static constexpr described value = array_of(description<const T>::value, N);
};

template <int N>
struct signature {
    long long count;
    described parameters[N + 1];
};
template <class Kernel>
struct signature_of {
    static_assert(sizeof(Kernel) == 0, "a __global__ function returns void");
    static constexpr signature<0> value = {};
};
template <class... P>
struct signature_of<void (*)(P...)> {
    static constexpr signature<sizeof...(P)> value = {sizeof...(P), {description<P>::value...}};
};

} // namespace smemkit

#endif
