/* The one interface between the operations and the machines that run them. Two implementations:
 * csrc/cuda/device.c on the CUDA runtime, csrc/cpu/device.c on the executor.
 *
 * No function here touches Python, so all are called with the GIL released. A function that can fail takes
 * a `struct failure *`, fills it, and returns false; csrc/errors.c turns it into an exception afterwards.
 */
#ifndef SMEMKIT_DEVICE_H
#define SMEMKIT_DEVICE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "table.h"

enum failure_kind {
    FAILURE_NONE,
    FAILURE_NO_DEVICE,   /* NoDeviceError */
    FAILURE_CUDA,        /* CudaError, or FatalCudaError where the context is lost */
    FAILURE_MEMORY,      /* OutOfMemoryError */
    FAILURE_KERNEL,      /* Error: the executor ended the launch, and says why */
    FAILURE_INTERRUPTED, /* a Python exception is set already: Ctrl-C */
};

struct failure {
    enum failure_kind kind;
    int code;       /* of a CUDA error */
    bool fatal;     /* no later call on this device can succeed */
    bool ran;       /* of a launch: some of its blocks may have run, and written */
    char name[64];  /* of a CUDA error: cudaErrorIllegalAddress */
    char text[960]; /* the call and what it says */
};

/* A stream is the backend's own handle; NULL is the default stream. */
typedef void *device_stream;
typedef void *device_event;

struct device;

enum { RESULT_BYTES = 8 };

/* Host memory as a copy reads or writes it: runs of so many bytes, at the strides of an array; none is empty. On
 * the device they lie side by side, in C order. */
struct runs {
    char *data;
    size_t run;
    int ndim;
    int64_t shape[MAX_DIMENSIONS], strides[MAX_DIMENSIONS];
};

size_t runs_bytes(const struct runs *);
/* Copies [begin, end) of the bytes, counted without the gaps: to `dense`, or from there if not `gather`. */
void runs_copy(const struct runs *, size_t begin, size_t end, char *dense, bool gather);

/* Seconds of the host's clock. */
struct interval {
    double from, to;
};

/* Bytes of a device's memory. */
struct memory_stats {
    size_t used;     /* by live arrays and calls */
    size_t peak;     /* the most that were used at once */
    size_t reserved; /* taken from the device: used, and kept for what comes next */
};

struct transfer; /* the backend's own: a copy that goes on by itself */

struct device_type {
    bool (*allocate)(struct device *, size_t bytes, device_stream, void **memory, struct failure *);
    void (*release)(struct device *, void *memory, device_stream);
    /* Between the host and the device, in the order of the stream, but for what `free` says: the memory at `to`
     * may be written once that event has come (NULL: as the stream has it). A copy goes on by itself until its end
     * is asked for, which waits for the host's memory to be done with, and must be asked for, but where copy_in
     * has left NULL: that one is over. After copy_in_end the stream waits for the bytes. `interval`, if not NULL,
     * tells when a copy that took a way beside the stream went on; it stays as it is otherwise. */
    bool (*copy_in)(struct device *, void *to, const struct runs *from, device_event free, device_stream,
                    struct transfer **, struct failure *);
    bool (*copy_in_end)(struct device *, struct transfer *, device_stream, struct interval *, struct failure *);
    bool (*copy_out)(struct device *, const struct runs *to, const void *from, device_stream, struct transfer **,
                     struct failure *);
    bool (*copy_out_end)(struct device *, struct transfer *, struct interval *, struct failure *);
    /* Has memory of the host that is fresh from the system, and that a copy_out is to fill later, brought in
     * meanwhile. It goes on by itself, until copy_out_end; leaves NULL where it would not pay. May be NULL. */
    void (*expect)(struct device *, void *memory, size_t bytes, struct transfer **);
    /* Memory for one number of at most RESULT_BYTES, on the default stream, which the host can read as soon as a
     * kernel has written it, if that is the first to write it and does so with one store (`awaited`), or else once
     * the stream is done. NULL where the device has none: then its other memory is to be taken. */
    void *(*allocate_result)(struct device *);
    void (*release_result)(struct device *, void *memory, bool unused);
    bool (*read_result)(struct device *, const void *memory, size_t bytes, bool awaited, void *to,
                        struct failure *);
    /* Bytes that can still be allocated, or nearly: not all of them where there are `enough`. */
    size_t (*room)(struct device *, size_t enough);
    /* So many bytes that are 0, for kernels that come on the stream one after the other, if each leaves them 0:
     * the stream's own, or under capture the graph's. NULL where there are none to be had; the device that has
     * none at all, whose blocks need not run at once, sets this to NULL. */
    void *(*zeros)(struct device *, size_t bytes, device_stream);
    bool (*copy)(struct device *, void *to, const void *from, size_t bytes, device_stream, struct failure *);
    bool (*fill)(struct device *, void *to, int byte, size_t bytes, device_stream, struct failure *);
    bool (*launch)(struct device *, const struct kernel_row *, const void *args, device_stream, struct failure *);
    bool (*wait)(struct device *, device_stream, struct failure *);
    /* A stream of the device's own, for what may be done beside what stands on the caller's: one for all calls, so
     * that a call whose own stream waits long keeps others waiting. NULL where there is none. May be NULL. */
    device_stream (*beside)(struct device *);
    /* what comes on `later` waits for what stands on `earlier` now; under capture it does nothing */
    bool (*follow)(struct device *, device_stream later, device_stream earlier, struct failure *);
    bool (*wait_all)(struct device *, struct failure *);
    bool (*capturing)(struct device *, device_stream); /* into a graph; true also where nobody can tell */

    /* whether all that stands on the stream is done */
    bool (*stream_done)(struct device *, device_stream, bool *done, struct failure *);
    /* what comes on the stream waits for the event, which is any device's of the same kind; under capture too */
    bool (*stream_wait_event)(struct device *, device_stream, device_event, struct failure *);

    /* events: `mark` makes one and records it, `record` records it anew; `event_wait` keeps the host waiting;
     * `seconds_between` waits for both */
    bool (*mark)(struct device *, device_stream, device_event *, struct failure *);
    bool (*record)(struct device *, device_stream, device_event, struct failure *);
    bool (*event_done)(struct device *, device_event, bool *done, struct failure *);
    bool (*event_wait)(struct device *, device_event, struct failure *);
    bool (*seconds_between)(struct device *, device_event, device_event, double *, struct failure *);
    void (*drop)(struct device *, device_event);
};

struct device {
    char name[16];       /* "cuda:0", "cpu" */
    int ordinal;         /* of the GPU; -1 on the CPU */
    int multiprocessors; /* that work is shared out for; on the CPU as many as an H200 has, so that it is shared
                            alike */
    size_t l2_bytes;     /* likewise */
    const struct device_type *type;
};

/* what `smemkit.Device` shows; zero where it does not apply */
struct device_properties {
    char description[256]; /* "NVIDIA H200", "AMD EPYC 9654" */
    int capability_major, capability_minor;
    int multiprocessors; /* cores the executor uses, on the CPU */
    int max_threads_per_block, max_threads_per_multiprocessor, warp_size;
    size_t shared_per_block, shared_per_block_optin, shared_per_multiprocessor;
    int registers_per_multiprocessor, max_blocks_per_multiprocessor;
    size_t shared_reserved_per_block; /* the driver's, beside what a block asks for */
    size_t l2_bytes, memory_bytes, free_bytes;
    int driver_version, runtime_version; /* 13000 for 13.0 */
    int clock_khz, memory_clock_khz, memory_bus_bits;
};

/* the CPU device; there is one, always */
struct device *cpu_device(void);
bool cpu_properties(struct device_properties *, struct failure *);
void cpu_memory_stats(struct memory_stats *);

/* The CUDA devices. cuda_devices returns how many work and never fails; where it returns 0, *why says which
 * of the four it is: not built, no driver, driver too old, no GPU. The first call initialises CUDA. */
int cuda_devices(const char **why);
struct device *cuda_device(int ordinal);
bool cuda_properties(struct device *, struct device_properties *, struct failure *);
bool cuda_memory_stats(struct device *, struct memory_stats *, struct failure *);
bool cuda_empty_cache(struct device *, struct failure *);
void cuda_close_crews(void); /* at the interpreter's end */
/* Seconds of one copy between pinned host memory and the device. */
bool cuda_pinned_copy(struct device *, size_t bytes, bool to_device, double *seconds, struct failure *);

/* Whose memory a pointer is in. False, with a failure that has no code of CUDA's, where it is in no CUDA device's.
 */
bool cuda_owner_of(const void *pointer, struct device **, struct failure *);

/* Graph capture, for timing only: what `call` enqueues on the stream that it is handed is captured
 * `inner` times between two events, after `flush_bytes` of memory have been written once (0: none), and
 * replayed; see csrc/timing.c. */
struct cuda_graph;
bool cuda_stream_create(struct device *, device_stream *, struct failure *);
void cuda_stream_destroy(struct device *, device_stream);
bool cuda_capture_begin(struct device *, device_stream, size_t flush_bytes, struct cuda_graph **,
                        struct failure *);
bool cuda_capture_end(struct cuda_graph *, struct failure *);
bool cuda_graph_replay(struct cuda_graph *, double *seconds, struct failure *);
void cuda_graph_destroy(struct cuda_graph *);

void failure_set(struct failure *, enum failure_kind, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

#endif
