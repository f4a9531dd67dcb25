/* The functions of the module that are not operations. */
#ifndef SMEMKIT_MODULE_MODULE_H
#define SMEMKIT_MODULE_MODULE_H

#include "python/state.h"

#include "checker/banks.h"

/* The addresses and the mask of an access of known size: up to 32 integers or None, one per lane. */
bool read_addresses(PyObject *, struct warp_access *);

PyObject *core_allocations(PyObject *module, PyObject *unused);
PyObject *core_fail_allocation(PyObject *module, PyObject *countdown);
PyObject *core_fail_launch(PyObject *module, PyObject *args); /* countdown, signal=0 */
PyObject *core_memory_stats(PyObject *module, PyObject *name);
PyObject *core_empty_cache(PyObject *module, PyObject *name);
PyObject *core_pinned_copy_seconds(PyObject *module, PyObject *args);
PyObject *core_close(PyObject *module, PyObject *unused);

PyObject *core_wavefronts(PyObject *module, PyObject *const *args, Py_ssize_t count);
PyObject *core_checked(PyObject *module, PyObject *const *args, Py_ssize_t count);
PyObject *core_chain_launch(PyObject *module, PyObject *const *args, Py_ssize_t count);
PyObject *core_timed(PyObject *module, PyObject *const *args, Py_ssize_t count);
PyObject *core_dry_run(PyObject *module, PyObject *const *args, Py_ssize_t count);

struct recorded_device;

/* A function called with its arguments (fn, args, kwargs) in a dry run, as on a device with these attributes
 * (NULL: the real one). Returns the list of launches. */
PyObject *run_recorded(const struct recorded_device *, PyObject *const *call);

PyObject *core_thresholds(PyObject *module, PyObject *args);
PyObject *core_least_k_of_matmul(PyObject *module, PyObject *name);
PyObject *core_predicted_matmul_times(PyObject *module, PyObject *args);
PyObject *core_dry_run_as(PyObject *module, PyObject *args);
PyObject *core_set_tuned_thresholds(PyObject *module, PyObject *args);
PyObject *core_tuned_thresholds(PyObject *module, PyObject *name);

PyObject *core_load_checked(PyObject *module, PyObject *path);

extern PyType_Spec graph_spec;

PyObject *core_kernel_rows(PyObject *module, PyObject *unused);

/* {(op, old name): name} */
PyObject *core_renamed_kernels(PyObject *module, PyObject *unused);

PyObject *core_launches(PyObject *module, PyObject *unused);

PyObject *core_device_names(PyObject *module, PyObject *unused);

PyObject *core_cuda_unavailable(PyObject *module, PyObject *unused);

PyObject *core_device_properties(PyObject *module, PyObject *name);

PyObject *core_default_device(PyObject *module, PyObject *unused);

PyObject *core_synchronize(PyObject *module, PyObject *name);

PyObject *core_set_num_threads(PyObject *module, PyObject *number);

PyObject *core_get_num_threads(PyObject *module, PyObject *unused);

PyObject *core_build_info(PyObject *module, PyObject *unused);

#endif
