/* The transpose on one core of the host: two nested loops, inside a loop over the matrices of a batch. Elements
 * are only moved, so their size is all that matters. */
#include "kernels.h"

struct bytes_16 {
    uint64_t half[2];
};

#define TRANSPOSE(name, type)                                               \
    static void name(const struct transpose_args *args)                     \
    {                                                                       \
        const int64_t rows = args->rows, columns = args->columns;           \
                                                                            \
        for (int64_t batch = 0; batch < args->batches; batch++) {           \
            const type *x = (const type *)args->x + batch * rows * columns; \
            type *out = (type *)args->out + batch * rows * columns;         \
                                                                            \
            for (int64_t row = 0; row < rows; row++)                        \
                for (int64_t column = 0; column < columns; column++)        \
                    out[column * rows + row] = x[row * columns + column];   \
        }                                                                   \
    }

TRANSPOSE(transpose_1, uint8_t)
TRANSPOSE(transpose_2, uint16_t)
TRANSPOSE(transpose_4, uint32_t)
TRANSPOSE(transpose_8, uint64_t)
TRANSPOSE(transpose_16, struct bytes_16)

int launch_transpose_sequential(const struct transpose_args *args)
{
    switch (args->element_size) {
    case 1:
        transpose_1(args);
        break;
    case 2:
        transpose_2(args);
        break;
    case 4:
        transpose_4(args);
        break;
    case 8:
        transpose_8(args);
        break;
    case 16:
        transpose_16(args);
        break;
    default:
        return 1; /* cudaErrorInvalidValue */
    }
    return 0;
}
