/* The structures of DLPack 1.1, by which libraries exchange arrays, and the C exchange API of DLPack 1.3. */
#ifndef SMEMKIT_DLPACK_ABI_H
#define SMEMKIT_DLPACK_ABI_H

#include <stdint.h>

enum { DL_CPU = 1, DL_CUDA = 2, DL_CUDA_HOST = 3, DL_CUDA_MANAGED = 13 };                   /* dl_device.type */
enum { DL_INT = 0, DL_UINT = 1, DL_FLOAT = 2, DL_BFLOAT = 4, DL_COMPLEX = 5, DL_BOOL = 6 }; /* dl_dtype.code */
enum { DL_MAJOR = 1, DL_MINOR = 1 };                      /* the version of this file */
static const uint64_t DL_READ_ONLY = 1, DL_IS_COPIED = 2; /* flags */

struct dl_device {
    int32_t type, id;
};

struct dl_dtype {
    uint8_t code, bits;
    uint16_t lanes; /* 1 except for vector types */
};

struct dl_tensor {
    void *data;
    struct dl_device device;
    int32_t ndim;
    struct dl_dtype dtype;
    int64_t *shape, *strides; /* strides in elements; NULL: contiguous in C order */
    uint64_t byte_offset;     /* from data to element 0, …, 0 */
};

/* In a capsule "dltensor". The consumer renames the capsule "used_dltensor", and calls the deleter once, when it
 * no longer needs the memory. */
struct dl_managed {
    struct dl_tensor tensor;
    void *context;
    void (*deleter)(struct dl_managed *); /* may be NULL */
};

/* In a capsule "dltensor_versioned". If the major version is another one, only the members up to `deleter` may be
 * read. */
struct dl_versioned {
    uint32_t major, minor;
    void *context;
    void (*deleter)(struct dl_versioned *);
    uint64_t flags;
    struct dl_tensor tensor;
};

/* In a capsule "dlpack_exchange_api", the attribute __dlpack_c_exchange_api__ of a type: functions for the objects
 * of that type, called with the GIL. They return 0, or -1 with an exception. The table is never freed. If the
 * major version is another one, only `older` may be read: the table of an earlier version, or NULL. */
struct dl_api_header {
    uint32_t major, minor;
    const struct dl_api_header *older;
};

struct dl_exchange_api {
    struct dl_api_header header;
    int (*allocate)(struct dl_tensor *like, struct dl_versioned **, void *context,
                    void (*fail)(void *context, const char *kind, const char *message));
    int (*from_object)(void *object,
                       struct dl_versioned **); /* the caller calls the deleter; synchronises no stream */
    int (*to_object)(struct dl_versioned *, void **object);
    int (*borrow)(void *object, struct dl_tensor *);                           /* may be NULL */
    int (*work_stream)(int32_t device_type, int32_t device_id, void **stream); /* the producer's current stream */
};

#endif
