/* transpose: any permutation of the axes, as a copy. A permutation is reduced to a batch of matrices to be
 * transposed, or of contiguous segments to be copied, at any strides. */
#include "smemkit.h"

#include <string.h>

/* ---- policy: the simplest form of a permutation, and the rung for it ---- */

/* The dimensions of out, merged as far as possible, with their strides in x and in out. */
struct axes {
    int ndim;
    npy_intp shape[NPY_MAXDIMS], x[NPY_MAXDIMS], out[NPY_MAXDIMS]; /* bytes */
};

static void remove_axis(struct axes *axes, int d)
{
    const size_t behind = (size_t)(--axes->ndim - d) * sizeof(npy_intp);

    memmove(axes->shape + d, axes->shape + d + 1, behind);
    memmove(axes->x + d, axes->x + d + 1, behind);
    memmove(axes->out + d, axes->out + d + 1, behind);
}

/* The axis with contiguous elements; -1 if there is none. */
static int side_by_side(const struct axes *axes, const npy_intp *steps, int element)
{
    for (int d = axes->ndim - 1; d >= 0; d--)
        if (steps[d] == element)
            return d;
    return -1;
}

/* Merges a few elements that stay contiguous into one larger element. Returns its bytes. */
static int widen(struct axes *axes, int element, uintptr_t x, uintptr_t out)
{
    enum { WIDEST = 16 };
    const int run = side_by_side(axes, axes->out, element);
    npy_intp bytes, any = (npy_intp)(x | out);

    if (run < 0 || axes->ndim < 2 || axes->x[run] != element || axes->shape[run] > WIDEST / element)
        return element;
    bytes = axes->shape[run] * element;
    for (int d = 0; d < axes->ndim; d++)
        if (d != run)
            any |= axes->x[d] | axes->out[d];
    if ((bytes & (bytes - 1)) != 0 || any % bytes != 0)
        return element;
    remove_axis(axes, run);
    return (int)bytes;
}

/* Expresses the permutation as a batch of matrices in `args`, with contiguous rows in x and in out. If both have
 * the same innermost axis, the matrices have a single row, which is copied. False if there is no such axis, or if
 * there are too many dimensions. */
static bool view_as_matrices(struct axes axes, int element, struct transpose_args *args)
{
    const int row = side_by_side(&axes, axes.out, element), column = side_by_side(&axes, axes.x, element);

    args->element_size = element;
    args->batches = args->rows = args->columns = args->x_row_stride = args->out_row_stride = 1;
    args->batch_ndim = 0;
    if (axes.ndim == 0)
        return true;
    if (row < 0 || column < 0)
        return false;
    args->columns = args->x_row_stride = axes.shape[column];
    if (row != column) {
        args->rows = axes.shape[row];
        args->x_row_stride = axes.x[row] / element;
        args->out_row_stride = axes.out[column] / element;
        remove_axis(&axes, row);
    }
    remove_axis(&axes, side_by_side(&axes, axes.x, element));
    if (axes.ndim > MAX_BATCH_DIMENSIONS)
        return false;
    args->batch_ndim = axes.ndim;
    for (int d = 0; d < axes.ndim; d++) {
        args->batches *= axes.shape[d];
        args->batch[d] = (struct batch_dimension){axes.shape[d], axes.x[d] / element, axes.out[d] / element};
    }
    return true;
}

static struct axes axes_of(const struct layout *as, const struct layout *made)
{
    struct axes axes = {.ndim = as->ndim};
    const size_t bytes = (size_t)as->ndim * sizeof(npy_intp);

    memcpy(axes.shape, as->shape, bytes);
    memcpy(axes.x, as->strides, bytes);
    memcpy(axes.out, made->strides, bytes);
    axes.ndim = merge_dimensions(axes.ndim, axes.shape, axes.x, axes.out);
    return axes;
}

/* Whether a rung accepts strides. Those up to `swizzled` do not. */
static bool accepts_strides(const struct kernel_row *row)
{
    return !row->ceiling && row->order > find_row(OP_transpose, "swizzled")->order;
}

/* Whether every row is 16-byte aligned, as `vectorized` requires in place. */
static bool out_rows_are_vector_aligned(const struct transpose_args *args, const void *array)
{
    enum { VECTOR = 16 };
    npy_intp any = (npy_intp)(uintptr_t)array | args->out_row_stride * args->element_size;

    for (int d = 0; d < args->batch_ndim; d++)
        any |= args->batch[d].out_stride * args->element_size;
    return any % VECTOR == 0;
}

/* The rung that transposes square matrices in place, where `array` is both x and out: NULL if they are not square,
 * or no rung can.
 */
static const struct kernel_row *choose_in_place_kernel(const struct transpose_args *args, const void *array)
{
    bool alike = args->rows == args->columns && args->x_row_stride == args->out_row_stride;

    for (int d = 0; d < args->batch_ndim; d++)
        alike = alike && args->batch[d].x_stride == args->batch[d].out_stride;
    if (!alike)
        return NULL;
    if (out_rows_are_vector_aligned(args, array))
        return find_row(OP_transpose, "vectorized");
    if (args->x_row_stride != args->columns || args->batch_ndim > 1 ||
        (args->batch_ndim && args->batch[0].x_stride != args->rows * args->columns))
        return NULL;
    return find_row(OP_transpose, "swizzled");
}

static bool accepts_whole_element_strides(const struct layout *there, const void *call)
{
    return layout_strides_are_whole_elements(there, dtype_bytes(((const struct call *)call)->in[0].dtype));
}

/* Sets the layouts of the call. kernel=None and rungs that read strides take x's own layout, if they can. Other
 * rungs get contiguous matrices, the last two of out's merged dimensions; if x is not laid out that way, `convert`
 * rearranges it first. */
static void choose_layout(struct call *call, const int *axes)
{
    const int element = dtype_bytes(call->in[0].dtype);
    struct layout view = layout_permuted(&call->in[0].layout, axes), *as = &call->as[0], *made = &call->made;
    struct transpose_args args;

    call->dtype[0] = call->in[0].dtype;
    if (call->kernel.row->ceiling)
        view = call->in[0].layout;
    view.ndim = merge_dimensions(view.ndim, view.shape, view.strides, made->strides);
    made->ndim = view.ndim;
    memcpy(made->shape, view.shape, sizeof made->shape);
    *as = view;
    if (call->kernel.row->ceiling)
        return;
    call->strided_out = (call->kernel.chosen || accepts_strides(call->kernel.row)) &&
                        layout_strides_are_whole_elements(made, element) &&
                        layout_strides_are_whole_elements(as, element) &&
                        (view_as_matrices(axes_of(as, made), element, &args) || call->kernel.chosen);
    call->accepts_layout = call->strided_out ? accepts_whole_element_strides : NULL;
    call->accepts_context = call;
    call->in_place = call->strided_out && call->in[0].device && call->in[0].data == call->out.data &&
                     view_as_matrices(axes_of(as, made), element, &args) &&
                     choose_in_place_kernel(&args, call->out.data) &&
                     (call->kernel.chosen || call->kernel.row == choose_in_place_kernel(&args, call->out.data));
    if (!call->strided_out && view.ndim > 1) { /* swap the last two, which the rung swaps back */
        const int last = view.ndim - 1;

        as->shape[last] = view.shape[last - 1];
        as->shape[last - 1] = view.shape[last];
        as->strides[last] = view.strides[last - 1];
        as->strides[last - 1] = view.strides[last];
    }
}

/* Moves elements one by one, with any strides. */
static bool launch_element_copy(struct call *part, const struct axes *axes, int element)
{
    const enum dtype dtype = element == 1   ? UINT8
                             : element == 2 ? UINT16
                             : element == 4 ? UINT32
                             : element == 8 ? UINT64
                                            : COMPLEX128;
    struct convert_args args = {.x = {.data = part->memory[0], .dtype = dtype, .aligned = true},
                                .out = {.data = part->out_memory, .dtype = dtype, .aligned = true},
                                .size = 1,
                                .ndim = axes->ndim};

    for (int d = 0; d < axes->ndim; d++) {
        args.size *= axes->shape[d];
        args.shape[d] = axes->shape[d];
        args.x.strides[d] = axes->x[d];
        args.out.strides[d] = axes->out[d];
    }
    return call_launch(part, find_row(OP_convert, "strided"), &args);
}

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

/* The rung for segments that stay contiguous. */
static const char *choose_copy_kernel(const struct axes *axes, const struct transpose_args *args)
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
    const npy_intp elements = args->batches * args->columns, run = args->columns * element;
    const bool odd = run <= SHORT && run % VECTOR != 0;

    if (axes->ndim == 1 && run <= BLOCK && run % VECTOR == 0)
        return "segments";
    if (elements <= (element >= LARGE ? 2 * FEW : odd && axes->ndim > 1 ? SOME : FEW))
        return "small";
    if (axes->ndim == 1)
        return run <= MOST ? "segments" : "copy";
    if (run <= VECTOR)
        return "boxes";
    if (odd && element >= LARGE)
        return "small";
    return odd && run < 2 * VECTOR && elements > MANY ? "boxes" : "segments";
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

/* The rung for matrices with kernel=None. Its thresholds are where the rungs' times crossed on an H200, over two
 * thousand random problems. Up to some size the latency of memory dominates, and the least preparation wins. */
static const struct kernel_row *choose_transpose_kernel(const struct axes *axes, const struct transpose_args *args)
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
    const char *name = "vectorized";

    if (rows == 1)
        name = choose_copy_kernel(axes, args);
    else if (tiles)
        name = "vectorized";
    else if (elements <= FEW || is_small(args))
        name = "small";
    else if (element == VECTOR && columns <= WORD && prefers_element_copies(args, elements))
        name = "small";
    else if (few_rows && element == 1 && rows <= TILE && elements > MANY)
        name = "narrow";
    else if (vectors || (element == VECTOR && columns >= VECTOR / HALF && rows >= RUN && !narrow))
        name = "vectorized";
    else if (long_rows && !narrow)
        name = "narrow";
    else if ((narrow || part < PART / 2) && (large ? prefers_element_copies(args, elements) : elements <= MORE))
        name = "small";
    else if (narrow)
        name = "narrow";
    else if (part < TINY && elements < (part < SPOT ? MOST : 5 * MORE))
        name = "small";
    else if (part < (element == 1 ? PART_OF_BYTES : PART) && (elements > MOST || part < TINY))
        name = "boxes";
    return find_row(OP_transpose, name);
}

static bool launch_strided_transpose(struct call *part)
{
    struct layout made = part->made;
    int element = dtype_bytes(part->in[0].dtype);
    npy_intp step = element;
    struct transpose_args args = {.x = part->memory[0], .out = part->out_memory};
    struct axes axes;

    if (part->out_memory != part->out.data) { /* a temporary of the call */
        for (int d = made.ndim - 1; d >= 0; d--) {
            made.strides[d] = step;
            step *= made.shape[d];
        }
    }
    axes = axes_of(&part->as[0], &made);
    if (part->kernel.chosen)
        element = widen(&axes, element, (uintptr_t)args.x, (uintptr_t)args.out);
    if (!view_as_matrices(axes, element, &args))
        return launch_element_copy(part, &axes, element);
    if (args.x == args.out)
        return call_launch(part, choose_in_place_kernel(&args, args.out), &args);
    return call_launch(part, part->kernel.chosen ? choose_transpose_kernel(&axes, &args) : part->kernel.row,
                       &args);
}

/* Packed matrices; for a ceiling, all in one row. */
static bool run_transpose(struct call *part, void *unused)
{
    const struct layout *as = &part->as[0];
    struct transpose_args args = {.x = part->memory[0],
                                  .out = part->out_memory,
                                  .batches = 1,
                                  .rows = 1,
                                  .columns = layout_size(as),
                                  .element_size = dtype_bytes(part->in[0].dtype),
                                  .tile = part->kernel.size,
                                  .pad = part->kernel.pad};

    (void)unused;
    if (part->strided_out)
        return launch_strided_transpose(part);
    if (as->ndim > 1 && !part->kernel.row->ceiling) {
        args.rows = as->shape[as->ndim - 2];
        args.columns = as->shape[as->ndim - 1];
        args.batches = layout_size(as) / (args.rows * args.columns);
    }
    args.x_row_stride = args.columns;
    args.out_row_stride = args.rows;
    if (args.batches > 1) {
        args.batch_ndim = 1;
        args.batch[0] = (struct batch_dimension){args.batches, args.rows * args.columns, args.rows * args.columns};
    }
    return call_launch(part, part->kernel.row, &args);
}

/* ---- parts ---- */

/* The loops over the parts of a transpose: matrices of a batch; within one matrix, columns or rows of x, whichever
 * give longer segments where the host array has gaps. */
static void partition_transpose(struct call *call)
{
    enum { RUN = 1024 };
    const struct layout *made = &call->made;
    const int last = made->ndim - 1;
    const npy_intp element = dtype_bytes(call->in[0].dtype), bytes = call->in[0].size * element;
    const npy_intp part = call_part_bytes(call, bytes), columns = last > 0 ? made->shape[last - 1] : 1;
    const npy_intp rows = last > 0 ? made->shape[last] : 1, matrix = rows * columns * element;
    struct partition *partitions = call->partitions;

    if (bytes <= part || made->ndim == 0)
        return;
    if (call->kernel.row->ceiling || made->ndim == 1) {
        partitions[1] = (struct partition){made->shape[0], step_of(part, bytes / made->shape[0], 1), {0, -1}, 0};
        return;
    }
    if (made->ndim > 2) {
        const int loop = matrix > part ? 0 : 1;

        partitions[loop] =
            (struct partition){made->shape[0], step_of(part, bytes / made->shape[0], 1), {0, -1}, 0};
    }
    if (matrix > part) {
        const bool by_columns = rows <= columns;
        const npy_intp length = by_columns ? columns : rows, step = step_of(part, matrix / length, 1);
        const int partition = by_columns ? last - 1 : last;

        partitions[1] = (struct partition){
            length, step, {call->strided_out ? partition : 2 * last - 1 - partition, -1}, partition};
        if (step * element < RUN)
            partitions[1].step = RUN / element;
    }
}

enum { T_X, T_AXES, T_KERNEL, T_TILE, T_PAD, T_OUT, T_DEVICE, T_STREAM };

static PyObject *transpose(const struct module_state *state, PyObject *const *args, struct launch_record *note)
{
    const bool own_out = args[T_OUT] != Py_None;
    struct call call = {
        .inputs = 1, .bytes_only = true, .keeps_0d_array = !PyArray_IsScalar(args[T_X], Generic), .note = note};
    const struct layout *layout = &call.in[0].layout;
    npy_intp shape[NPY_MAXDIMS];
    int axes[NPY_MAXDIMS];

    if (!read_operand(state, args[T_X], "x", args[T_STREAM], &call.in[0]) ||
        !read_axes(args[T_AXES], layout->ndim, axes) ||
        !read_device(state, args[T_DEVICE], call.in, 1, &call.device) ||
        !read_kernel(OP_transpose, args[T_KERNEL], "tile", args[T_TILE], args[T_PAD], args[T_DEVICE],
                     call_has_host_operands(&call), &call.device, &call.kernel) ||
        !check_kernel_dtype(&call.kernel, "x", call.in[0].dtype) ||
        !read_stream(state, args[T_STREAM], call.device, &call.stream))
        return call_fail(&call);
    for (int i = 0; i < layout->ndim; i++)
        shape[i] = layout->shape[call.kernel.row->ceiling ? i : axes[i]];
    if (!call_read_out(state, &call, args[T_OUT], call.in[0].dtype, layout->ndim, shape, args[T_STREAM]))
        return call_fail(&call);

    if (call.out.size) {
        choose_layout(&call, axes);
        partition_transpose(&call);
    }
    return call_run(state, &call, run_transpose, NULL, own_out);
}

PyObject *core_transpose(PyObject *module, PyObject *const *args, Py_ssize_t count)
{
    const struct module_state *state = state_of(module);
    struct launch_record note = {.launches = 0};
    PyObject *result;

    if (!read_count("transpose", count, T_STREAM + 1))
        return NULL;
    const bool plain =
        args[T_OUT] != Py_None && all_none(args, T_AXES, T_PAD) && all_none(args, T_DEVICE, T_STREAM);
    PyObject *const operands[] = {args[T_X], args[T_OUT]};
    if (plain && launch_cache_run(state, OP_transpose, operands, 2, &result))
        return result;
    result = transpose(state, args, plain ? &note : NULL);
    if (plain && result)
        launch_cache_store(state, OP_transpose, operands, 2, &note, 0, result);
    return result;
}
