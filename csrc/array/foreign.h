/* Arrays imported from other libraries, by DLPack or the CUDA Array Interface. */
#ifndef SMEMKIT_ARRAY_FOREIGN_H
#define SMEMKIT_ARRAY_FOREIGN_H

#include "python/state.h"

#include "device/device.h"
#include "operand.h"
#include "stream.h"
#include "vendor/dlpack/dlpack.h"

enum { TRY_DLPACK = 2 }; /* a result of find_foreign: try __dlpack__ */

enum use {
    AS_OPERAND,  /* of one call, on its stream; a NumPy array if on the host */
    AS_ARRAY,    /* an Array on the default stream; of the CPU device if on the host */
    AS_GPU_ARRAY /* the same, but not for host arrays */
};

/* The name of the capsules that own the memory of imported arrays. */
#define FOREIGN_OWNER "smemkit.foreign"

/* The content of such a capsule: what a DLPack capsule held, whose deleter we must call, or the object that owns
 * the memory. */
struct foreign {
    PyObject *object; /* strong reference, or NULL */
    void *managed;    /* a DLManagedTensor, or a DLManagedTensorVersioned, or NULL */
    bool versioned;
    struct device *sync_device; /* synchronised before the deleter is called; or NULL */
    void *registration;         /* with the CPU device; or NULL */
};

/* Reads an array of another library, by DLPack or the CUDA Array Interface, as the operand of a call on `stream`;
 * a host array becomes a NumPy array. 1: done. 0: it is not such an array. -1 with an exception. */
int read_foreign(const struct module_state *, PyObject *, const char *name, PyObject *stream, struct operand *);

struct foreign *foreign_of(PyObject *owner);

/* An empty owner capsule. NULL with an exception. */
PyObject *new_owner(void);

/* Fills the operand from the owner, whose reference it steals. 1, or -1 with an exception. */
int fill_operand(PyObject *object, const char *name, PyObject *owner, struct device *device, enum use use,
                 struct operand *operand);

/* Reads an array of another library for the given use. 1: done. 0: it is not such an array. -1 with an exception.
 */
int find_foreign(const struct module_state *state, PyObject *object, const char *name, PyObject *stream_argument,
                 enum use use, struct operand *operand);

bool refuse_foreign(const char *name, const char *what);

/* Checks for negative lengths, overflowing sizes and invalid addresses. */
bool check_layout(const char *name, struct operand *operand, bool strided);

bool dl_is_cuda(int type);

bool dl_is_host(int type);

/* The owner's tensor; NULL with an exception if its DLPack version is not supported. */
const DLTensor *dl_tensor_of(const struct foreign *foreign, const char *name);

/* Reads the tensor, which must be on `device`; NULL is the host. */
bool read_tensor(PyObject *owner, const struct device *device, const char *name, struct operand *operand);

/* Wraps the operand's host memory as a NumPy array. */
bool wrap_host(struct operand *operand);

/* Whether the object also has another protocol, which `method` identifies; if so, clears the current exception. */
bool has_other_protocol(PyObject *object, const char *method);

/* Whether the object's type has both of DLPack's methods: 1, 0, or -1 with an exception. */
int implements_dlpack(PyObject *object);

/* find_foreign for an object with DLPack on a known device; NULL is the host. */
int read_dlpack(PyObject *object, const char *name, struct device *device, device_stream stream, enum use use,
                struct operand *operand);

/* The CUDA device with this ordinal. NULL with an exception. */
struct device *cuda_device_by_ordinal(const struct module_state *state, const char *name, int ordinal);

void refuse_device(const char *name, int type, int id);

/* 1: it has DLPack, and *type and *id are its device; 0: it does not have DLPack; -1 with an exception */
int read_dl_device(PyObject *object, const char *name, int *type, int *id);

/* find_foreign for an object whose type has the exchange API. If that refuses, __dlpack__ is tried, which reports
 * the reason. */
int find_by_exchange_api(const struct module_state *state, PyObject *object, const char *name, enum use use,
                         struct operand *operand);

/* Reads a copy of the dict, because its values may run code that changes the original. */
bool read_interface(const struct module_state *state, PyObject *interface, const char *name,
                    PyObject *stream_argument, enum use use, struct operand *operand);

#endif
