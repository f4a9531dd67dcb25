/* The steps of a part of a call, which the files of this folder share. */
#ifndef SMEMKIT_CALL_STEPS_H
#define SMEMKIT_CALL_STEPS_H

#include "python/state.h"

#include "array/operand.h"
#include "call.h"
#include "device/device.h"
#include "kernels.h"
#include "part.h"
#include "python/layout.h"

/* Device memory for the upload of an operand. */
struct staging_buffer {
    void *memory; /* NULL: not yet allocated */
    size_t bytes;
    device_event free; /* after which it may be overwritten; NULL: in stream order */
};

PyArrayObject *new_numpy_array(PyArray_Descr *descr, const struct layout *layout);

/* Whether an operand and out overlap in memory. */
bool operands_overlap(const struct operand *in, const struct operand *out);

bool out_overlaps_operand(const struct call *call);

/* Called with the GIL, before any launch. A result that is made in parts must not overwrite operands that are
 * still to be read: it goes to a bounce buffer first. */
bool call_prepare(struct call *call);

bool record_part_event(struct part *part, enum part_event event);

/* Memory that is released with the other temporaries of `buffers`; NULL with a failure. */
void *allocate_temporary(struct buffers *buffers, size_t bytes, struct failure *failure);
void release_temporaries(struct buffers *buffers);

/* The description of a contiguous array of the shape of `like`. */
struct convert_operand describe_contiguous(void *data, enum dtype dtype, const struct layout *like);

struct convert_operand describe_strided(void *data, enum dtype dtype, const struct layout *layout, bool swapped);

/* Launches `convert` for elements of `shape`, merged into as few dimensions as possible. */
bool launch_convert(struct part *part, const struct convert_operand *x, const struct convert_operand *out,
                    const struct layout *shape);

/* Starts the upload of an operand that is in host memory. `buffers` owns memory that is allocated here. */
bool begin_operand_upload(struct part *part, struct buffers *buffers, int i,
                          const struct staging_buffer *staging_buffer);

/* Makes the stream wait for the uploads; the host memory is not needed afterwards. */
bool wait_for_uploads(struct part *part);

/* Converts an operand, from its layout on the device, to the layout and dtype that the kernel wants. */
bool convert_to_kernel_layout(struct part *part, struct buffers *buffers, int i);

bool allocate_result(struct part *part, struct buffers *buffers);

/* To be called after the launch of a kernel that writes to `memory`, whether or not it succeeded. */
void update_out_written(struct part *part, const void *memory);

/* Whether an operand or the result is in host memory. */
bool has_host_array(const struct call *call);

/* SIZE_MAX, more than any device has, if the product overflows: an array may repeat its elements. */
size_t saturated_bytes(npy_intp elements, enum dtype dtype);

bool is_partitioned(const struct partition *partition);
bool call_is_partitioned(const struct call *call);

/* Whether all parts of the inner loop read the same elements of an operand. */
bool is_invariant(const struct call *call, int i);

/* Whether the parts of the inner loop contribute to one result, which is complete after the last of them. */
bool accumulates_parts(const struct call *call);

/* Whether it is the last part of the inner loop. */
bool is_last_part(const struct part *part);

/* Restricts a part to one step of a loop: its share of the operands and of the result. */
void part_slice(struct part *part, int loop, npy_intp at);

/* Moves the kernel's result to out, or starts its download. */
bool part_write_out(struct part *part);

/* Adds a part's times to timed()'s. A copy that did not go through the stream reports its own interval. `before`:
 * for one of several parts; NULL otherwise.
 */
void part_add_times(struct part *part, device_event *before);

/* Waits for the download and releases the part's temporaries. False if something failed. */
bool part_complete(struct part *part, device_event *before);

/* Orders the call's stream after the streams that own the operands' memory (`before`), or those after the call's
 * stream. */
bool order_with_owning_streams(struct call *call, bool before);

/* Orders the owning streams after the call; waits for the call instead if it is synchronous, or if that fails,
 * because the memory may be released next. */
void order_owning_streams_after_call(struct call *call);

void call_execute(struct call *call, call_launcher launch, void *context);

#endif
