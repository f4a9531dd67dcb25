/* A reduction on one core of the host: for each row, a loop over its elements.
 *
 * REDUCTIONS defines these loops; it is instantiated below for each dtype.
 */
#include <complex.h>
#include <math.h>
#include <string.h>

#include "kernels.h"
#include "smemkit/narrow_bits.h"

typedef float complex complex64;
typedef double complex complex128;

/* C11's CMPLXF and CMPLX, which not every C library has */
static inline complex64 make_complex64(float re, float im)
{
    const float parts[] = {re, im};
    complex64 z;

    memcpy(&z, parts, sizeof z);
    return z;
}
static inline complex128 make_complex128(double re, double im)
{
    const double parts[] = {re, im};
    complex128 z;

    memcpy(&z, parts, sizeof z);
    return z;
}

/* ---- what a loop does with an element ---- */

#define load_itself(x)   (x)
#define load_truth(x)    ((x) != 0)
#define load_float16(x)  float16_to_float(x)
#define load_bfloat16(x) bfloat16_to_float(x)

#define less_integer(a, b) ((a) < (b))
#define less_real(a, b)    ((a) < (b))
static inline bool less_complex(complex128 a, complex128 b) /* in lexicographic order */
{
    return creal(a) < creal(b) || (creal(a) == creal(b) && cimag(a) < cimag(b));
}

#define times_uint64_t(a, b) ((a) * (b))
#define times_float(a, b)    ((a) * (b))
#define times_double(a, b)   ((a) * (b))
/* by the definition; C's own product turns NaN + NaN i into infinities */
static inline complex64 times_complex64(complex64 a, complex64 b)
{
    return make_complex64(crealf(a) * crealf(b) - cimagf(a) * cimagf(b),
                          crealf(a) * cimagf(b) + cimagf(a) * crealf(b));
}
static inline complex128 times_complex128(complex128 a, complex128 b)
{
    return make_complex128(creal(a) * creal(b) - cimag(a) * cimag(b), creal(a) * cimag(b) + cimag(a) * creal(b));
}

#define square_double(x) ((x) * (x))
static inline double square_complex128(complex128 x)
{
    return creal(x) * creal(x) + cimag(x) * cimag(x);
}

#define initial_int64_t(args)    ((int64_t)(args)->initial.bits)
#define initial_uint64_t(args)   ((args)->initial.bits)
#define initial_float(args)      ((float)(args)->initial.re)
#define initial_double(args)     ((args)->initial.re)
#define initial_complex64(args)  make_complex64((float)(args)->initial.re, (float)(args)->initial.im)
#define initial_complex128(args) make_complex128((args)->initial.re, (args)->initial.im)

/* ---- a result, before it is one of the dtype args->result ---- */

struct number {
    bool is_integer, is_unsigned;
    uint64_t bits; /* of an integer */
    double re, im; /* of any number */
};

static struct number number_integer(const struct reduce_args *args, uint64_t bits)
{
    const bool is_unsigned = args->accumulator == UINT64;

    return (struct number){true, is_unsigned, bits, is_unsigned ? (double)bits : (double)(int64_t)bits, 0};
}
static struct number number_complex(const struct reduce_args *args, complex128 z)
{
    (void)args;
    return (struct number){.re = creal(z), .im = cimag(z)};
}
#define number_real number_complex

/* ---- the loops ---- */

/* of the n elements x[0], x[step], x[2 * step], … that become one result */
#define SUMS(name, type, load, sum_type)                                                                \
    static sum_type name##_sum(const struct reduce_args *args, const type *x, int64_t n, int64_t step)  \
    {                                                                                                   \
        sum_type sum = args->has_initial ? initial_##sum_type(args) : 0;                                \
        for (int64_t j = 0; j < n; j++)                                                                 \
            sum += (sum_type)load_##load(x[j * step]);                                                  \
        return sum;                                                                                     \
    }                                                                                                   \
    static sum_type name##_prod(const struct reduce_args *args, const type *x, int64_t n, int64_t step) \
    {                                                                                                   \
        sum_type product = args->has_initial ? initial_##sum_type(args) : 1;                            \
        for (int64_t j = 0; j < n; j++)                                                                 \
            product = times_##sum_type(product, (sum_type)load_##load(x[j * step]));                    \
        return product;                                                                                 \
    }

/* Elements are loaded and compared as a `value` of the `kind` integer, real or complex; summed in a `sum_type` or,
 * if the arguments say so, in a `wide` type. */
#define REDUCTIONS(name, type, load, kind, value, sum_type, wide)                                        \
    SUMS(name, type, load, sum_type)                                                                     \
    SUMS(name##_wide, type, load, wide)                                                                  \
                                                                                                         \
    /* whether a is less, or, for `greatest`, greater than b; a NaN comes before all numbers */          \
    static bool name##_before(value a, value b, bool greatest)                                           \
    {                                                                                                    \
        if (a != a || b != b)                                                                            \
            return a != a && b == b;                                                                     \
        return greatest ? less_##kind(b, a) : less_##kind(a, b);                                         \
    }                                                                                                    \
    static int64_t name##_first(const type *x, int64_t n, int64_t step, bool greatest)                   \
    {                                                                                                    \
        int64_t first = 0;                                                                               \
        for (int64_t j = 1; j < n; j++)                                                                  \
            if (name##_before(load_##load(x[j * step]), load_##load(x[first * step]), greatest))         \
                first = j;                                                                               \
        return first;                                                                                    \
    }                                                                                                    \
    static int64_t name##_count(const type *x, int64_t n, int64_t step)                                  \
    {                                                                                                    \
        int64_t count = 0;                                                                               \
        for (int64_t j = 0; j < n; j++)                                                                  \
            count += load_##load(x[j * step]) != 0;                                                      \
        return count;                                                                                    \
    }                                                                                                    \
    static double name##_squares(const struct reduce_args *args, const type *x, int64_t n, int64_t step) \
    {                                                                                                    \
        const wide mean = name##_wide_sum(args, x, n, step) / (double)n;                                 \
        double squares = 0;                                                                              \
        for (int64_t j = 0; j < n; j++)                                                                  \
            squares += square_##wide((wide)load_##load(x[j * step]) - mean);                             \
        return squares;                                                                                  \
    }                                                                                                    \
                                                                                                         \
    static struct number name##_row(const struct reduce_args *args, int64_t start)                       \
    {                                                                                                    \
        const type *x = (const type *)args->x + start;                                                   \
        const int64_t n = args->n, step = args->inner;                                                   \
        const bool use_wide = args->accumulator & (FLOAT64 | COMPLEX128);                                \
        const bool greatest = args->op == REDUCE_MAX || args->op == REDUCE_ARGMAX;                       \
        value first;                                                                                     \
                                                                                                         \
        switch (args->op) {                                                                              \
        case REDUCE_SUM:                                                                                 \
        case REDUCE_MEAN:                                                                                \
            return use_wide ? number_complex(args, name##_wide_sum(args, x, n, step))                    \
                            : number_##kind(args, name##_sum(args, x, n, step));                         \
        case REDUCE_PROD:                                                                                \
            return use_wide ? number_complex(args, name##_wide_prod(args, x, n, step))                   \
                            : number_##kind(args, name##_prod(args, x, n, step));                        \
        case REDUCE_MIN:                                                                                 \
        case REDUCE_MAX:                                                                                 \
            first = load_##load(x[name##_first(x, n, step, greatest) * step]);                           \
            if (args->has_initial && name##_before(initial_##value(args), first, greatest))              \
                first = initial_##value(args);                                                           \
            return number_##kind(args, first);                                                           \
        case REDUCE_ARGMIN:                                                                              \
        case REDUCE_ARGMAX:                                                                              \
            return number_integer(args, (uint64_t)name##_first(x, n, step, greatest));                   \
        case REDUCE_VAR:                                                                                 \
        case REDUCE_STD:                                                                                 \
            return number_complex(args, name##_squares(args, x, n, step));                               \
        default:                                                                                         \
            return number_integer(args, (uint64_t)name##_count(x, n, step));                             \
        }                                                                                                \
    }

REDUCTIONS(boolean, uint8_t, truth, integer, uint64_t, uint64_t, double)
REDUCTIONS(int8, int8_t, itself, integer, int64_t, uint64_t, double)
REDUCTIONS(int16, int16_t, itself, integer, int64_t, uint64_t, double)
REDUCTIONS(int32, int32_t, itself, integer, int64_t, uint64_t, double)
REDUCTIONS(int64, int64_t, itself, integer, int64_t, uint64_t, double)
REDUCTIONS(uint8, uint8_t, itself, integer, uint64_t, uint64_t, double)
REDUCTIONS(uint16, uint16_t, itself, integer, uint64_t, uint64_t, double)
REDUCTIONS(uint32, uint32_t, itself, integer, uint64_t, uint64_t, double)
REDUCTIONS(uint64, uint64_t, itself, integer, uint64_t, uint64_t, double)
REDUCTIONS(float16, uint16_t, float16, real, float, float, double)
REDUCTIONS(bfloat16, uint16_t, bfloat16, real, float, float, double)
REDUCTIONS(float32, float, itself, real, float, float, double)
REDUCTIONS(float64, double, itself, real, double, double, double)
REDUCTIONS(complex64, complex64, itself, complex, complex64, complex64, complex128)
REDUCTIONS(complex128, complex128, itself, complex, complex128, complex128, complex128)

static struct number reduce_row(const struct reduce_args *args, int64_t start)
{
#define CASE(dtype, name) \
    case dtype:           \
        return name##_row(args, start);
    switch (args->dtype) {
        CASE(BOOL, boolean)
        CASE(INT8, int8)
        CASE(INT16, int16)
        CASE(INT32, int32)
        CASE(INT64, int64)
        CASE(UINT8, uint8)
        CASE(UINT16, uint16)
        CASE(UINT32, uint32)
        CASE(UINT64, uint64)
        CASE(FLOAT16, float16)
        CASE(BFLOAT16, bfloat16)
        CASE(FLOAT32, float32)
        CASE(FLOAT64, float64)
        CASE(COMPLEX64, complex64)
    default:
        CASE(COMPLEX128, complex128)
    }
#undef CASE
}

/* ---- from a row's number to its result ---- */

/* An integer sum wrapped around to the width of the dtype: NumPy's mean divides this sum. */
static double wrapped(uint64_t sum, enum dtype dtype)
{
    if (dtype == BOOL)
        return sum != 0;

    const int shift = dtype & (INT8 | UINT8)     ? 56
                      : dtype & (INT16 | UINT16) ? 48
                      : dtype & (INT32 | UINT32) ? 32
                                                 : 0;

    return dtype & UNSIGNED ? (double)(sum << shift >> shift) : (double)((int64_t)(sum << shift) >> shift);
}

static struct number finish(const struct reduce_args *args, struct number x)
{
    const double freedom = (double)args->n - args->ddof;

    switch (args->op) {
    case REDUCE_MEAN:
        if (x.is_integer)
            x.re = wrapped(x.bits, args->dtype);
        return (struct number){.re = x.re / (double)args->n, .im = x.im / (double)args->n};
    case REDUCE_VAR:
        return (struct number){.re = x.re / (freedom <= 0 ? 0 : freedom)};
    case REDUCE_STD:
        return (struct number){.re = sqrt(x.re / (freedom <= 0 ? 0 : freedom))};
    case REDUCE_ANY:
        return number_integer(args, x.bits > 0 || (args->has_initial && args->initial.bits));
    case REDUCE_ALL:
        return number_integer(args, x.bits == (uint64_t)args->n);
    default:
        return x;
    }
}

/* NumPy's conversion: integers wrap around; NaN, and values that int64 (or uint64, if that is wanted) cannot hold,
 * become -2^63
 */
static uint64_t number_to_integer(struct number x, enum dtype wanted)
{
    if (x.is_integer)
        return x.bits;
    if (wanted == UINT64 && x.re >= 0x1p63 && x.re < 0x1p64)
        return (uint64_t)x.re;
    return x.re >= -0x1p63 && x.re < 0x1p63 ? (uint64_t)(int64_t)x.re : (uint64_t)INT64_MIN;
}

static void store(const struct reduce_args *args, int64_t row, struct number x)
{
    const uint64_t bits = number_to_integer(x, args->result);
    void *out = args->out;

    switch (args->result) {
    case BOOL:
        ((uint8_t *)out)[row] = x.is_integer ? x.bits != 0 : x.re != 0 || x.im != 0;
        break;
    case INT8:
    case UINT8:
        ((uint8_t *)out)[row] = (uint8_t)bits;
        break;
    case INT16:
    case UINT16:
        ((uint16_t *)out)[row] = (uint16_t)bits;
        break;
    case INT32:
    case UINT32:
        ((uint32_t *)out)[row] = (uint32_t)bits;
        break;
    case INT64:
    case UINT64:
        ((uint64_t *)out)[row] = bits;
        break;
    case FLOAT16:
        ((uint16_t *)out)[row] = float16_from_float(round_to_odd(x.re));
        break;
    case BFLOAT16:
        ((uint16_t *)out)[row] = bfloat16_from_float((float)x.re); /* rounds twice, as ml_dtypes does */
        break;
    case FLOAT32: /* not through a double, so that an integer is rounded once */
        ((float *)out)[row] = !x.is_integer ? (float)x.re : x.is_unsigned ? (float)bits : (float)(int64_t)bits;
        break;
    case FLOAT64:
        ((double *)out)[row] = x.re;
        break;
    case COMPLEX64:
        ((complex64 *)out)[row] = make_complex64((float)x.re, (float)x.im);
        break;
    default:
        ((complex128 *)out)[row] = make_complex128(x.re, x.im);
    }
}

int launch_reduce_sequential(const struct reduce_args *args)
{
    for (int64_t row = 0; row < args->outer * args->inner; row++) {
        const int64_t start = row / args->inner * args->n * args->inner + row % args->inner;
        store(args, row, finish(args, reduce_row(args, start)));
    }
    return 0;
}
