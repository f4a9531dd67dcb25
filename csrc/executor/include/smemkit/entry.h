/* Entry points from Python into a user's kernels: smemkit/user_kernel/cpu_module.py appends one of these macros
 * per kernel and per variable to the user's source, after describe_half.h. */
#ifndef SMEMKIT_ENTRY_H
#define SMEMKIT_ENTRY_H

#include "describe.h"

#define SMEMKIT_VISIBLE __attribute__((visibility("default")))

namespace smemkit
{

struct variable {
    void *address;
    described type;
};

/* `shape`: the grid, the block, whether the host cannot write the memory of the kernel, whether it is cooperative,
 * and the cluster; `arguments` holds the address of each argument's value. Returns a cudaError_t. */
template <class R, class... P, size_t... I>
int enter(R (*kernel)(P...), const char *name, const unsigned *shape, size_t shared_bytes, void **arguments,
          std::index_sequence<I...>)
{
    smemkit_launch configured =
        configuration(name, {shape[0], shape[1], shape[2]}, {shape[3], shape[4], shape[5]}, shared_bytes);

    (void)arguments;
    configured.shared_limit = SIZE_MAX; /* the executor has its own limit */
    configured.host_cannot_write = (int)shape[6];
    configured.cooperative = (int)shape[7];
    for (int i = 0; i < 3; i++)
        configured.cluster[i] = shape[8 + i];
    smemkit_forget();
    launch(configured, kernel, *(std::remove_reference_t<P> *)arguments[I]...);
    return smemkit_last_error(1);
}
template <class R, class... P>
int enter(R (*kernel)(P...), const char *name, const unsigned *shape, size_t shared_bytes, void **arguments)
{
    return enter(kernel, name, shape, shared_bytes, arguments, std::index_sequence_for<P...>());
}

} // namespace smemkit

#define SMEMKIT_ENTRY(number, ...)                                                                          \
    extern "C" {                                                                                            \
    SMEMKIT_VISIBLE extern const auto smemkit_signature_##number =                                          \
        smemkit::signature_of<decltype(&__VA_ARGS__)>::smemkit_value;                                       \
    SMEMKIT_VISIBLE int smemkit_enter_##number(const char *smemkit_name, const unsigned *smemkit_shape,     \
                                               size_t smemkit_bytes, void **smemkit_arguments)              \
    { /* a kernel may have any other name */                                                                \
        return smemkit::enter(&__VA_ARGS__, smemkit_name, smemkit_shape, smemkit_bytes, smemkit_arguments); \
    }                                                                                                       \
    }

/* A kernel's __cluster_dims__, which SMEMKIT_DIMS_OF cuts out of the text before its body. There
   __cluster_dims__(2) is
   `) 2 SMEMKIT_SKIP (`: what is before it and what is after it become arguments of SMEMKIT_SKIP. */
#define SMEMKIT_CLUSTER(number, ...)                                                   \
    extern "C" {                                                                       \
    SMEMKIT_VISIBLE extern const unsigned smemkit_cluster_##number[3] = {__VA_ARGS__}; \
    }
#define SMEMKIT_SKIP(...)
#define SMEMKIT_NOTHING()
#define SMEMKIT_DIMS_OF(...) SMEMKIT_SKIP(__VA_ARGS__)

#define SMEMKIT_VARIABLE(number, name)                                            \
    extern "C" SMEMKIT_VISIBLE const smemkit::variable smemkit_variable_##number; \
    extern "C" const smemkit::variable smemkit_variable_##number = {              \
        (void *)&name, smemkit::description<decltype(name)>::smemkit_value};

/* Begins and ends the definition of smemkit::is_constant, with SMEMKIT_CONSTANT for each __constant__ variable */
#define SMEMKIT_CONSTANTS_BEGIN                            \
    bool smemkit::is_constant(const void *smemkit_address) \
    {
#define SMEMKIT_CONSTANT(name)                                 \
    if ((size_t)smemkit_address - (size_t)&name < sizeof name) \
        return true;
#define SMEMKIT_CONSTANTS_END \
    return false;             \
    }

#endif
