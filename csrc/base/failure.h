/* What went wrong in code that does not know Python. A function that can fail takes a `struct failure *`, fills
 * it, and returns false; python/errors.c turns it into an exception afterwards. */
#ifndef SMEMKIT_FAILURE_H
#define SMEMKIT_FAILURE_H

#include <stdbool.h>

enum failure_kind {
    FAILURE_NONE,
    FAILURE_NO_DEVICE,   /* NoDeviceError */
    FAILURE_CUDA,        /* CudaError, or FatalCudaError if the context is lost */
    FAILURE_MEMORY,      /* OutOfMemoryError */
    FAILURE_KERNEL,      /* Error: the executor aborted the launch; the text says why */
    FAILURE_INTERRUPTED, /* a Python exception is set already: Ctrl-C */
};

struct failure {
    enum failure_kind kind;
    int code;       /* of a CUDA error */
    bool fatal;     /* no later call on this device can succeed */
    bool ran;       /* of a launch: some blocks may have run and written memory */
    char name[64];  /* of a CUDA error: cudaErrorIllegalAddress */
    char text[960]; /* the failed call and its message */
};

void failure_set(struct failure *, enum failure_kind, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

#endif
