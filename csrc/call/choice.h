/* The kernel of a call, as the arguments `kernel`, `tile`, `block_size` and `pad` select it. */
#ifndef SMEMKIT_CALL_CHOICE_H
#define SMEMKIT_CALL_CHOICE_H

#include "python/state.h"

#include "device/device.h"
#include "kernels.h"

/* The row selected by `kernel`, `tile` or `block_size` (size), and `pad`, with their values. `automatic`: the
 * caller left the choice to smemkit (kernel=None). A rung that runs on the host moves a call with NumPy operands
 * to the CPU device. */
struct kernel_choice {
    const struct kernel_row *row;
    int size, pad;
    bool automatic;
};
bool read_kernel(enum op, PyObject *kernel, const char *size_name, PyObject *size, PyObject *pad,
                 PyObject *device_argument, bool host, struct device **, struct kernel_choice *);

/* The row of an op's kernel; NULL with an exception if it has none of this name. */
const struct kernel_row *kernel_named(enum op, PyObject *name);

/* Whether the kernel supports the dtype of the operand `name`; false with an exception otherwise. */
bool check_kernel_dtype(const struct kernel_choice *, const char *name, enum dtype);

/* Whether kernel=None may choose a kernel on this device, for an operand of one of these dtypes. */
bool kernel_may_be_chosen(const struct device *, enum kernel_index, unsigned dtypes);

/* The least precision in which float32 may be multiplied: that of float32, TF32 or bfloat16. */
enum precision { HIGHEST, HIGH, MEDIUM };

/* The argument `precision` of a call, which concerns operands of float32 only: None and NULL are HIGHEST for
 * kernel=None, and otherwise the kernel's own. */
bool read_precision(PyObject *, const struct kernel_choice *, enum dtype, enum precision *);

#endif
