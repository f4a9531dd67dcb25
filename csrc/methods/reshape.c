/* Transposing and reshaping without a copy if possible. */
#include "python/state.h"

#include <string.h>

#include "array/array.h"
#include "methods.h"
#include "ops/transpose/transpose.h"
#include "python/arguments.h"
#include "python/layout.h"

PyObject *array_transposed(PyObject *self, void *unused)
{
    const struct layout layout = array_layout((struct array *)self);
    struct layout transposed;
    int axes[NPY_MAXDIMS];

    (void)unused;
    for (int i = 0; i < layout.ndim; i++)
        axes[i] = layout.ndim - 1 - i;
    transposed = layout_permuted(&layout, axes);
    return (PyObject *)array_view((struct array *)self, 0, &transposed);
}

PyObject *array_matrix_transposed(PyObject *self, void *unused)
{
    struct layout layout = array_layout((struct array *)self);
    const int row = layout.ndim - 2, column = layout.ndim - 1;

    (void)unused;
    if (row < 0)
        return PyErr_Format(PyExc_ValueError, "mT: expected an array of at least 2 dimensions, got %d",
                            layout.ndim);
    layout.shape[row] = ((struct array *)self)->dims[column];
    layout.shape[column] = ((struct array *)self)->dims[row];
    layout.strides[row] = array_strides((struct array *)self)[column];
    layout.strides[column] = array_strides((struct array *)self)[row];
    return (PyObject *)array_view((struct array *)self, 0, &layout);
}

PyObject *array_transpose(PyObject *self, PyObject *args)
{
    PyObject *order = PyTuple_GET_SIZE(args) == 0   ? Py_None
                      : PyTuple_GET_SIZE(args) == 1 ? PyTuple_GET_ITEM(args, 0)
                                                    : args;
    const struct layout layout = array_layout((struct array *)self);
    struct layout permuted;
    int axes[NPY_MAXDIMS];

    if (!read_axes(order, layout.ndim, axes))
        return NULL;
    permuted = layout_permuted(&layout, axes);
    return (PyObject *)array_view((struct array *)self, 0, &permuted);
}

PyObject *array_squeeze(PyObject *self, PyObject *args, PyObject *kwargs)
{
    static char *names[] = {"axis", NULL};
    const struct layout layout = array_layout((struct array *)self);
    bool chosen[NPY_MAXDIMS];
    struct layout squeezed = {.ndim = 0};
    PyObject *axis = Py_None;

    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "|O:squeeze", names, &axis) ||
        !read_axis(axis, layout.ndim, true, true, chosen))
        return NULL;
    for (int d = 0; d < layout.ndim; d++) {
        if (chosen[d] && layout.shape[d] == 1)
            continue;
        if (chosen[d] && axis != Py_None)
            return PyErr_Format(PyExc_ValueError, "axis: expected axes of length 1, but axis %d has length %zd", d,
                                (Py_ssize_t)layout.shape[d]);
        squeezed.shape[squeezed.ndim] = layout.shape[d];
        squeezed.strides[squeezed.ndim++] = layout.strides[d];
    }
    return (PyObject *)array_view((struct array *)self, 0, &squeezed);
}

/* The strides of the same elements, in the same order, in another shape; false if no strides can express that. The
 * dimensions of both are matched in groups of equal size: those of `old` must be contiguous within a group. */
static bool regroup(const struct layout *old, struct layout *new)
{
    int i = 0, j = 0;

    while (i < old->ndim && j < new->ndim) {
        const int first = i, begin = j;
        npy_intp size = old->shape[i++], new_size = new->shape[j++];

        while (size != new_size)
            if (new_size < size)
                new_size *= new->shape[j++];
            else
                size *= old->shape[i++];
        for (int k = first; k + 1 < i; k++)
            if (old->strides[k] != old->strides[k + 1] * old->shape[k + 1])
                return false;
        new->strides[j - 1] = old->strides[i - 1];
        for (int k = j - 1; k > begin; k--)
            new->strides[k - 1] = new->strides[k] * new->shape[k];
    }
    return true;
}

/* A layout without its dimensions of length 1. */
static struct layout without_ones(const struct layout *layout)
{
    struct layout result = {.ndim = 0};

    for (int i = 0; i < layout->ndim; i++) {
        if (layout->shape[i] == 1)
            continue;
        result.shape[result.ndim] = layout->shape[i];
        result.strides[result.ndim++] = layout->strides[i];
    }
    return result;
}

static void fill_dense_strides(struct layout *layout, npy_intp step)
{
    for (int i = layout->ndim - 1; i >= 0; i--) {
        layout->strides[i] = step;
        step *= layout->shape[i] ? layout->shape[i] : 1;
    }
}

/* Computes the strides of `wanted` for its shape. False if the elements must be copied first.
 */
static bool find_strides(const struct layout *old, int element, struct layout *wanted)
{
    struct layout dense, given;
    bool ok;

    if (old->ndim == wanted->ndim && !memcmp(old->shape, wanted->shape, (size_t)old->ndim * sizeof *old->shape)) {
        *wanted = *old;
        return true;
    }
    fill_dense_strides(wanted, element);
    if (layout_size(old) == 0 || layout_is_contiguous(old, element))
        return true;
    dense = without_ones(old);
    given = without_ones(wanted);
    ok = regroup(&dense, &given);
    for (int i = 0, j = 0; ok && i < wanted->ndim; i++)
        if (wanted->shape[i] != 1)
            wanted->strides[i] = given.strides[j++];
    return ok;
}

static PyObject *refuse_reshape(const struct array *array, const PyArray_Dims *requested)
{
    PyObject *shape = shape_tuple(requested->len, requested->ptr);

    if (shape)
        PyErr_Format(PyExc_ValueError, "shape: expected one of %zd elements, with at most one -1, got %R",
                     (Py_ssize_t)array->size, shape);
    Py_XDECREF(shape);
    return NULL;
}

/* Computes the length that is given as -1. */
static bool complete_shape(const struct array *array, const PyArray_Dims *requested, struct layout *layout)
{
    npy_intp known = 1, bytes = PyDataType_ELSIZE(array->descr);
    int inferred = -1;

    layout->ndim = requested->len;
    for (int i = 0; i < requested->len; i++) {
        const npy_intp length = layout->shape[i] = requested->ptr[i];

        if (length == -1 && inferred < 0) {
            inferred = i;
            continue;
        }
        if (length < 0 ||
            __builtin_mul_overflow(bytes, length ? length : 1, &bytes)) /* strides must not overflow */
            return false;
        known *= length;
    }
    if (inferred < 0)
        return known == array->size;
    if (known == 0 || array->size % known)
        return false;
    layout->shape[inferred] = array->size / known;
    return true;
}

static PyObject *reshaped(struct array *array, const PyArray_Dims *requested)
{
    const struct module_state *state = PyType_GetModuleState(Py_TYPE(array));
    const int element = (int)PyDataType_ELSIZE(array->descr);
    struct layout old = array_layout(array), wanted = {.ndim = 0};
    PyObject *copy, *result;

    if (!complete_shape(array, requested, &wanted))
        return refuse_reshape(array, requested);
    if (find_strides(&old, element, &wanted))
        return (PyObject *)array_view(array, 0, &wanted);
    copy = array_from(state, array->device, (PyObject *)array, 0, 0);
    if (!copy)
        return NULL;
    fill_dense_strides(&wanted, element);
    result = (PyObject *)array_view((struct array *)copy, 0, &wanted);
    Py_DECREF(copy);
    return result;
}

PyObject *array_reshape(PyObject *self, PyObject *args)
{
    PyObject *shape = PyTuple_GET_SIZE(args) == 1 ? PyTuple_GET_ITEM(args, 0) : args, *result = NULL;
    PyArray_Dims requested = {NULL, 0};

    if (PyArray_IntpConverter(shape, &requested))
        result = reshaped((struct array *)self, &requested);
    else
        add_argument_name("shape");
    PyDimMem_FREE(requested.ptr);
    return result;
}

PyObject *array_ravel(PyObject *self, PyObject *unused)
{
    npy_intp all = -1;
    const PyArray_Dims requested = {&all, 1};
    const struct array *array = (struct array *)self;

    (void)unused;
    if (array->size == 0) /* -1 is ambiguous */
        all = 0;
    return reshaped((struct array *)self, &requested);
}
