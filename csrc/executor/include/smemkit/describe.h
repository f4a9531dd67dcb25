/* The types of kernels' parameters and of variables, as the compiler sees them, for NVRTC and for the host's
 * compiler. It includes nothing, and uses nothing of the standard library. Keep the fields in the order of
 * smemkit/user_kernel/parameters.py. It comes before the user's source, whose macros must not change it: tutorials
 * define N. describe_half.h comes after the source, which may include cuda_fp16.h. */
#ifndef SMEMKIT_DESCRIBE_H
#define SMEMKIT_DESCRIBE_H

namespace smemkit
{

/* kind: NumPy's letter for a scalar (b bool, i, u, f), or E bfloat16, 3 and 2 the 8-bit floats of that many
 * bits of fraction, V a struct, v void, P a pointer;
 * `size` its bytes. A float4 is four lanes of f. */
struct described {
    long long pointer, constant, kind, size, lanes, extent[4]; /* extent: of an array; 0 after its dimensions */
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
struct smemkit_element_of : plain_element<T, __is_class(T) || __is_union(T)> {
};
template <class T>
struct smemkit_element_of<T *> {
    enum { kind = 'P', size = sizeof(T *), lanes = 1 };
};

/* for float (*)[8] and float [][8]: the element type of the rows */
template <class T, decltype(sizeof(0)) N>
struct smemkit_element_of<T[N]> : smemkit_element_of<T> {
};
template <class T>
struct smemkit_element_of<const T> : smemkit_element_of<T> {
};
template <class T, decltype(sizeof(0)) N>
struct smemkit_element_of<const T[N]> : smemkit_element_of<T> {
};
template <class R, class... A>
struct smemkit_element_of<R(A...)> {
    enum { kind = 'P', size = sizeof(void *), lanes = 1 };
};

template <char KIND, int SIZE, int LANES>
struct smemkit_scalar {
    enum { kind = KIND, size = SIZE, lanes = LANES };
};
#define SMEMKIT_ELEMENT(type, letter, bytes, count)                                 \
    template <>                                                                     \
    struct smemkit_element_of<type> : smemkit_scalar<letter, (int)(bytes), count> { \
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
#undef SMEMKIT_VECTOR_ELEMENTS
#undef SMEMKIT_ELEMENT

template <class T>
struct description {
    static constexpr described smemkit_value = {
        0, 0, smemkit_element_of<T>::kind, smemkit_element_of<T>::size, smemkit_element_of<T>::lanes, {}};
};
template <class T>
struct description<T *> {
    static constexpr described smemkit_value = {
        1, 0, smemkit_element_of<T>::kind, smemkit_element_of<T>::size, smemkit_element_of<T>::lanes, {}};
};
template <class T>
struct description<const T *> {
    static constexpr described smemkit_value = {
        1, 1, smemkit_element_of<T>::kind, smemkit_element_of<T>::size, smemkit_element_of<T>::lanes, {}};
};
/* the description of a const object */
constexpr described constant_of(described one)
{
    return {one.pointer, 1, one.kind, one.size, one.lanes, {}};
}
template <class T>
struct description<T &> {
    static_assert(sizeof(T) == 0, "a __global__ function takes no references");
    static constexpr described smemkit_value = {};
};
template <class T>
struct description<volatile T *> : description<T *> {
};
template <class T>
struct description<const volatile T *> : description<const T *> {
};
template <class T>
struct description<const T> {
    static constexpr described smemkit_value = constant_of(description<T>::smemkit_value);
};
template <class T>
struct description<volatile T> : description<T> {
};

/* the description of an array: its element's, with one more leading dimension */
constexpr described array_of(described one, long long length)
{
    return {0, one.constant, one.kind, one.size, one.lanes, {length, one.extent[0], one.extent[1], one.extent[2]}};
}
template <class T, decltype(sizeof(0)) N>
struct description<T[N]> {
    static constexpr described smemkit_value = array_of(description<T>::smemkit_value, N);
};
template <class T, decltype(sizeof(0)) N>
struct description<const T[N]> {
    static constexpr described smemkit_value = array_of(description<const T>::smemkit_value, N);
};

template <int N>
struct signature {
    long long count;
    described parameters[N + 1];
};
template <class Kernel>
struct signature_of {
    static_assert(sizeof(Kernel) == 0, "a __global__ function returns void");
    static constexpr signature<0> smemkit_value = {};
};
template <class... P>
struct signature_of<void (*)(P...)> {
    static constexpr signature<sizeof...(P)> smemkit_value = {sizeof...(P), {description<P>::smemkit_value...}};
};

} // namespace smemkit

#endif
