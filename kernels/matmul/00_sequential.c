/* C = A @ B on one core of the host: three nested loops, in the order in which the definition is written. */
#include "kernels.h"

#define MATMUL(name, type, sum_type)                                                         \
    static void name(const type *a, const type *b, type *c, int64_t m, int64_t n, int64_t k) \
    {                                                                                        \
        for (int64_t row = 0; row < m; row++) {                                              \
            for (int64_t column = 0; column < n; column++) {                                 \
                sum_type sum = 0;                                                            \
                for (int64_t i = 0; i < k; i++)                                              \
                    sum += (sum_type)a[row * k + i] * (sum_type)b[i * n + column];           \
                c[row * n + column] = (type)sum;                                             \
            }                                                                                \
        }                                                                                    \
    }

MATMUL(matmul_float32, float, float)
MATMUL(matmul_int32, int32_t, uint32_t) /* unsigned, which wraps; signed must not overflow */

int launch_matmul_sequential(const struct matmul_args *args)
{
    if (args->dtype == FLOAT32)
        matmul_float32(args->a, args->b, args->c, args->m, args->n, args->k);
    else
        matmul_int32(args->a, args->b, args->c, args->m, args->n, args->k);
    return 0;
}
