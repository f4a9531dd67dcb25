/* An operand of a call: an Array, a NumPy array, or an array of another library. */
#ifndef SMEMKIT_ARRAY_OPERAND_H
#define SMEMKIT_ARRAY_OPERAND_H

#include "python/state.h"

#include "array.h"
#include "device/device.h"
#include "kernels.h"
#include "python/layout.h"
#include "stream.h"

/* An operand or `out`: an Array or a NumPy array. All zero: none. */
struct operand {
    PyObject *owner;             /* strong reference to that array */
    struct device *device;       /* NULL for a NumPy array */
    device_stream owning_stream; /* orders the use of its memory */
    char *data;                  /* element 0, …, 0, in device or host memory */
    PyArray_Descr *descr;        /* strong reference */
    enum dtype dtype;
    bool swapped;            /* not in native byte order */
    bool readonly;           /* not usable as `out` */
    bool retire;             /* keep the owner until the work is done: nothing else ensures it */
    PyObject *caller_object; /* strong reference to the caller's object if that is an array of another library; or
                                NULL */
    PyObject *pin; /* a weak reference to the caller's NumPy array, or NULL: NumPy does not resize an array that
                      has one */
    struct layout layout;
    npy_intp size;
};

/* The functions below return false with an exception that names the argument, what was expected and what was
 * passed. */
/* `stream` is the call's stream argument: arrays of other libraries must be ready on it. */
bool read_operand(const struct module_state *, PyObject *, const char *name, PyObject *stream, struct operand *);

/* Whether a NumPy array is unchanged since it was read; called when no more Python code of the caller will run. */
bool operand_unchanged(const struct operand *);
void drop_operand(struct operand *);

void fill_from_array(struct operand *operand, struct array *array);

/* Steals the reference. */
void fill_from_numpy(struct operand *operand, PyArrayObject *numpy);

void fill_dtype(struct operand *operand);

/* Prevents a resize: while the call runs without the GIL, another thread may resize the caller's array, which
 * moves its memory. With refcheck=False NumPy ignores references and buffers, but not weak references.
 */
bool operand_pin(struct operand *operand);

/* NULL without an exception if there is no such attribute. */
PyObject *optional_attribute(PyObject *object, const char *name);

/* 1, 0, or -1 with an exception; PyObject_HasAttrString takes every failed lookup for a missing attribute. */
int has_attribute(PyObject *object, const char *name);

/* Types that are known to have neither __dlpack__ nor __cuda_array_interface__, or for which NumPy's protocol is
 * better. */
bool is_read_by_numpy(PyObject *object);

#endif
