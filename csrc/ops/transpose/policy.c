/* Which kernel a transpose takes. */
#include "python/state.h"

#include "call/choice.h"
#include "call/part.h"
#include "kernels.h"
#include "transpose.h"

/* Whether tiles of whole vectors, at least `least` wide, would be full. */
static bool fills_vectors(npy_intp few, npy_intp many, npy_intp least, int element)
{
    enum { VECTOR = 16, HALF_A_TILE = 32 };

    return (((few & (few - 1)) == 0 && few >= least) || few > HALF_A_TILE) && few * element % VECTOR == 0 &&
           many * element % VECTOR == 0;
}

/* Whether a packed matrix is so narrow that most of a tile would be empty. */
static bool is_narrow(npy_intp few, npy_intp many, npy_intp pitch, int element)
{
    enum { WORD = 4, NARROW = 64, NARROW_WORDS = 48, BYTES = 2048 };

    return few <= (element < WORD ? NARROW : NARROW_WORDS) && few < many && pitch == few &&
           few * many * element >= BYTES;
}

/* Whether it is a packed batch of matrices so small that most of a tile would be empty. */
static bool is_small(const struct transpose_args *args)
{
    enum { MOST = 8192 };
    const npy_intp matrix = args->rows * args->columns;

    return args->x_row_stride == args->columns && args->out_row_stride == args->rows && args->batch_ndim == 1 &&
           args->batch[0].x_stride == matrix && args->batch[0].out_stride == matrix &&
           matrix * args->element_size <= MOST;
}

/* The most elements of a matrix in one tile. */
static npy_intp max_tile_elements(const struct transpose_args *args)
{
    enum { SIDE = 64 };

    return (args->rows < SIDE ? args->rows : SIDE) * (args->columns < SIDE ? args->columns : SIDE);
}

/* The kernel for segments that stay contiguous. */
static enum kernel_index choose_copy_kernel(const struct axes *axes, const struct transpose_args *args)
{
    enum {
        FEW = 1 << 17,  /* elements in all; twice as many for LARGE ones */
        SOME = 5 * FEW, /* in short segments that are not whole vectors */
        MANY = 8 * FEW,
        LARGE = 8, /* bytes of an element */
        VECTOR = 16,
        SHORT = 64,
        BLOCK = 4096,
        MOST = 1 << 20, /* bytes of a segment */
    };
    const int element = args->element_size;
    const npy_intp elements = args->batches * args->columns, segment_bytes = args->columns * element;
    const bool odd = segment_bytes <= SHORT && segment_bytes % VECTOR != 0;

    if (axes->ndim == 1 && segment_bytes <= BLOCK && segment_bytes % VECTOR == 0)
        return ROW_transpose_segments;
    if (elements <= (element >= LARGE ? 2 * FEW : odd && axes->ndim > 1 ? SOME : FEW))
        return ROW_transpose_small;
    if (axes->ndim == 1)
        return segment_bytes <= MOST ? ROW_transpose_segments : ROW_transpose_copy;
    if (segment_bytes <= VECTOR)
        return ROW_transpose_boxes;
    if (odd && element >= LARGE)
        return ROW_transpose_small;
    return odd && segment_bytes < 2 * VECTOR && elements > MANY ? ROW_transpose_boxes : ROW_transpose_segments;
}

/* Whether large elements are moved one by one, because there are few and tiles would hardly be full. Reading short
 * segments costs more than writing them. */
static bool prefers_element_copies(const struct transpose_args *args, npy_intp elements)
{
    enum { VECTOR = 16, FEW = 1 << 18, MANY = 1 << 20 };
    const bool vector = args->element_size == VECTOR;

    if (vector && (args->columns == 2 || args->columns == 4))
        return elements <= (args->columns == 2 ? 4 * MANY : MANY);
    if (args->rows <= 10)
        return elements <= 3 * FEW;
    if (args->columns <= 8)
        return elements <= (!vector ? 2 * FEW : args->columns > 4 ? FEW / 2 : FEW);
    return elements <= FEW && !vector;
}

const struct kernel_row *choose_transpose_kernel(const struct axes *axes, const struct transpose_args *args)
{
    enum { HALF = 2, WORD = 4, LARGE = 8, VECTOR = 16 }; /* bytes; an element is large from LARGE on */
    enum { TILE = 32 };                                  /* rows and columns of a tile */
    enum { PATCH = 512 };                                /* elements of a matrix in a tile */
    enum { SPOT = 200, TINY = 800, PART = 1700, PART_OF_BYTES = 2000 }; /* in a tile of 64 by 64 */
    enum { LONG = 64, LONGER = 96, RUN = 12, RUNS = 36 };               /* elements of a row of out, and of x */
    enum { FEW = 1 << 16, MORE = 1 << 18, MANY = 1 << 20, MOST = 1 << 21 }; /* elements in all */
    const int element = args->element_size;
    const npy_intp rows = args->rows, columns = args->columns, elements = args->batches * rows * columns;
    const npy_intp patch = (rows < TILE ? rows : TILE) * (columns < TILE ? columns : TILE);
    const npy_intp part = max_tile_elements(args);
    const bool large = element >= LARGE, wide = rows >= TILE && columns >= TILE;
    const bool tiles = transpose_fills_tiles(args) && (large || elements <= (wide ? MANY : MORE)) &&
                       (element < VECTOR || patch <= PATCH || elements <= FEW / 128 || elements > FEW / 2);
    const bool long_rows =
        (rows >= LONG && part < TINY && elements > MORE && elements <= MOST) ||
        (element == HALF && rows >= LONGER && columns >= RUN && columns <= RUNS && elements > 3 * MORE);
    const bool vectors = fills_vectors(columns, rows, element < WORD ? VECTOR / element : WORD, element) &&
                         fills_vectors(rows, columns, TILE / 2, element);
    const bool few_rows = is_narrow(rows, columns, args->out_row_stride, element);
    const bool narrow = few_rows || is_narrow(columns, rows, args->x_row_stride, element);
    enum kernel_index kernel = ROW_transpose_tiles;

    if (rows == 1)
        kernel = choose_copy_kernel(axes, args);
    else if (tiles)
        kernel = ROW_transpose_tiles;
    else if (elements <= FEW || is_small(args))
        kernel = ROW_transpose_small;
    else if (element == VECTOR && columns <= WORD && prefers_element_copies(args, elements))
        kernel = ROW_transpose_small;
    else if (few_rows && element == 1 && rows <= TILE && elements > MANY)
        kernel = ROW_transpose_narrow;
    else if (vectors || (element == VECTOR && columns >= VECTOR / HALF && rows >= RUN && !narrow))
        kernel = ROW_transpose_tiles;
    else if (long_rows && !narrow)
        kernel = ROW_transpose_narrow;
    else if ((narrow || part < PART / 2) && (large ? prefers_element_copies(args, elements) : elements <= MORE))
        kernel = ROW_transpose_small;
    else if (narrow)
        kernel = ROW_transpose_narrow;
    else if (part < TINY && elements < (part < SPOT ? MOST : 5 * MORE))
        kernel = ROW_transpose_small;
    else if (part < (element == 1 ? PART_OF_BYTES : PART) && (elements > MOST || part < TINY))
        kernel = ROW_transpose_boxes;
    return &kernel_rows[kernel];
}
