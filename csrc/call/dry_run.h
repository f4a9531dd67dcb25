/* Calls that launch nothing, and record their launches. */
#ifndef SMEMKIT_CALL_DRY_RUN_H
#define SMEMKIT_CALL_DRY_RUN_H

#include "python/state.h"

#include "choice.h"
#include "device/device.h"

bool is_dry_run(void); /* whether this thread is in one */

/* The dry-run device in a dry run, otherwise the device itself. */
struct device *dry_run_device(struct device *);
void dry_run_add_launch(const struct kernel_row *, const struct kernel_choice *, const void *args);
PyObject *core_dry_run(PyObject *module, PyObject *const *args, Py_ssize_t count);

#endif
