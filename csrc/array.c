/* smemkit.Array: an array in device memory. This file has creation, attributes and the type; view.c has indexing,
 * values.c conversion to host objects, operators.c +, @, == and !=. */
#include "smemkit.h"

#include <structmember.h>

#include <stddef.h>
#include <string.h>

/* ---- creation and destruction ---- */

static void refuse_shape(int ndim, const npy_intp *shape)
{
    PyObject *came = shape_tuple(ndim, shape);

    if (came)
        PyErr_Format(PyExc_ValueError, "shape: expected no negative length and fewer than 2**63 bytes, got %R",
                     came);
    Py_XDECREF(came);
}

/* An Array whose shape, strides and memory are not set. NULL with an exception. */
static struct array *array_blank(PyTypeObject *type, struct device *device, PyArray_Descr *descr, int ndim)
{
    struct array *array = (struct array *)type->tp_alloc(type, 2 * (Py_ssize_t)ndim);

    if (!array)
        return NULL;
    array->device = device;
    Py_INCREF(descr);
    array->descr = descr;
    array->dtype = dtype_of(descr);
    array->ndim = ndim;
    array->size = 1;
    return array;
}

/* An array without memory, C-contiguous. NULL with an exception. */
static struct array *array_alloc(const struct module_state *state, struct device *device, PyArray_Descr *descr,
                                 int ndim, const npy_intp *shape)
{
    struct array *array = array_blank(state->array_type, device, descr, ndim);
    npy_intp step;

    if (!array)
        return NULL;
    array->bytes = (size_t)PyDataType_ELSIZE(descr);
    for (int i = 0; i < ndim; i++) { /* a length of 0 counts as 1, so that strides are defined */
        array_shape(array)[i] = shape[i];
        if (shape[i] < 0 || __builtin_mul_overflow(array->bytes, shape[i] ? (size_t)shape[i] : 1, &array->bytes) ||
            array->bytes > PY_SSIZE_T_MAX) {
            refuse_shape(ndim, shape);
            Py_DECREF(array);
            return NULL;
        }
        array->size *= shape[i]; /* cannot overflow: not larger than the bytes */
    }
    step = PyDataType_ELSIZE(descr);
    for (int i = ndim - 1; i >= 0; i--) {
        array_strides(array)[i] = step;
        step *= shape[i] ? shape[i] : 1;
    }
    if (array->size == 0)
        array->bytes = 0;
    return array;
}

/* An array whose memory is not allocated yet. */
static struct array *array_to_be(const struct module_state *state, struct device *device, device_stream stream,
                                 PyArray_Descr *descr, int ndim, const npy_intp *shape)
{
    return refuse_capture(state, device, stream, "no new array can be made; an operation takes out=")
               ? array_alloc(state, device, descr, ndim, shape)
               : NULL;
}

struct array *array_new(const struct module_state *state, struct device *device, device_stream stream,
                        PyObject *owner, PyArray_Descr *descr, int ndim, const npy_intp *shape)
{
    struct failure failure = {0};
    struct array *array;
    bool ok = true;

    array = array_to_be(state, device, stream, descr, ndim, shape);
    if (!array)
        return NULL;
    array->owning_stream = owner ? stream : NULL;
    array->owning_stream_object = Py_XNewRef(owner);
    Py_BEGIN_ALLOW_THREADS
    ok = device_allocate(device, array->bytes, array->owning_stream, &array->memory, &failure);
    Py_END_ALLOW_THREADS
    if (!ok) {
        Py_DECREF(array);
        raise_failure(state, &failure);
        return NULL;
    }
    array->data = array->memory;
    return array;
}

struct array *array_new_in_result_slot(const struct module_state *state, struct device *device,
                                       PyArray_Descr *descr, int ndim, const npy_intp *shape)
{
    struct failure failure = {0};
    struct array *array;
    bool ok;

    array = array_to_be(state, device, NULL, descr, ndim, shape);
    if (!array)
        return NULL;
    Py_BEGIN_ALLOW_THREADS
    ok = device_allocate_result_slot(device, &array->memory, &failure);
    Py_END_ALLOW_THREADS
    if (ok) {
        array->result = RESULT_PENDING;
        array->data = array->memory;
        return array;
    }
    Py_DECREF(array);
    return failure.kind == FAILURE_NONE ? array_new(state, device, NULL, NULL, descr, ndim, shape)
                                        : (struct array *)raise_failure(state, &failure);
}

struct array *array_view(struct array *of, npy_intp offset, const struct layout *layout)
{
    struct array *array = array_blank(Py_TYPE(of), of->device, of->descr, layout->ndim);

    if (!array)
        return NULL;
    memcpy(array_shape(array), layout->shape, (size_t)layout->ndim * sizeof(npy_intp));
    memcpy(array_strides(array), layout->strides, (size_t)layout->ndim * sizeof(npy_intp));
    array->size = layout_size(layout);
    array->bytes = (size_t)array->size * (size_t)PyDataType_ELSIZE(of->descr);
    array->data = array->size ? of->data + offset : of->data;
    array->base = Py_NewRef(of->base && array_check(of->base) ? of->base : (PyObject *)of);
    array->owning_stream = of->owning_stream;
    array->owning_stream_object = Py_XNewRef(of->owning_stream_object);
    array->readonly = of->readonly;
    array_require_sync((struct array *)array->base);
    array->result = ((struct array *)array->base)->result;
    return array;
}

bool array_is_contiguous(struct array *array)
{
    npy_intp step = PyDataType_ELSIZE(array->descr);

    for (int d = array->ndim - 1; d >= 0 && array->size; d--) {
        if (array_shape(array)[d] != 1 && array_strides(array)[d] != step)
            return false;
        step *= array_shape(array)[d];
    }
    return true;
}

struct layout array_layout(struct array *array)
{
    struct layout layout = {.ndim = array->ndim};

    memcpy(layout.shape, array_shape(array), (size_t)array->ndim * sizeof(npy_intp));
    memcpy(layout.strides, array_strides(array), (size_t)array->ndim * sizeof(npy_intp));
    return layout;
}

static void array_dealloc(PyObject *self)
{
    struct array *array = (struct array *)self;
    PyTypeObject *type = Py_TYPE(self);

    if (array->weakrefs)
        PyObject_ClearWeakRefs(self);
    if (array->memory) {
        Py_BEGIN_ALLOW_THREADS
        if (array->result != NO_RESULT_SLOT)
            device_release_result_slot(array->device, array->memory, array->result == RESULT_READY);
        else
            device_release(array->device, array->memory, array->owning_stream);
        Py_END_ALLOW_THREADS
    }
    if (array->base && array->device->ordinal >= 0 && PyCapsule_CheckExact(array->base)) {
        foreign_keep_alive(array->device, array->owning_stream, &array->base, 1);
        array->base = NULL;
    }
    Py_XDECREF(array->owning_stream_object);
    Py_XDECREF(array->base);
    Py_XDECREF(array->descr);
    type->tp_free(self);
    Py_DECREF(type);
}

bool array_check(PyObject *object)
{
    return Py_TYPE(object)->tp_dealloc == array_dealloc; /* the type has no subtypes */
}

/* ---- attributes ---- */

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

static PyObject *get_home(PyObject *self, void *unused)
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

/* ---- functions that make arrays ---- */

PyObject *array_from(const struct module_state *state, struct device *device, PyObject *object, enum dtype dtype,
                     int type_num)
{
    struct call call = {.device = device, .inputs = 1};
    PyObject *stream_owner = NULL, *out = NULL, *result = NULL;
    PyArray_Descr *descr = NULL;

    if (!read_stream_and_owner(state, Py_None, device, &call.stream, &stream_owner) ||
        !read_operand(state, object, "obj", Py_None, &call.in[0]))
        goto done;
    call.as[0] = call.in[0].layout;
    call.result = dtype ? dtype : call.in[0].dtype;
    call.type_num = dtype ? type_num : call.in[0].descr->type_num;
    descr = warn_complex(call.in[0].dtype, call.result) ? dtype_descr_as(call.result, call.type_num) : NULL;
    out = descr ? (PyObject *)array_new(state, device, call.stream, stream_owner, descr, call.as[0].ndim,
                                        call.as[0].shape)
                : NULL;
    if (out && read_out(state, out, device, false, descr, call.as[0].ndim, call.as[0].shape, Py_None, &call.out))
        result = call_run_copy(state, &call, false);

done:
    if (!result)
        call_fail(&call);
    Py_XDECREF(out);
    Py_XDECREF(descr);
    Py_XDECREF(stream_owner);
    return result;
}

static PyObject *array_copy(PyObject *self, PyObject *unused)
{
    (void)unused;
    return array_from(PyType_GetModuleState(Py_TYPE(self)), ((struct array *)self)->device, self, 0, 0);
}

static PyObject *array_deepcopy(PyObject *self, PyObject *memo)
{
    (void)memo;
    return array_copy(self, NULL);
}

static PyObject *array_astype(PyObject *self, PyObject *args, PyObject *kwargs)
{
    static char *names[] = {"dtype", "copy", NULL};
    struct array *array = (struct array *)self;
    PyObject *wanted = NULL;
    enum dtype dtype = 0;
    int copy = true, type_num = 0;

    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O|$p:astype", names, &wanted, &copy) ||
        !read_dtype(wanted, EVERY, &dtype, &type_num))
        return NULL;
    if (!copy && (!dtype || (dtype == array->dtype && type_num == array->descr->type_num)))
        return Py_NewRef(self);
    return array_from(PyType_GetModuleState(Py_TYPE(self)), array->device, self, dtype, type_num);
}

static PyObject *array_to(PyObject *self, PyObject *name)
{
    struct module_state *state = PyType_GetModuleState(Py_TYPE(self));
    struct array *array = (struct array *)self;
    struct device *device = device_named(state, name);
    PyObject *host, *result;

    if (!device)
        return NULL;
    if (device == array->device)
        return Py_NewRef(self);
    host = array_numpy(self, NULL);
    result = host ? array_from(state, device, host, 0, 0) : NULL;
    Py_XDECREF(host);
    return result;
}

/* Returns an Array itself, or an Array that shares another library's GPU memory: a new reference. NULL for
 * anything else, with or without an exception. */
static struct array *read_array(const struct module_state *state, PyObject *object, PyObject *copy)
{
    if (array_check(object))
        return (struct array *)Py_NewRef(object);
    return PyArray_Check(object) ? NULL : (struct array *)array_from_foreign(state, object, "obj", copy);
}

/* Converts `object` to an Array on the requested device and dtype; `array` is its device array, or NULL. */
static PyObject *as_wanted(struct module_state *state, PyObject *object, struct array *array,
                           struct device *device, enum dtype dtype, int type_num, PyObject *copy)
{
    PyObject *source, *result;

    const bool is_its_type = array && (!dtype || (dtype == array->dtype && type_num == array->descr->type_num));

    if (is_its_type && array->device == device && copy != Py_True)
        return Py_NewRef((PyObject *)array);
    if (copy == Py_False) {
        PyErr_SetString(PyExc_ValueError,
                        "copy: False is impossible here, the elements must be moved or converted");
        return NULL;
    }
    if (array && array->device != device)
        source = array_numpy((PyObject *)array, NULL);
    else
        source = Py_NewRef(array ? (PyObject *)array : object);
    result = source ? array_from(state, device, source, dtype, type_num) : NULL;
    Py_XDECREF(source);
    return result;
}

PyObject *core_asarray(PyObject *module, PyObject *const *args, Py_ssize_t count)
{
    struct module_state *state = state_of(module);
    struct array *array = NULL;
    struct device *device = NULL;
    PyObject *result = NULL;
    enum dtype dtype = 0;
    int type_num = 0;

    if (!read_count("asarray", count, 4) || !read_dtype(args[1], EVERY, &dtype, &type_num))
        return NULL;
    if (args[3] != Py_None && !PyBool_Check(args[3]))
        return PyErr_Format(PyExc_TypeError, "copy: expected True, False or None, got %R", args[3]);
    if (args[2] != Py_None && !(device = device_named(state, args[2])))
        return NULL;
    array = read_array(state, args[0], args[3]);
    if (!array && PyErr_Occurred())
        return NULL;
    if (!device)
        device = array ? array->device : default_device(state);
    if (device)
        result = as_wanted(state, args[0], array, device, dtype, type_num, args[3]);
    Py_XDECREF(array);
    return result;
}

/* A new array on the thread's current stream. */
static struct array *new_here(struct module_state *state, struct device *device, PyArray_Descr *descr,
                              const PyArray_Dims *shape)
{
    device_stream stream;
    PyObject *owner = NULL;
    struct array *result = NULL;

    if (read_stream_and_owner(state, Py_None, device, &stream, &owner))
        result = array_new(state, device, stream, owner, descr, shape->len, shape->ptr);
    Py_XDECREF(owner);
    return result;
}

static struct array *read_new(struct module_state *state, PyObject *const *args)
{
    PyArray_Descr *descr = NULL;
    PyArray_Dims shape = {NULL, 0};
    struct device *device;
    struct array *result = NULL;
    enum dtype dtype = FLOAT32;
    int type_num = 0;

    if (PyArray_IntpConverter(args[0], &shape) && read_dtype(args[1], EVERY, &dtype, &type_num) &&
        (descr = dtype_descr_as(dtype, type_num))) {
        device = args[2] == Py_None ? default_device(state) : device_named(state, args[2]);
        if (device)
            result = new_here(state, device, descr, &shape);
    }
    PyDimMem_FREE(shape.ptr);
    Py_XDECREF(descr);
    return result;
}

PyObject *core_empty(PyObject *module, PyObject *const *args, Py_ssize_t count)
{
    return read_count("empty", count, 3) ? (PyObject *)read_new(state_of(module), args) : NULL;
}

PyObject *core_zeros(PyObject *module, PyObject *const *args, Py_ssize_t count)
{
    struct module_state *state = state_of(module);
    struct failure failure = {0};
    struct array *array;
    bool ok = true;

    if (!read_count("zeros", count, 3) || !(array = read_new(state, args)))
        return NULL;
    Py_BEGIN_ALLOW_THREADS
    ok = array->device->type->fill(array->device, array->memory, 0, array->bytes, array->owning_stream, &failure);
    Py_END_ALLOW_THREADS
    if (!ok) {
        Py_DECREF(array);
        return raise_failure(state, &failure);
    }
    return (PyObject *)array;
}

/* ---- the type ---- */

#define DOC(signature, text) signature "\n--\n\n" text
#define KEYWORDS             METH_VARARGS | METH_KEYWORDS
static PyMethodDef methods[] = {
    {"numpy", array_numpy, METH_NOARGS, DOC("numpy($self, /)", "A NumPy array with a copy of the elements.")},
    {"item", (PyCFunction)(void (*)(void))array_item, METH_FASTCALL,
     "item($self, /, *index)\n--\n\nThe only element, or the element at an index, as a Python number.\n\n"
     "The index is one integer, into the elements in C order, or one integer per dimension."},
    {"to", array_to, METH_O,
     DOC("to($self, device, /)", "The elements on `device`: itself if they are there already, else a copy.")},
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
    {"__array_ufunc__", (PyCFunction)(void (*)(void))array_ufunc, KEYWORDS,
     DOC("__array_ufunc__($self, ufunc, method, /, *inputs, **keywords)",
         "Implements operators with NumPy scalars; refuses NumPy arrays and other ufuncs.")},
    {"__array__", (PyCFunction)(void (*)(void))array_array, KEYWORDS,
     DOC("__array__($self, /, dtype=None, copy=None)",
         "For numpy.asarray: a view of CPU device memory, a copy of GPU memory.")},
    {"__dlpack__", (PyCFunction)(void (*)(void))array_dlpack, KEYWORDS,
     DOC("__dlpack__($self, /, *, stream=None, max_version=None, dl_device=None, copy=None)",
         "A DLPack capsule, as in the array API standard.")},
    {"__dlpack_device__", array_dlpack_device, METH_NOARGS,
     DOC("__dlpack_device__($self, /)", "DLPack's type and number of the device.")},
    {"__complex__", array_complex, METH_NOARGS, DOC("__complex__($self, /)", "complex(self), of one element.")},
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
    {"address", get_address, NULL, "Where the device has element 0, …, 0; 0 where there may be none.", NULL},
    {"_base", get_base, NULL, "The Array that it is a view of; itself, if it is none.", NULL},
    {"_home", get_home, NULL, "The handle of the stream in whose order its memory is used.", NULL},
    {"readonly", get_readonly, NULL, "Whether the elements may not be changed.", NULL},
    {"is_contiguous", get_is_contiguous, NULL, "Whether the elements lie side by side in C order.", NULL},
    {"T", array_transposed, NULL, "A view with the dimensions in reverse.", NULL},
    {"mT", array_matrix_transposed, NULL, "A view with the last two dimensions exchanged.", NULL},
    {"__cuda_array_interface__", array_interface, NULL, "How CuPy, torch and Numba take it without a copy.", NULL},
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
    "``+``, ``==`` and ``!=`` take Arrays on the same device, with NumPy's broadcasting and dtypes, or a number;\n"
    "Python numbers have no dtype of their own, as in NumPy 2. ``@`` is `smemkit.matmul`. With a NumPy array\n"
    "all of them raise TypeError, as do NumPy's ufuncs but for those that are operators here; its other "
    "functions\n"
    "make a NumPy array of it first, as `numpy.asarray` does.\n"
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
