/* The kernel of a call, as the arguments `kernel`, `tile`, `block_size` and `pad` select it. */
#ifndef SMEMKIT_CALL_CHOICE_H
#define SMEMKIT_CALL_CHOICE_H

#include "python/state.h"

#include "device/device.h"
#include "kernels.h"

/* The row selected by `kernel`, `tile` or `block_size` (size), and `pad`, with their values. `chosen`: the caller
 * left the choice to smemkit. A rung that runs on the host moves a call with NumPy operands to the CPU device. */
struct kernel_choice {
    const struct kernel_row *row;
    int size, pad;
    bool chosen;
};
bool read_kernel(enum op, PyObject *kernel, const char *size_name, PyObject *size, PyObject *pad,
                 PyObject *device_argument, bool host, struct device **, struct kernel_choice *);

/* Whether the kernel supports the dtype. */
bool check_kernel_dtype(const struct kernel_choice *, const char *name, enum dtype);
const struct kernel_row *find_row(enum op, const char *name);

bool read_precision(PyObject *, const struct kernel_choice *);

#endif
