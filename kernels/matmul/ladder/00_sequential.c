/* C = A @ B on one core of the host: three nested loops, as in the definition, inside a loop over the matrices of
 * a batch. */
#include "kernels.h"
#include "smemkit/narrow_bits.h"

/* `add` adds one product to the sum, which starts at 0; `result` converts the sum to an element of c. */
#define MATMUL(name, type, sum_type, add, result)                                 \
    static void name(const struct matmul_args *args)                              \
    {                                                                             \
        const int64_t m = args->m, n = args->n, k = args->k;                      \
                                                                                  \
        for (int64_t batch = 0; batch < args->batches; batch++) {                 \
            const type *a = (const type *)args->a + batch * args->a_batch_stride; \
            const type *b = (const type *)args->b + batch * args->b_batch_stride; \
            type *c = (type *)args->c + batch * m * n;                            \
                                                                                  \
            for (int64_t row = 0; row < m; row++) {                               \
                for (int64_t column = 0; column < n; column++) {                  \
                    sum_type sum = {0};                                           \
                    for (int64_t i = 0; i < k; i++)                               \
                        sum = add(sum, a[row * k + i], b[i * n + column]);        \
                    c[row * n + column] = result(sum);                            \
                }                                                                 \
            }                                                                     \
        }                                                                         \
    }

/* sum + a * b, computed in one type */
#define ADD(name, type)                               \
    static inline type name(type sum, type a, type b) \
    {                                                 \
        return sum + a * b;                           \
    }
ADD(multiply_add_uint32, uint32_t) /* unsigned arithmetic wraps; signed overflow is undefined */
ADD(multiply_add_uint64, uint64_t)
ADD(multiply_add_float32, float)
ADD(multiply_add_float64, double)

static inline bool multiply_add_bool(bool sum, bool a, bool b)
{
    return sum || (a && b);
}

static inline float multiply_add_float16(float sum, uint16_t a, uint16_t b)
{
    return multiply_add_float32(sum, float16_to_float(a), float16_to_float(b));
}

static inline float multiply_add_bfloat16(float sum, uint16_t a, uint16_t b)
{
    return multiply_add_float32(sum, bfloat16_to_float(a), bfloat16_to_float(b));
}

/* not C's own complex numbers: their product treats infinities unlike GPUs and BLAS */
#define MULTIPLY_ADD_COMPLEX(name, type, part)        \
    typedef struct {                                  \
        part re, im;                                  \
    } type;                                           \
    static inline type name(type sum, type a, type b) \
    {                                                 \
        sum.re += a.re * b.re - a.im * b.im;          \
        sum.im += a.re * b.im + a.im * b.re;          \
        return sum;                                   \
    }
MULTIPLY_ADD_COMPLEX(multiply_add_complex64, complex64, float)
MULTIPLY_ADD_COMPLEX(multiply_add_complex128, complex128, double)

#define UNCHANGED(sum)   (sum)
#define LOW_8_BITS(sum)  ((uint8_t)(sum))
#define LOW_16_BITS(sum) ((uint16_t)(sum))

/* signed and unsigned integers of one size share a function: wrapping arithmetic is the same */
MATMUL(matmul_bool, uint8_t, bool, multiply_add_bool, UNCHANGED)
MATMUL(matmul_int8, uint8_t, uint32_t, multiply_add_uint32, LOW_8_BITS)
MATMUL(matmul_int16, uint16_t, uint32_t, multiply_add_uint32, LOW_16_BITS)
MATMUL(matmul_int32, uint32_t, uint32_t, multiply_add_uint32, UNCHANGED)
MATMUL(matmul_int64, uint64_t, uint64_t, multiply_add_uint64, UNCHANGED)
MATMUL(matmul_float16, uint16_t, float, multiply_add_float16, float16_from_float)
MATMUL(matmul_bfloat16, uint16_t, float, multiply_add_bfloat16, bfloat16_from_float)
MATMUL(matmul_float32, float, float, multiply_add_float32, UNCHANGED)
MATMUL(matmul_float64, double, double, multiply_add_float64, UNCHANGED)
MATMUL(matmul_complex64, complex64, complex64, multiply_add_complex64, UNCHANGED)
MATMUL(matmul_complex128, complex128, complex128, multiply_add_complex128, UNCHANGED)

#define RUN_IF(dtypes, name)      \
    if (args->dtype & (dtypes)) { \
        name(args);               \
        return 0;                 \
    }

int launch_matmul_sequential(const struct matmul_args *args)
{
    RUN_IF(BOOL, matmul_bool)
    RUN_IF(INT8 | UINT8, matmul_int8)
    RUN_IF(INT16 | UINT16, matmul_int16)
    RUN_IF(INT32 | UINT32, matmul_int32)
    RUN_IF(INT64 | UINT64, matmul_int64)
    RUN_IF(FLOAT16, matmul_float16)
    RUN_IF(BFLOAT16, matmul_bfloat16)
    RUN_IF(FLOAT32, matmul_float32)
    RUN_IF(FLOAT64, matmul_float64)
    RUN_IF(COMPLEX64, matmul_complex64)
    RUN_IF(COMPLEX128, matmul_complex128)
    return 1; /* cudaErrorInvalidValue */
}
