/* The type Array: its attributes, and the table of its methods and slots. */
#include "python/state.h"

#include <structmember.h>
#include "array/array.h"
#include "methods.h"
#include "python/arguments.h"

static PyObject *get_shape(PyObject *self, void *unused)
{
    struct array *array = (struct array *)self;

    (void)unused;
    return shape_tuple(array->ndim, array_shape(array));
}

static PyObject *get_strides(PyObject *self, void *unused)
{
    struct array *array = (struct array *)self;

    (void)unused;
    return shape_tuple(array->ndim, array_strides(array));
}

static PyObject *get_dtype(PyObject *self, void *unused)
{
    (void)unused;
    return Py_NewRef((PyObject *)((struct array *)self)->descr);
}

static PyObject *get_size(PyObject *self, void *unused)
{
    (void)unused;
    return PyLong_FromSsize_t(((struct array *)self)->size);
}

static PyObject *get_itemsize(PyObject *self, void *unused)
{
    (void)unused;
    return PyLong_FromSsize_t(PyDataType_ELSIZE(((struct array *)self)->descr));
}

static PyObject *get_base(PyObject *self, void *unused)
{
    const struct array *array = (struct array *)self;

    (void)unused;
    return Py_NewRef(array->base && array_check(array->base) ? array->base : self);
}

static PyObject *get_readonly(PyObject *self, void *unused)
{
    (void)unused;
    return PyBool_FromLong(((struct array *)self)->readonly);
}

static PyObject *get_is_contiguous(PyObject *self, void *unused)
{
    (void)unused;
    return PyBool_FromLong(array_is_contiguous((struct array *)self));
}

static PyObject *get_nbytes(PyObject *self, void *unused)
{
    (void)unused;
    return PyLong_FromSize_t(((struct array *)self)->bytes);
}

static PyObject *get_ndim(PyObject *self, void *unused)
{
    (void)unused;
    return PyLong_FromLong(((struct array *)self)->ndim);
}

static PyObject *get_device(PyObject *self, void *unused)
{
    (void)unused;
    return PyUnicode_FromString(((struct array *)self)->device->name);
}

static PyObject *get_owning_stream(PyObject *self, void *unused)
{
    (void)unused;
    return PyLong_FromVoidPtr(((struct array *)self)->owning_stream);
}

static PyObject *get_address(PyObject *self, void *unused)
{
    array_require_sync((struct array *)self);
    (void)unused;
    return PyLong_FromVoidPtr(((struct array *)self)->data);
}

static Py_ssize_t array_length(PyObject *self)
{
    struct array *array = (struct array *)self;

    if (array->ndim == 0) {
        PyErr_SetString(PyExc_TypeError, "len() of an array without dimensions");
        return -1;
    }
    return array_shape(array)[0];
}

static PyObject *array_iterator(PyObject *self)
{
    if (((struct array *)self)->ndim == 0)
        return PyErr_Format(PyExc_TypeError, "iteration over an array without dimensions");
    return PySeqIter_New(self);
}

#define DOC(signature, text) signature "\n--\n\n" text
#define KEYWORDS             METH_VARARGS | METH_KEYWORDS
#define REDUCTION(op, keywords, text)                                                              \
    {                                                                                              \
#op, (PyCFunction)(void (*)(void))array_##op, METH_FASTCALL | METH_KEYWORDS,               \
            DOC(#op "($self, /, axis=None, *, " keywords "keepdims=False, out=None, stream=None)", \
                text ": smemkit." #op ".")                                                         \
    }
#define LADDER "initial=None, kernel=None, block_size=None, "
static PyMethodDef methods[] = {
    {"numpy", array_numpy, METH_NOARGS, DOC("numpy($self, /)", "A NumPy array with a copy of the elements.")},
    {"item", (PyCFunction)(void (*)(void))array_item, METH_FASTCALL,
     "item($self, /, *index)\n--\n\nThe only element, or the element at an index, as a Python number.\n\n"
     "The index is one integer, into the elements in C order, or one integer per dimension."},
    {"to", array_to, METH_O,
     DOC("to($self, device, /)",
         "The elements on `device`: the array itself if it is there already, otherwise a copy.")},
    {"astype", (PyCFunction)(void (*)(void))array_astype, KEYWORDS,
     DOC("astype($self, /, dtype, *, copy=True)", "A copy in another dtype, converted on the device; with "
                                                  "copy=False the array itself if it has that dtype.")},
    {"copy", array_copy, METH_NOARGS,
     DOC("copy($self, /)", "A C-contiguous copy in memory of its own, on the same device.")},
    {"reshape", array_reshape, METH_VARARGS,
     "reshape($self, /, *shape)\n--\n\nThe elements, in C order, in another shape; one length may be "
     "-1.\n\n"
     "A view if strides can express it, otherwise a copy."},
    {"ravel", array_ravel, METH_NOARGS,
     DOC("ravel($self, /)", "The elements in C order in one dimension: reshape(-1).")},
    {"squeeze", (PyCFunction)(void (*)(void))array_squeeze, KEYWORDS,
     DOC("squeeze($self, /, axis=None)", "A view without the axes of length 1, or without these of them.")},
    {"transpose", array_transpose, METH_VARARGS,
     "transpose($self, /, *axes)\n--\n\nA view with permuted axes, in reverse order without an argument.\n\n"
     "`smemkit.transpose` moves the elements."},
    {"fill", array_fill, METH_O, DOC("fill($self, value, /)", "Sets every element: x[...] = value.")},
    {"tolist", array_tolist, METH_NOARGS,
     DOC("tolist($self, /)", "The elements as nested lists of Python numbers.")},
    {"get", array_numpy, METH_NOARGS, DOC("get($self, /)", "The same as numpy(), as CuPy calls it.")},
    {"to_device", (PyCFunction)(void (*)(void))array_to_device, KEYWORDS,
     DOC("to_device($self, device, /, *, stream=None)", "The same as to(), as the array API standard calls it.")},
    REDUCTION(sum, "dtype=None, " LADDER, "The sum"),
    REDUCTION(prod, "dtype=None, " LADDER, "The product"),
    REDUCTION(min, LADDER, "The smallest element"),
    REDUCTION(max, LADDER, "The largest element"),
    REDUCTION(mean, "dtype=None, ", "The mean"),
    REDUCTION(var, "dtype=None, ddof=0, ", "The variance"),
    REDUCTION(std, "dtype=None, ddof=0, ", "The standard deviation"),
    REDUCTION(any, "", "Whether an element is not 0"),
    REDUCTION(all, "", "Whether no element is 0"),
    REDUCTION(argmin, "", "The index of the smallest element"),
    REDUCTION(argmax, "", "The index of the largest element"),
    REDUCTION(count_nonzero, "", "The number of elements that are not 0"),
    {"__array_ufunc__", (PyCFunction)(void (*)(void))array_ufunc, KEYWORDS,
     DOC("__array_ufunc__($self, ufunc, method, /, *inputs, **keywords)",
         "Implements operators with NumPy scalars; refuses NumPy arrays and other ufuncs.")},
    {"__array_function__", array_function, METH_VARARGS,
     DOC("__array_function__($self, function, types, args, kwargs, /)",
         "Calls smemkit's function in place of NumPy's, or raises TypeError.")},
    {"__array_namespace__", (PyCFunction)(void (*)(void))array_namespace, KEYWORDS,
     DOC("__array_namespace__($self, /, *, api_version=None)",
         "The module with the functions of the array API standard that smemkit has.")},
    {"__array__", (PyCFunction)(void (*)(void))array_array, KEYWORDS,
     DOC("__array__($self, /, dtype=None, copy=None)",
         "For numpy.asarray: a view of CPU device memory, a copy of GPU memory.")},
    {"__dlpack__", (PyCFunction)(void (*)(void))array_dlpack, KEYWORDS,
     DOC("__dlpack__($self, /, *, stream=None, max_version=None, dl_device=None, copy=None)",
         "A DLPack capsule, as in the array API standard.")},
    {"__dlpack_device__", array_dlpack_device, METH_NOARGS,
     DOC("__dlpack_device__($self, /)", "DLPack's type and number of the device.")},
    {"__complex__", array_complex, METH_NOARGS, DOC("__complex__($self, /)", "complex(self), of one element.")},
    {"__round__", array_round, METH_VARARGS,
     DOC("__round__($self, ndigits=None, /)", "round(self), of one element.")},
    {"__format__", array_format, METH_O,
     DOC("__format__($self, specification, /)", "format(self, specification), of one element.")},
    {"__copy__", array_copy, METH_NOARGS, DOC("__copy__($self, /)", "For copy.copy: copy().")},
    {"__deepcopy__", array_deepcopy, METH_O, DOC("__deepcopy__($self, memo, /)", "For copy.deepcopy: copy().")},
    {"__reduce__", array_reduce, METH_NOARGS,
     DOC("__reduce__($self, /)", "For pickle: the elements and the name of the device.")},
    {NULL, NULL, 0, NULL},
};

static PyGetSetDef attributes[] = {
    {"shape", get_shape, NULL, "Elements along each dimension.", NULL},
    {"dtype", get_dtype, NULL, "The NumPy dtype of the elements, in native byte order.", NULL},
    {"strides", get_strides, NULL, "Bytes from one element to the next along each dimension.", NULL},
    {"size", get_size, NULL, "Elements in all.", NULL},
    {"itemsize", get_itemsize, NULL, "Bytes of an element.", NULL},
    {"nbytes", get_nbytes, NULL, "Bytes of all elements.", NULL},
    {"ndim", get_ndim, NULL, "Dimensions.", NULL},
    {"device", get_device, NULL, "The device's name: 'cuda:0', 'cpu'.", NULL},
    {"address", get_address, NULL, "The address of element 0, …, 0 on the device; may be 0 for an empty array.",
     NULL},
    {"_base", get_base, NULL, "The Array that it is a view of; the array itself if it is not a view.", NULL},
    {"_owning_stream", get_owning_stream, NULL, "The handle of the stream in whose order its memory is used.",
     NULL},
    {"readonly", get_readonly, NULL, "Whether the elements may not be changed.", NULL},
    {"is_contiguous", get_is_contiguous, NULL, "Whether the elements are contiguous in C order.", NULL},
    {"T", array_transposed, NULL, "A view with the dimensions in reverse.", NULL},
    {"mT", array_matrix_transposed, NULL, "A view with the last two dimensions exchanged.", NULL},
    {"__cuda_array_interface__", array_interface, NULL,
     "The CUDA Array Interface, by which CuPy, torch and Numba share the memory.", NULL},
    {NULL, NULL, NULL, NULL, NULL},
};

static PyMemberDef members[] = {
    {"__weaklistoffset__", T_PYSSIZET, offsetof(struct array, weakrefs), READONLY, NULL},
    {NULL, 0, 0, 0, NULL},
};

PyDoc_STRVAR(
    documentation,
    "An array in device memory, made by `asarray`, `empty`, `zeros` and the operations.\n"
    "\n"
    "It has NumPy's attributes and basic indexing: integers, slices, ``...`` and None, and tuples of them, give\n"
    "views of the same memory (integers alone give a 0-dimensional array, not a number), and\n"
    "``x[...] = value`` assigns. Arrays, lists and bools as indices are not supported.\n"
    "\n"
    "``+ - * /`` and comparisons take Arrays on the same device, with NumPy's broadcasting and dtypes, or a\n"
    "number; Python numbers have no dtype of their own, as in NumPy 2. Nothing warns of overflow, NaN or a "
    "division\n"
    "by zero. ``@`` is `smemkit.matmul`. With a NumPy array\n"
    "all of them raise TypeError. NumPy's functions give an Array where smemkit has the same function, such as\n"
    "``numpy.sum``; the others raise TypeError, but `numpy.asarray` converts.\n"
    "\n"
    "On the CPU device the memory is host memory: `numpy.asarray` and `memoryview` share it. From a GPU,\n"
    "`numpy.asarray` copies. Like NumPy arrays it has no hash.\n"
    "\n"
    "Examples\n"
    "--------\n"
    ">>> import numpy as np, smemkit\n"
    ">>> x = smemkit.asarray(np.arange(6, dtype=np.float32).reshape(2, 3), device=\"cpu\")\n"
    ">>> x[:, ::2] + 1\n"
    "Array([[1., 3.],\n"
    "       [4., 6.]], dtype=float32, device='cpu')\n"
    ">>> x[1] = 7\n"
    ">>> (x @ x.T).numpy()\n"
    "array([[  5.,  21.],\n"
    "       [ 21., 147.]], dtype=float32)\n");

static PyType_Slot slots[] = {
    {Py_tp_doc, (void *)documentation},
    {Py_tp_dealloc, array_dealloc},
    {Py_tp_repr, array_repr},
    {Py_tp_str, array_str},
    {Py_tp_iter, array_iterator},
    {Py_tp_methods, methods},
    {Py_tp_getset, attributes},
    {Py_tp_members, members},
    {Py_bf_getbuffer, array_buffer},
    {Py_sq_length, array_length},
    {Py_sq_item, array_item_at},
    {Py_sq_contains, array_contains},
    {Py_tp_richcompare, array_compare},
    {Py_tp_hash, PyObject_HashNotImplemented},
    {Py_mp_length, array_length},
    {Py_mp_subscript, array_select},
    {Py_mp_ass_subscript, array_assign},
    {Py_nb_float, array_float},
    {Py_nb_int, array_int},
    {Py_nb_index, array_index},
    {Py_nb_bool, array_bool},
    {Py_nb_add, array_add},
    {Py_nb_inplace_add, array_add_to},
    {Py_nb_subtract, array_subtract},
    {Py_nb_inplace_subtract, array_subtract_to},
    {Py_nb_multiply, array_multiply},
    {Py_nb_inplace_multiply, array_multiply_to},
    {Py_nb_true_divide, array_divide},
    {Py_nb_inplace_true_divide, array_divide_to},
    {Py_nb_negative, array_negative},
    {Py_nb_matrix_multiply, array_matmul},
    {Py_nb_inplace_matrix_multiply, array_matmul_to},
    {0, NULL},
};

PyType_Spec array_spec = {
    .name = "smemkit.Array",
    .basicsize = sizeof(struct array),
    .itemsize = sizeof(npy_intp),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_IMMUTABLETYPE | Py_TPFLAGS_DISALLOW_INSTANTIATION,
    .slots = slots,
};
