/* What the files of the CUDA devices share. */
#ifndef SMEMKIT_GPU_H
#define SMEMKIT_GPU_H

#include <cuda.h>
#include <cuda_runtime_api.h>
#include <pthread.h>
#include <stdatomic.h>

#include "device.h"

#define MAX_GPUS 64

struct deferred;
struct pool;

/* Places for numbers that kernels write into the host's memory; under the lock. */
enum { PLACES = 128, PLACE_BYTES = 32 };

struct places {
    pthread_mutex_t lock;
    bool tried;
    char *memory; /* pinned; NULL where it could not be had */
    int free_count, used_count;
    unsigned char free[PLACES],
        used[PLACES]; /* those that nothing touches; those that something may still touch */
};

/* Zeros on the device that launches borrow and leave 0. A stream has ZEROS bytes for good, the default one first;
 * what a stream captures has them until the graph is gone, and all that was instantiated from it. The list is
 * under the lock. */
enum { ZEROS = 256 << 10, MOST_ZEROS = 1024 /* of a device */, STREAM_ZEROS = 64 /* of these, for streams */ };

struct zeros_place {
    struct zeros_place *next;
    void *memory;
    unsigned long long stream, capture; /* their identities; capture 0: none */
    atomic_bool unused;                 /* the graph is gone */
};

struct zeros {
    pthread_mutex_t lock;
    struct zeros_place *first;
    int count, streams; /* places; those that streams have, but for the default one's */
};

/* The kernels of small launches, each in a graph. Under the lock. */
enum { SMALL_KERNELS = 64, ARGUMENT_BYTES = 512 };

struct small_kernel {
    const void *kernel;   /* NULL: nobody's place */
    cudaGraphExec_t exec; /* NULL: it could not be made */
    cudaGraphNode_t node;
    struct cudaKernelNodeParams set; /* but for the arguments, which are */
    char arguments[ARGUMENT_BYTES];
};

struct small_kernels {
    pthread_mutex_t lock;
    struct small_kernel places[SMALL_KERNELS];
};

struct gpu {
    struct device device;
    _Atomic(CUcontext) context; /* the primary context, once it has been seen */
    _Atomic(cudaMemPool_t) pool;
    atomic_int captures; /* of cuda_graphs, going on now */
    _Atomic(struct deferred *) deferred;
    _Atomic(struct pool *) pools[2];     /* to the device, and back */
    _Atomic(cudaStream_t) second_stream; /* NULL: not asked for yet */
    struct places places;
    struct zeros zeros;
    struct small_kernels small;
    atomic_bool lost; /* set after `failure`, which never changes again */
    struct failure failure;
};

extern struct gpu gpus[MAX_GPUS];

/* ---- device.c ---- */

/* What `gpu_leave` needs to put the thread back where it was. */
struct visit {
    CUcontext before;
    bool moved;
};

/* Makes the device current, unless it is lost or the process is a forked child. After true, call gpu_leave. */
bool gpu_enter(struct device *, struct visit *, struct failure *);
void gpu_leave(const struct visit *);
/* True where code is cudaSuccess; else fills failure, and clears the error unless it sticks to the context. */
bool gpu_check(struct device *, cudaError_t code, const char *call, struct failure *);
/* Where `device` and `failure` are in scope. */
#define CHECK(call) gpu_check(device, (call), #call, failure)
/* Also true where nobody can tell: for the default stream while another one is captured. */
bool gpu_is_capturing(device_stream);
bool gpu_is_forked(void);
/* While some thread captures a stream, CUDA refuses the others much that has no part in it, unless they say
 * between these that they know. */
enum cudaStreamCaptureMode gpu_relax(void);
void gpu_unrelax(enum cudaStreamCaptureMode before);
/* What comes on `later` waits for what stands on `earlier` now. */
bool gpu_order(struct device *, cudaStream_t later, cudaStream_t earlier, struct failure *);

/* ---- launch.c ---- */

/* Launches a kernel on the default stream at less cost to the host; `params` has no `extra`, and `sizes` are those
 * of the arguments. False where that cannot be: then nothing has happened. */
bool gpu_launch_small(int device, const struct cudaKernelNodeParams *params, const size_t *sizes, int count,
                      cudaError_t *);

/* ---- memory.c ---- */

bool cuda_allocate(struct device *, size_t bytes, device_stream, void **memory, struct failure *);
void cuda_release(struct device *, void *memory, device_stream);
size_t cuda_free_memory(struct device *, size_t enough);
void *cuda_zeros(struct device *, size_t bytes, device_stream);
void *cuda_allocate_result(struct device *);
void cuda_release_result(struct device *, void *memory, bool unused);
bool cuda_read_result(struct device *, const void *memory, size_t bytes, bool awaited, void *to, struct failure *);
/* Gives what the pool holds and nobody uses back to the device, once all work is done. The device is current. */
bool cuda_trim(struct device *, struct failure *);
/* Frees what was deferred, but for streams that are still captured. The device is current. */
void cuda_free_deferred(struct device *);

/* ---- transfer.c ---- */

bool cuda_copy_in(struct device *, void *to, const struct segments *from, device_event free, device_stream,
                  struct transfer **, struct failure *);
bool cuda_copy_in_end(struct device *, struct transfer *, device_stream, struct interval *, struct failure *);
bool cuda_copy_out(struct device *, const struct segments *to, const void *from, device_stream, struct transfer **,
                   struct failure *);
void cuda_prefault(struct device *, void *memory, size_t bytes, struct transfer **);
bool cuda_copy_out_end(struct device *, struct transfer *, struct interval *, struct failure *);

#endif
