/* sum, min or max of an array on one core of the host: one loop, one element after the other. */
#include "kernels.h"

#define REDUCE(name, type, sum_type)                                                 \
    static sum_type name##_sum(const type *x, int64_t n)                             \
    {                                                                                \
        sum_type sum = 0;                                                            \
        for (int64_t i = 0; i < n; i++)                                              \
            sum += x[i];                                                             \
        return sum;                                                                  \
    }                                                                                \
    static type name##_min(const type *x, int64_t n)                                 \
    {                                                                                \
        type least = x[0];                                                           \
        for (int64_t i = 1; i < n; i++)                                              \
            least = least < x[i] || least != least ? least : x[i]; /* a NaN stays */ \
        return least;                                                                \
    }                                                                                \
    static type name##_max(const type *x, int64_t n)                                 \
    {                                                                                \
        type most = x[0];                                                            \
        for (int64_t i = 1; i < n; i++)                                              \
            most = most > x[i] || most != most ? most : x[i];                        \
        return most;                                                                 \
    }

REDUCE(float32, float, float)
REDUCE(int32, int32_t, int64_t)

static double float32_sum_float64(const float *x, int64_t n)
{
    double sum = 0;
    for (int64_t i = 0; i < n; i++)
        sum += x[i];
    return sum;
}

int launch_reduce_sequential(const struct reduce_args *args)
{
    const void *x = args->x;

    if (args->op == REDUCE_SUM && args->dtype == INT32)
        *(int64_t *)args->out = int32_sum(x, args->n);
    else if (args->op == REDUCE_SUM && args->accumulator == FLOAT32)
        *(float *)args->out = float32_sum(x, args->n);
    else if (args->op == REDUCE_SUM && args->result == FLOAT32)
        *(float *)args->out = (float)float32_sum_float64(x, args->n);
    else if (args->op == REDUCE_SUM)
        *(double *)args->out = float32_sum_float64(x, args->n);
    else if (args->op == REDUCE_MIN && args->dtype == FLOAT32)
        *(float *)args->out = float32_min(x, args->n);
    else if (args->op == REDUCE_MIN)
        *(int32_t *)args->out = int32_min(x, args->n);
    else if (args->dtype == FLOAT32)
        *(float *)args->out = float32_max(x, args->n);
    else
        *(int32_t *)args->out = int32_max(x, args->n);
    return 0;
}
