/* The interface between the operations and the devices. Two implementations: cuda/device.c on the CUDA runtime,
 * cpu.c on the executor; a third, recorder.c, only records launches.
 *
 * No function here touches Python, so all are called with the GIL released. A function that can fail takes a
 * `struct failure *`, fills it, and returns false.
 */
#ifndef SMEMKIT_DEVICE_H
#define SMEMKIT_DEVICE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/failure.h"
#include "base/strided_copy.h"
#include "base/table.h"

/* A stream is the backend's own handle; NULL is the default stream. */
typedef void *device_stream;
typedef void *device_event;

struct device;

enum { MAX_RESULT_BYTES = 8 };

/* Seconds of the host's clock. */
struct interval {
    double from, to;
};

/* Bytes of a device's memory. */
struct memory_stats {
    size_t used;     /* by live arrays and running calls */
    size_t peak;     /* the maximum of `used` */
    size_t reserved; /* allocated from the device: used or cached */
};

struct device_properties;
struct transfer; /* a copy in progress; defined by the backend */

struct device_type {
    bool (*allocate)(struct device *, size_t bytes, device_stream, void **memory, struct failure *);
    void (*release)(struct device *, void *memory, device_stream);
    /* Copies between host and device, in stream order, except that with `free` the memory at `to` may be written
     * as soon as that event has occurred (NULL: in stream order). A copy continues in the background until its end
     * function is called, which waits until host memory is no longer accessed; it must be called unless
     * upload_begin has set the transfer to NULL. After upload_end the stream waits for the bytes. `interval`, if
     * not NULL, is set if the copy did not go through the stream. */
    bool (*upload_begin)(struct device *, void *to, const struct segments *from, device_event free, device_stream,
                         struct transfer **, struct failure *);
    bool (*upload_end)(struct device *, struct transfer *, device_stream, struct interval *, struct failure *);
    bool (*download_begin)(struct device *, const struct segments *to, const void *from, device_stream,
                           struct transfer **, struct failure *);
    bool (*download_end)(struct device *, struct transfer *, struct interval *, struct failure *);
    /* Starts to fault in new host memory that a download_begin will fill later. Runs in the background until
     * download_end; leaves NULL if it would not pay. May be NULL. */
    void (*prefault)(struct device *, void *memory, size_t bytes, struct transfer **);
    /* Memory for one number of at most MAX_RESULT_BYTES on the default stream, which the host can read directly:
     * as soon as a kernel has written it, if it is the first to do so and uses a single store (`awaited`),
     * otherwise after synchronising the stream. NULL if the device has no such memory. */
    void *(*allocate_result_slot)(struct device *);
    void (*release_result_slot)(struct device *, void *memory, bool unused);
    bool (*read_result_slot)(struct device *, const void *memory, size_t bytes, bool awaited, void *to,
                             struct failure *);
    bool (*properties)(struct device *, struct device_properties *, struct failure *);
    bool (*memory_stats)(struct device *, struct memory_stats *, struct failure *);
    bool (*empty_cache)(struct device *, struct failure *); /* returns cached memory to the driver */
    /* About how many bytes can still be allocated; any number from `enough` on if there are that many. */
    size_t (*available_bytes)(struct device *, size_t enough);
    /* Zeroed memory for consecutive kernels on a stream, each of which leaves it zeroed: the stream's own, or the
     * graph's during capture. NULL if there is none left. A device whose blocks need not run concurrently sets
     * this to NULL. */
    void *(*zeroed_workspace)(struct device *, size_t bytes, device_stream);
    bool (*copy)(struct device *, void *to, const void *from, size_t bytes, device_stream, struct failure *);
    bool (*fill)(struct device *, void *to, int byte, size_t bytes, device_stream, struct failure *);
    bool (*launch)(struct device *, const struct kernel_row *, const void *args, device_stream, struct failure *);
    bool (*synchronize_stream)(struct device *, device_stream, struct failure *);
    bool (*create_stream)(struct device *, device_stream *, struct failure *); /* NULL: the only stream */
    void (*destroy_stream)(struct device *, device_stream);
    /* A second stream, for work that may run concurrently with the caller's stream; shared by all calls, so a call
     * that waits long delays others. NULL if there is none. May be NULL. */
    device_stream (*second_stream)(struct device *);
    /* work enqueued on `later` from now on waits for the work that is on `earlier` now; does nothing during
     * capture */
    bool (*stream_wait_stream)(struct device *, device_stream later, device_stream earlier, struct failure *);
    bool (*synchronize_device)(struct device *, struct failure *);
    bool (*is_capturing)(struct device *, device_stream); /* into a graph; true also if that is unknown */

    /* whether the stream has no pending work */
    bool (*query_stream)(struct device *, device_stream, bool *done, struct failure *);
    /* work enqueued on the stream from now on waits for the event, which may belong to another device of the same
     * kind; also during capture */
    bool (*stream_wait_event)(struct device *, device_stream, device_event, struct failure *);

    /* Events: record_new_event creates and records one, record_event records it again, synchronize_event blocks
     * the host until it has occurred, seconds_between waits for both. */
    bool (*record_new_event)(struct device *, device_stream, device_event *, struct failure *);
    bool (*record_event)(struct device *, device_stream, device_event, struct failure *);
    bool (*query_event)(struct device *, device_event, bool *done, struct failure *);
    bool (*synchronize_event)(struct device *, device_event, struct failure *);
    bool (*seconds_between)(struct device *, device_event, device_event, double *, struct failure *);
    void (*destroy_event)(struct device *, device_event);
};

struct device {
    char name[16];       /* "cuda:0", "cpu" */
    int ordinal;         /* of the GPU; -1 on the CPU */
    int capability;      /* 90 for sm_90; on the CPU that of the GPU below */
    int multiprocessors; /* for which work is divided; the CPU device has an H200's number, so that it divides work
                            in the same way */
    size_t l2_bytes;     /* the same */
    const struct device_type *type;
};

/* Whether the device's memory is the host's: that is the CPU device, which has neither streams nor graphs. */
static inline bool device_is_host(const struct device *device)
{
    return device->ordinal < 0;
}

/* what `smemkit.Device` shows; zero where it does not apply */
struct device_properties {
    char description[256]; /* "NVIDIA H200", "AMD EPYC 9654" */
    int capability_major, capability_minor;
    int multiprocessors; /* CPU: cores that the executor uses */
    int max_threads_per_block, max_threads_per_multiprocessor, warp_size;
    size_t shared_per_block, shared_per_block_optin, shared_per_multiprocessor;
    int registers_per_multiprocessor, max_blocks_per_multiprocessor;
    size_t shared_reserved_per_block; /* by the driver, in addition to what a block requests */
    size_t l2_bytes, memory_bytes, free_bytes;
    int driver_version, runtime_version; /* 13000 for 13.0 */
    int clock_khz, memory_clock_khz, memory_bus_bits;
};

/* the CPU device, which always exists */
struct device *cpu_device(void);

/* The CUDA devices. cuda_devices returns how many work and never fails; if it returns 0, *why says which of four
 * reasons it is: not built, no driver, driver too old, no GPU. The first call initialises CUDA. */
int cuda_devices(const char **why);
struct device *cuda_device(int ordinal);
void cuda_close_copy_pools(void); /* at interpreter exit */
void cuda_wait_at_exit(void);     /* from now on exit() waits for threads that are inside CUDA */
/* The seconds of one copy between pinned host memory and the device. */
bool cuda_pinned_copy(struct device *, size_t bytes, bool to_device, double *seconds, struct failure *);

/* Pinned host memory for a result of the device, of at least `bytes`; NULL if that would not pay, or there is
 * none. cuda_release_pinned is called when the memory of any such result is no longer used, and counts it: that
 * results of a size die is why memory is pinned for the next. False if the memory was not allocated here: then the
 * caller frees it. cuda_pinned_bytes is 0 for such memory. */
void *cuda_allocate_pinned(struct device *, size_t bytes);
size_t cuda_pinned_bytes(const void *memory);
bool cuda_release_pinned(void *memory, size_t bytes);

/* Memory of a CUDA device, and the stream in whose order it is used. */
struct device_span {
    struct device *device;
    void *memory;
    device_stream stream;
};

/* Copies between two CUDA devices, after the work that is now on both streams; work enqueued on either stream from
 * now on waits for the copy; with `wait` the host does instead. Neither stream is captured. */
bool cuda_copy_between(const struct device_span *to, const struct device_span *from, size_t bytes, bool wait,
                       struct failure *);

/* The CUDA device whose memory a pointer is in. False with a failure without CUDA's code if there is none.
 */
bool cuda_device_of_pointer(const void *pointer, struct device **, struct failure *);

/* Graph capture, for timing only: what `call` enqueues on the given stream is captured `inner` times between two
 * events, after `flush_bytes` of memory have been written once (0: none), and replayed; see module/graph.c. */
struct cuda_graph;
bool cuda_capture_begin(struct device *, device_stream, size_t flush_bytes, struct cuda_graph **,
                        struct failure *);
bool cuda_capture_end(struct cuda_graph *, struct failure *);
bool cuda_graph_replay(struct cuda_graph *, double *seconds, struct failure *);
void cuda_graph_destroy(struct cuda_graph *);

#endif
