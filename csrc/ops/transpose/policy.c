/* Which kernel a transpose takes: the first of a ranking that supports the problem and is wanted for it. The
 * thresholds are in thresholds.def. */
#include "python/state.h"

#include "call/choice.h"
#include "call/part.h"
#include "kernels.h"
#include "python/dtypes.h"
#include "transpose.h"

enum { HALF = 2, WORD = 4, LARGE = 8, VECTOR = 16 }; /* bytes of elements, and of one load */
enum { TILE = 32, VECTOR_TILE = 64 };                /* rows and columns of a tile of elements, and of vectors */

/* What the rules look at. If rows == 1, a copy of segments of `columns` elements; otherwise matrices. */
struct problem {
    const struct transpose_args *args;
    const struct transpose_thresholds *limits;
    int axes, element; /* bytes of an element */
    npy_intp rows, columns, elements, segment_bytes;
    npy_intp fill;    /* elements of a matrix in one tile of VECTOR_TILE squared */
    bool few_rows;    /* narrow because of these */
    bool narrow, odd; /* odd: short segments that are not whole vectors */
};

/* ---- what a kernel supports ---- */

static bool takes_all(const struct problem *p)
{
    (void)p;
    return true;
}

static bool is_segments(const struct problem *p)
{
    return p->rows == 1;
}

static bool is_one_segment(const struct problem *p)
{
    return p->rows == 1 && p->axes == 1;
}

static bool is_matrices(const struct problem *p)
{
    return p->rows > 1;
}

/* ---- copies of segments ---- */

static bool is_short_vector_segment(const struct problem *p)
{
    return p->axes == 1 && p->segment_bytes <= p->limits->one_segment_bytes && p->segment_bytes % VECTOR == 0;
}

static bool is_small_copy(const struct problem *p)
{
    const struct transpose_thresholds *limits = p->limits;

    return p->elements <= (p->element >= LARGE     ? limits->copied_large_elements
                           : p->odd && p->axes > 1 ? limits->copied_odd_elements
                                                   : limits->copied_elements);
}

static bool is_long_segment(const struct problem *p)
{
    return p->segment_bytes > p->limits->one_copy_bytes;
}

static bool is_many_short_segments(const struct problem *p)
{
    return p->axes > 1 && (p->segment_bytes <= VECTOR ||
                           (p->odd && p->element < LARGE && p->segment_bytes < p->limits->odd_boxes_bytes &&
                            p->elements > p->limits->odd_boxes_elements));
}

static bool is_odd_segments_of_large_elements(const struct problem *p)
{
    return p->axes > 1 && p->odd && p->element >= LARGE;
}

/* ---- matrices ---- */

/* Full tiles of elements, as long as moving single elements is not slower than moving words. */
static bool fills_element_tiles(const struct problem *p)
{
    const struct transpose_thresholds *limits = p->limits;
    const bool wide = p->rows >= TILE && p->columns >= TILE;
    const npy_intp tile = (p->rows < TILE ? p->rows : TILE) * (p->columns < TILE ? p->columns : TILE);

    if (!transpose_fills_tiles(p->args))
        return false;
    if (p->element < LARGE)
        return p->elements <= (wide ? limits->wide_tiled_elements : limits->tiled_elements);
    return p->element < VECTOR || tile <= limits->vector_tile_elements ||
           p->elements <= limits->few_vector_elements || p->elements > limits->many_vector_elements;
}

/* A packed batch of matrices so small that most of a tile would be empty; or few elements in all. */
static bool is_small(const struct problem *p)
{
    enum { MAX_MATRIX_BYTES = 8192 }; /* half of the chunk of a block of `small` */
    const struct transpose_args *args = p->args;
    const npy_intp matrix = p->rows * p->columns;

    return p->elements <= p->limits->small_elements ||
           (args->x_row_stride == p->columns && args->out_row_stride == p->rows && args->batch_ndim == 1 &&
            args->batch[0].x_stride == matrix && args->batch[0].out_stride == matrix &&
            matrix * p->element <= MAX_MATRIX_BYTES);
}

/* Whether large elements are moved one by one, because there are few and tiles would hardly be full. Reading short
 * segments costs more than writing them. */
static bool prefers_element_copies(const struct problem *p)
{
    const struct transpose_thresholds *limits = p->limits;
    const bool vector = p->element == VECTOR;

    if (vector && p->columns == 2)
        return p->elements <= limits->two_column_elements;
    if (vector && p->columns == 4)
        return p->elements <= limits->four_column_elements;
    if (p->rows <= limits->few_rows)
        return p->elements <= limits->few_row_elements;
    if (p->columns <= limits->few_columns)
        return p->elements <= (!vector          ? limits->few_column_elements
                               : p->columns > 4 ? limits->few_column_vector_elements
                                                : limits->four_column_vector_elements);
    return p->elements <= limits->large_elements && !vector;
}

static bool is_few_vectors_per_row(const struct problem *p)
{
    return p->element == VECTOR && p->columns <= 4 && prefers_element_copies(p);
}

static bool is_many_bytes_in_few_rows(const struct problem *p)
{
    return p->few_rows && p->element == 1 && p->rows <= TILE && p->elements > p->limits->narrow_byte_elements;
}

/* Whether tiles of whole vectors, at least `least` wide, would be full. */
static bool fills_vectors(npy_intp few, npy_intp many, npy_intp least, int element)
{
    return (((few & (few - 1)) == 0 && few >= least) || few > VECTOR_TILE / 2) && few * element % VECTOR == 0 &&
           many * element % VECTOR == 0;
}

static bool fills_vector_tiles(const struct problem *p)
{
    const int least_columns = p->element < WORD ? VECTOR / p->element : 4;

    if (p->element == VECTOR && p->columns >= p->limits->vector_columns && p->rows >= p->limits->vector_rows &&
        !p->narrow)
        return true;
    return fills_vectors(p->columns, p->rows, least_columns, p->element) &&
           fills_vectors(p->rows, p->columns, VECTOR_TILE / 4, p->element);
}

/* Matrices that `narrow` divides into strips: long in out and short in x, but not packed. */
static bool is_strips(const struct problem *p)
{
    const struct transpose_thresholds *limits = p->limits;

    if (p->narrow)
        return false;
    return (p->rows >= limits->strip_rows && p->fill < limits->sparse_fill &&
            p->elements > limits->strip_elements && p->elements <= limits->max_strip_elements) ||
           (p->element == HALF && p->rows >= limits->half_strip_rows &&
            p->columns >= limits->min_half_strip_columns && p->columns <= limits->max_half_strip_columns &&
            p->elements > limits->half_strip_elements);
}

static bool is_few_elements_in_narrow(const struct problem *p)
{
    return (p->narrow || p->fill < p->limits->small_fill) &&
           (p->element >= LARGE ? prefers_element_copies(p) : p->elements <= p->limits->small_narrow_elements);
}

static bool is_narrow(const struct problem *p)
{
    return p->narrow;
}

static bool is_few_elements_in_sparse_tiles(const struct problem *p)
{
    const struct transpose_thresholds *limits = p->limits;

    return p->fill < limits->sparse_fill &&
           p->elements < (p->fill < limits->tiny_fill ? limits->tiny_elements : limits->sparse_elements);
}

static bool fills_boxes_better(const struct problem *p)
{
    const struct transpose_thresholds *limits = p->limits;

    return p->fill < (p->element == 1 ? limits->boxes_byte_fill : limits->boxes_fill) &&
           (p->elements > limits->boxes_elements || p->fill < limits->sparse_fill);
}

/* ---- the ranking ---- */

/* The first rule whose kernel supports the problem, and that wants it, decides. */
struct rule {
    enum kernel_index kernel;
    bool (*supports)(const struct problem *), (*wants)(const struct problem *);
};

static const struct rule ranking[] = {
    {ROW_transpose_segments, is_segments, is_short_vector_segment},
    {ROW_transpose_small, is_segments, is_small_copy},
    {ROW_transpose_copy, is_one_segment, is_long_segment},
    {ROW_transpose_boxes, is_segments, is_many_short_segments},
    {ROW_transpose_small, is_segments, is_odd_segments_of_large_elements},
    {ROW_transpose_segments, is_segments, takes_all},

    {ROW_transpose_tiles, is_matrices, fills_element_tiles},
    {ROW_transpose_small, is_matrices, is_small},
    {ROW_transpose_small, is_matrices, is_few_vectors_per_row},
    {ROW_transpose_narrow, is_matrices, is_many_bytes_in_few_rows},
    {ROW_transpose_tiles, is_matrices, fills_vector_tiles},
    {ROW_transpose_narrow, is_matrices, is_strips},
    {ROW_transpose_small, is_matrices, is_few_elements_in_narrow},
    {ROW_transpose_narrow, is_matrices, is_narrow},
    {ROW_transpose_small, is_matrices, is_few_elements_in_sparse_tiles},
    {ROW_transpose_boxes, is_matrices, fills_boxes_better},
    {ROW_transpose_tiles, takes_all, takes_all},
};

/* Whether a packed matrix is so narrow that most of a tile would be empty. */
static bool is_narrow_matrix(npy_intp few, npy_intp many, npy_intp pitch, int element,
                             const struct transpose_thresholds *limits)
{
    return few <= (element < WORD ? limits->narrow_width : limits->narrow_word_width) && few < many &&
           pitch == few && few * many * element >= limits->narrow_bytes;
}

const struct kernel_row *choose_transpose_kernel(const struct device *device, const struct axes *axes,
                                                 const struct transpose_args *args,
                                                 const struct transpose_thresholds *limits)
{
    const npy_intp rows = args->rows, columns = args->columns;
    const int element = args->element_size;
    struct problem problem = {.args = args,
                              .limits = limits,
                              .axes = axes->ndim,
                              .element = element,
                              .rows = rows,
                              .columns = columns,
                              .elements = args->batches * rows * columns,
                              .segment_bytes = columns * element,
                              .few_rows = is_narrow_matrix(rows, columns, args->out_row_stride, element, limits)};
    const struct rule *rule = ranking;

    problem.fill = (rows < VECTOR_TILE ? rows : VECTOR_TILE) * (columns < VECTOR_TILE ? columns : VECTOR_TILE);
    problem.narrow = problem.few_rows || is_narrow_matrix(columns, rows, args->x_row_stride, element, limits);
    problem.odd = problem.segment_bytes <= limits->short_segment_bytes && problem.segment_bytes % VECTOR != 0;
    while (!rule->supports(&problem) || !rule->wants(&problem) ||
           !kernel_may_be_chosen(device, rule->kernel, dtypes_of_size(element)))
        rule++; /* the last rule accepts every problem, with the default kernel */
    return &kernel_rows[rule->kernel];
}
