/* The transpose on one core of the host: two nested loops. Elements are moved, not computed, so their size is all
 * that counts. */
#include "kernels.h"

static void transpose_4(const uint32_t *x, uint32_t *out, int64_t rows, int64_t columns)
{
    for (int64_t row = 0; row < rows; row++)
        for (int64_t column = 0; column < columns; column++)
            out[column * rows + row] = x[row * columns + column];
}

int launch_transpose_sequential(const struct transpose_args *args)
{
    transpose_4(args->x, args->out, args->rows, args->columns);
    return 0;
}
