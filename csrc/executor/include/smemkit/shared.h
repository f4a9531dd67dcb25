/* Static __shared__ variables, as smemkit/cuda_source/shared_variables.py rewrites them: a declaration becomes a
 * typedef and a description, and its name a reference to the executor's memory. A launch allocates a variable when
 * a thread first refers to it, so every reference is local: in the block that declares the variable, or in the
 * function that uses it. */
#ifndef SMEMKIT_SHARED_H
#define SMEMKIT_SHARED_H

namespace smemkit
{

/* Everything is aligned to 16 bytes, because kernels access arrays of floats as float4. */
template <class T>
constexpr smemkit_shared shared_variable(const char *name, size_t alignment)
{
    static_assert(sizeof(T) <= 48 * 1024, "too much shared data: more than 48 KB must be dynamic");
    constexpr int rank = std::rank_v<T> < 3 ? (int)std::rank_v<T> : 3;
    constexpr unsigned dims[3] = {(unsigned)std::extent_v<T, 0>, (unsigned)std::extent_v<T, 1>,
                                  (unsigned)std::extent_v<T, 2>};
    size_t element = sizeof(T);
    for (int i = 0; i < rank; i++)
        element /= dims[i];
    alignment = alignment > alignof(T) ? alignment : alignof(T);
    return {name, sizeof(T), alignment > 16 ? alignment : 16, element, rank, {dims[0], dims[1], dims[2]}};
}

/* An index of an array, evaluated once: see smemkit/cuda_source/subscripts.py. */
template <class T>
[[gnu::always_inline]] constexpr T once(T x)
{
    return x;
}

} // namespace smemkit

#define SMEMKIT_SHARED_TYPE(name) smemkit_type_of_##name
#define SMEMKIT_SHARED_VARIABLE(name, alignment)            \
    static constexpr smemkit_shared smemkit_shared_##name = \
        smemkit::shared_variable<SMEMKIT_SHARED_TYPE(name)>(#name, alignment)

/* The variable, by its qualified name. */
#define SMEMKIT_SHARED_IN(space, name) \
    (*(space SMEMKIT_SHARED_TYPE(name) *)smemkit_static_shared(&space smemkit_shared_##name))
#define SMEMKIT_SHARED_REFERENCE(name) SMEMKIT_SHARED_TYPE(name) &name = SMEMKIT_SHARED_IN(, name)
#define SMEMKIT_SHARED(name, alignment)       \
    SMEMKIT_SHARED_VARIABLE(name, alignment); \
    SMEMKIT_SHARED_REFERENCE(name)

/* In a lambda: capturing the outer reference by copy would copy the array. */
#define SMEMKIT_SHARED_AGAIN(name)                                                                            \
    static_assert(std::is_same_v<decltype(name), SMEMKIT_SHARED_TYPE(name) &>,                                \
                  #name " is a local variable here and a shared one further out: give them different names"); \
    SMEMKIT_SHARED_REFERENCE(name)

#endif
