/* A part of a call, as the operation's launcher sees it. */
#ifndef SMEMKIT_CALL_PART_H
#define SMEMKIT_CALL_PART_H

#include "python/state.h"

#include "base/failure.h"
#include "call.h"
#include "device/device.h"
#include "kernels.h"
#include "python/layout.h"

enum { MAX_TEMPORARIES = 10 };

/* Events of a part on its stream, recorded for timed(). */
enum part_event { UPLOAD_BEGIN, UPLOAD_END, KERNEL_BEGIN, COMPUTED, DOWNLOAD_END, PART_EVENTS };

/* Device memory of a part, or of what all parts of the inner loop share. */
struct buffers {
    struct device *device;
    device_stream stream;
    void *operands[MAX_INPUTS]; /* in the kernel's layout and dtype */
    void *out, *scratch;
    void *temporaries[MAX_TEMPORARIES]; /* what has been allocated for them */
    int temporary_count;
};

/* Copies between host and device in progress; NULL: none. */
struct transfers {
    struct transfer *uploads[MAX_INPUTS], *download;
    bool download_started;
};

/* What a part reads and writes, and one run of the operation's kernels on it. A call that is not divided is one
 * part. */
struct part {
    const struct call *call;
    struct device *device;        /* the call's; in a dry run the recorder */
    device_stream stream;         /* the call's, or a second one */
    npy_intp begin[2], length[2]; /* in the dimensions of both loops */
    char *in[MAX_INPUTS], *out;   /* element 0, …, 0 of its share of the operands and of out */
    struct layout in_view[MAX_INPUTS], out_view;
    struct buffers buffers;
    struct transfers transfers;
    struct layout uploaded[MAX_INPUTS];    /* the operands' layouts on the device, before a conversion */
    struct convert_operand native_operand; /* for `convert`, which takes any layout */
    device_event events[PART_EVENTS];
    struct interval up[MAX_INPUTS], down; /* the times of copies that do not go through the stream */
    bool ran;                             /* a kernel was launched since this was cleared */
    bool out_written;                     /* out has been written to, or may have been */
    struct failure failure;
};

/* The whole call as one part. */
struct part part_of_call(const struct call *);

/* Launches a kernel on the part's stream. */
bool part_launch(struct part *, const struct kernel_row *, const void *args);

#endif
