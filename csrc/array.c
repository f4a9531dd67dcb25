/* smemkit.Array: an array in a device's memory. */
#include "smemkit.h"

#include <string.h>

/* ---- life ---- */

static void refuse_shape(int ndim, const npy_intp *shape)
{
    PyObject *came = shape_tuple(ndim, shape);

    if (came)
        PyErr_Format(PyExc_ValueError, "shape: expected no negative length and fewer than 2**63 bytes, got %R",
                     came);
    Py_XDECREF(came);
}

/* An array without memory, C-contiguous. NULL with an exception. */
static struct array *array_alloc(const struct module_state *state, struct device *device, PyArray_Descr *descr,
                                 int ndim, const npy_intp *shape)
{
    struct array *array = (struct array *)state->array_type->tp_alloc(state->array_type, 2 * (Py_ssize_t)ndim);
    npy_intp step;

    if (!array)
        return NULL;
    array->device = device;
    Py_INCREF(descr);
    array->descr = descr;
    array->ndim = ndim;
    array->size = 1;
    array->bytes = (size_t)PyDataType_ELSIZE(descr);
    for (int i = 0; i < ndim; i++) { /* what a length of 0 leaves out is counted too, so that there are strides */
        array_shape(array)[i] = shape[i];
        if (shape[i] < 0 || __builtin_mul_overflow(array->bytes, shape[i] ? (size_t)shape[i] : 1, &array->bytes) ||
            array->bytes > PY_SSIZE_T_MAX) {
            refuse_shape(ndim, shape);
            Py_DECREF(array);
            return NULL;
        }
        array->size *= shape[i]; /* no more than there are bytes */
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

struct array *array_new(const struct module_state *state, struct device *device, PyArray_Descr *descr, int ndim,
                        const npy_intp *shape)
{
    struct failure failure = {0};
    struct array *array = array_alloc(state, device, descr, ndim, shape);
    bool ok = true;

    if (!array)
        return NULL;
    Py_BEGIN_ALLOW_THREADS
    ok = device_allocate(device, array->bytes, NULL, &array->memory, &failure);
    Py_END_ALLOW_THREADS
    if (!ok) {
        Py_DECREF(array);
        raise_failure(state, &failure);
        return NULL;
    }
    array->data = array->memory;
    return array;
}

/* The shortest way for what NumPy has as the device wants it; else `convert` does it. */
static void run_array_from(struct call *call, void *unused)
{
    const struct operand *x = &call->in[0];

    (void)unused;
    if (call_is_host(call) && call->result == x->dtype && !x->swapped &&
        layout_is_contiguous(&call->as[0], dtype_bytes(x->dtype))) {
        call->device->type->copy_in(call->device, call->out.data, x->data,
                                    ((struct array *)call->out.owner)->bytes, NULL, &call->failure);
    } else {
        call_run_convert(call, NULL);
    }
}

/* A new Array with the elements of `object` in `dtype`, or their own if it is 0. NULL with an exception. */
static PyObject *array_from(const struct module_state *state, struct device *device, PyObject *object,
                            enum dtype dtype)
{
    struct call call = {.device = device, .inputs = 1, .as_it_lies = true};
    PyArray_Descr *descr;
    bool ok;

    if (!read_operand(state, object, "obj", &call.in[0]))
        return call_refused(&call);
    call.as[0] = call.in[0].layout;
    call.result = dtype ? dtype : call.in[0].dtype;
    descr = warn_complex(call.in[0].dtype, call.result) ? dtype_descr(call.result) : NULL;
    ok = descr && read_out(state, Py_None, device, false, descr, call.as[0].ndim, call.as[0].shape, &call.out);
    Py_XDECREF(descr);
    return ok ? call_run(state, &call, run_array_from, NULL, true) : call_refused(&call);
}

static void array_dealloc(PyObject *self)
{
    struct array *array = (struct array *)self;
    PyTypeObject *type = Py_TYPE(self);

    if (array->memory) {
        Py_BEGIN_ALLOW_THREADS
        device_release(array->device, array->memory, NULL);
        Py_END_ALLOW_THREADS
    }
    Py_XDECREF(array->home_owner);
    Py_XDECREF(array->base);
    Py_XDECREF(array->descr);
    type->tp_free(self);
    Py_DECREF(type);
}

/* ---- to NumPy ---- */

static PyObject *array_numpy(PyObject *self, PyObject *unused)
{
    struct array *array = (struct array *)self;
    struct device *device = array->device;
    struct module_state *state = PyType_GetModuleState(Py_TYPE(self));
    struct failure failure = {0};
    PyObject *result;
    void *to;
    bool ok = true;

    (void)unused;
    Py_INCREF(array->descr);
    result =
        PyArray_NewFromDescr(&PyArray_Type, array->descr, array->ndim, array_shape(array), NULL, NULL, 0, NULL);
    if (!result)
        return NULL;
    to = PyArray_DATA((PyArrayObject *)result);
    if (array->bytes) {
        Py_BEGIN_ALLOW_THREADS
        ok = device->type->copy_out(device, to, array->data, array->bytes, NULL, &failure);
        Py_END_ALLOW_THREADS
    }
    if (!ok) {
        Py_DECREF(result);
        return raise_failure(state, &failure);
    }
    return result;
}

static PyObject *array_array(PyObject *self, PyObject *args, PyObject *kwargs)
{
    static char *names[] = {"dtype", "copy", NULL};
    PyObject *dtype = Py_None, *copy = Py_None, *result, *cast;

    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "|OO:__array__", names, &dtype, &copy))
        return NULL;
    if (copy == Py_False) {
        PyErr_SetString(PyExc_ValueError,
                        "copy: False is impossible, a device's memory must be copied to the host");
        return NULL;
    }
    result = array_numpy(self, NULL);
    if (!result || dtype == Py_None)
        return result;
    cast = PyObject_CallMethod(result, "astype", "O", dtype);
    Py_DECREF(result);
    return cast;
}

static PyObject *array_item(PyObject *self, PyObject *unused)
{
    struct array *array = (struct array *)self;
    PyObject *host, *item;

    (void)unused;
    if (array->size != 1) {
        PyErr_Format(PyExc_ValueError, "item: expected an array of one element, got %zd", (Py_ssize_t)array->size);
        return NULL;
    }
    host = array_numpy(self, NULL);
    item = host ? PyObject_CallMethod(host, "item", NULL) : NULL;
    Py_XDECREF(host);
    return item;
}

static PyObject *convert(PyObject *self, PyObject *(*number)(PyObject *))
{
    PyObject *item = array_item(self, NULL), *result = item ? number(item) : NULL;

    Py_XDECREF(item);
    return result;
}

static PyObject *array_float(PyObject *self)
{
    return convert(self, PyNumber_Float);
}

static PyObject *array_int(PyObject *self)
{
    return convert(self, PyNumber_Long);
}

/* As in NumPy, the truth of many elements is nobody's guess. */
static int array_bool(PyObject *self)
{
    PyObject *item = array_item(self, NULL);
    int truth = item ? PyObject_IsTrue(item) : -1;

    Py_XDECREF(item);
    return truth;
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
    result = host ? array_from(state, device, host, 0) : NULL;
    Py_XDECREF(host);
    return result;
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

static PyObject *get_address(PyObject *self, void *unused)
{
    (void)unused;
    return PyLong_FromVoidPtr(((struct array *)self)->data);
}

/* The CUDA Array Interface, version 3. Work on the array is on the legacy default stream, which is stream 1. */
static PyObject *get_interface(PyObject *self, void *unused)
{
    struct array *array = (struct array *)self;
    PyObject *type, *shape, *result;

    (void)unused;
    if (array->device->ordinal < 0)
        return PyErr_Format(PyExc_AttributeError,
                            "__cuda_array_interface__: this array is on the CPU device; .to('cuda:0') moves it");
    if (dtype_of(array->descr) == BFLOAT16)
        return PyErr_Format(PyExc_AttributeError,
                            "__cuda_array_interface__: it has no name for bfloat16; asarray(…, dtype='float32') "
                            "converts");
    type = PyObject_GetAttrString((PyObject *)array->descr, "str");
    shape = get_shape(self, NULL);
    if (!type || !shape) {
        Py_XDECREF(type);
        Py_XDECREF(shape);
        return NULL;
    }
    result = Py_BuildValue("{s:N,s:N,s:(KO),s:O,s:i,s:i}", "shape", shape, "typestr", type, "data",
                           (unsigned long long)(uintptr_t)array->data, Py_False, "strides", Py_None, "version", 3,
                           "stream", 1);
    return result;
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

static PyObject *array_repr(PyObject *self)
{
    struct array *array = (struct array *)self;
    PyObject *shape = get_shape(self, NULL), *result;

    if (!shape)
        return NULL;
    result = PyUnicode_FromFormat("<smemkit.Array shape=%R dtype=%S device='%s'>", shape, array->descr,
                                  array->device->name);
    Py_DECREF(shape);
    return result;
}

static PyMethodDef methods[] = {
    {"numpy", array_numpy, METH_NOARGS, "numpy()\n--\n\nA NumPy array with the same elements."},
    {"item", array_item, METH_NOARGS, "item()\n--\n\nThe only element, as a Python number."},
    {"to", array_to, METH_O,
     "to(device, /)\n--\n\nThe same elements on `device`; itself if they are there already."},
    {"__array__", (PyCFunction)(void (*)(void))array_array, METH_VARARGS | METH_KEYWORDS,
     "__array__(dtype=None, copy=None)\n--\n\nA NumPy array with the same elements."},
    {NULL, NULL, 0, NULL},
};

static PyGetSetDef attributes[] = {
    {"shape", get_shape, NULL, "Elements along each dimension.", NULL},
    {"dtype", get_dtype, NULL, "The NumPy dtype of its elements.", NULL},
    {"strides", get_strides, NULL, "Bytes from one element to the next along each dimension.", NULL},
    {"size", get_size, NULL, "Elements in all.", NULL},
    {"nbytes", get_nbytes, NULL, "Bytes in all.", NULL},
    {"ndim", get_ndim, NULL, "Dimensions.", NULL},
    {"device", get_device, NULL, "The device's name: 'cuda:0', 'cpu'.", NULL},
    {"_address", get_address, NULL, "Where its device has it, for smemkit's own use.", NULL},
    {"__cuda_array_interface__", get_interface, NULL, "How CuPy, torch and Numba take it without a copy.", NULL},
    {NULL, NULL, NULL, NULL, NULL},
};

static PyType_Slot slots[] = {
    {Py_tp_doc, "An array in a device's memory, C-contiguous. Made by asarray, empty and zeros."},
    {Py_tp_dealloc, array_dealloc},
    {Py_tp_repr, array_repr},
    {Py_tp_methods, methods},
    {Py_tp_getset, attributes},
    {Py_sq_length, array_length},
    {Py_nb_float, array_float},
    {Py_nb_int, array_int},
    {Py_nb_bool, array_bool},
    {0, NULL},
};

PyType_Spec array_spec = {
    .name = "smemkit.Array",
    .basicsize = sizeof(struct array),
    .itemsize = sizeof(npy_intp),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_IMMUTABLETYPE | Py_TPFLAGS_DISALLOW_INSTANTIATION,
    .slots = slots,
};

/* ---- how arrays are made ---- */

PyObject *core_asarray(PyObject *module, PyObject *const *args, Py_ssize_t count)
{
    struct module_state *state = state_of(module);
    struct array *array;
    struct device *device;
    PyObject *result = NULL, *source;
    enum dtype dtype = 0;

    if (!read_count("asarray", count, 4) || !read_dtype(args[1], EVERY, &dtype))
        return NULL;
    if (args[3] != Py_None && !PyBool_Check(args[3]))
        return PyErr_Format(PyExc_TypeError, "copy: expected True, False or None, got %R", args[3]);
    array = Py_IS_TYPE(args[0], state->array_type) ? (struct array *)args[0] : NULL;
    device = args[2] != Py_None ? device_named(state, args[2]) : array ? array->device : default_device(state);
    if (!device)
        return NULL;
    if (array && array->device == device && (!dtype || dtype == dtype_of(array->descr)) && args[3] != Py_True)
        return Py_NewRef(args[0]);
    if (args[3] == Py_False) {
        PyErr_SetString(PyExc_ValueError,
                        "copy: False is impossible here, the elements must be moved or converted");
        return NULL;
    }
    source = array && array->device != device ? array_numpy(args[0], NULL) : Py_NewRef(args[0]);
    if (source)
        result = array_from(state, device, source, dtype);
    Py_XDECREF(source);
    return result;
}

static struct array *read_new(struct module_state *state, PyObject *const *args)
{
    PyArray_Descr *descr = NULL;
    PyArray_Dims shape = {NULL, 0};
    struct device *device;
    struct array *result = NULL;
    enum dtype dtype = FLOAT32;

    if (PyArray_IntpConverter(args[0], &shape) && read_dtype(args[1], EVERY, &dtype) &&
        (descr = dtype_descr(dtype))) {
        device = args[2] == Py_None ? default_device(state) : device_named(state, args[2]);
        if (device)
            result = array_new(state, device, descr, shape.len, shape.ptr);
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
    ok = array->device->type->fill(array->device, array->memory, 0, array->bytes, NULL, &failure);
    Py_END_ALLOW_THREADS
    if (!ok) {
        Py_DECREF(array);
        return raise_failure(state, &failure);
    }
    return (PyObject *)array;
}
