/* A reduction on one core of the host.
 *
 * The idea: for each row, one loop over its elements. LOOP is that loop; it is written out below for each dtype.
 * Integers are added in 64 bits, which wrap around; floats in single precision, doubles in double precision.
 */
#include <stdbool.h>
#include <stdint.h>

#include "kernels.h"
#include "smemkit/narrow_bits.h"

/* how an element becomes a number */
#define NUMBER(x) (x)
#define TRUTH(x)  ((x) != 0)

/* how a result is stored, as result `row` */
static void store_integer(const struct reduce_args *args, int64_t row, uint64_t result)
{
    if (args->result == BOOL)
        ((uint8_t *)args->out)[row] = result != 0;
    else if (args->result & (INT8 | UINT8))
        ((uint8_t *)args->out)[row] = (uint8_t)result;
    else if (args->result & (INT16 | UINT16))
        ((uint16_t *)args->out)[row] = (uint16_t)result;
    else if (args->result & (INT32 | UINT32))
        ((uint32_t *)args->out)[row] = (uint32_t)result;
    else
        ((uint64_t *)args->out)[row] = result;
}

static void store_float16(const struct reduce_args *args, int64_t row, float result)
{
    ((uint16_t *)args->out)[row] = float16_from_float(result);
}

static void store_bfloat16(const struct reduce_args *args, int64_t row, float result)
{
    ((uint16_t *)args->out)[row] = bfloat16_from_float(result);
}

static void store_float32(const struct reduce_args *args, int64_t row, float result)
{
    ((float *)args->out)[row] = result;
}

static void store_float64(const struct reduce_args *args, int64_t row, double result)
{
    ((double *)args->out)[row] = result;
}

/* Elements lie in memory as a `type` and are loaded by `load`; they are compared as a `value` and added as a
 * `total`. The initial value is a member of struct scalar: `bits` of an integer, `re` of a real number. */
#define LOOP(dtype, type, load, value, total, member, store)                                               \
    case dtype: {                                                                                          \
        const type *x = (const type *)args->x + row * args->n;                                             \
        total sum = args->has_initial ? (total)args->initial.member : 0;                                   \
        total product = args->has_initial ? (total)args->initial.member : 1;                               \
        value first = args->has_initial ? (value)args->initial.member : (value)load(*x);                   \
                                                                                                           \
        for (int64_t j = 0; j < args->n; j++) {                                                            \
            const value element = (value)load(x[j]);                                                       \
                                                                                                           \
            if (args->op == REDUCE_SUM)                                                                    \
                sum += (total)element;                                                                     \
            else if (args->op == REDUCE_PROD)                                                              \
                product *= (total)element;                                                                 \
            else if (args->op == REDUCE_MIN ? element < first : element > first)                           \
                first = element;                                                                           \
            else if (element != element) /* NaN comes before all numbers */                                \
                first = element;                                                                           \
        }                                                                                                  \
        store(args, row, args->op == REDUCE_SUM ? sum : args->op == REDUCE_PROD ? product : (total)first); \
        break;                                                                                             \
    }

int launch_reduce_sequential(const struct reduce_args *args)
{
    for (int64_t row = 0; row < args->outer; row++)
        switch (args->dtype) {
            LOOP(BOOL, uint8_t, TRUTH, uint64_t, uint64_t, bits, store_integer)
            LOOP(INT8, int8_t, NUMBER, int64_t, uint64_t, bits, store_integer)
            LOOP(INT16, int16_t, NUMBER, int64_t, uint64_t, bits, store_integer)
            LOOP(INT32, int32_t, NUMBER, int64_t, uint64_t, bits, store_integer)
            LOOP(INT64, int64_t, NUMBER, int64_t, uint64_t, bits, store_integer)
            LOOP(UINT8, uint8_t, NUMBER, uint64_t, uint64_t, bits, store_integer)
            LOOP(UINT16, uint16_t, NUMBER, uint64_t, uint64_t, bits, store_integer)
            LOOP(UINT32, uint32_t, NUMBER, uint64_t, uint64_t, bits, store_integer)
            LOOP(UINT64, uint64_t, NUMBER, uint64_t, uint64_t, bits, store_integer)
            LOOP(FLOAT16, uint16_t, float16_to_float, float, float, re, store_float16)
            LOOP(BFLOAT16, uint16_t, bfloat16_to_float, float, float, re, store_bfloat16)
            LOOP(FLOAT32, float, NUMBER, float, float, re, store_float32)
            LOOP(FLOAT64, double, NUMBER, double, double, re, store_float64)
        default:
            return 1; /* cudaErrorInvalidValue */
        }
    return 0;
}
