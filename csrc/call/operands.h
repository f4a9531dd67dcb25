/* Steps that several operations share when they read their operands. */
#ifndef SMEMKIT_CALL_OPERANDS_H
#define SMEMKIT_CALL_OPERANDS_H

#include "python/state.h"

#include "array/operand.h"
#include "array/stream.h"
#include "call.h"
#include "kernels.h"

/* The promoted dtype of both operands, or the dtype that `object` asks for, if both can be cast to it. */
bool read_common_dtype(struct call *, PyObject *object, enum dtype *);

/* A ValueError with the shapes of x1 and x2. Returns false. */
bool refuse_shapes(const struct operand *, const struct operand *, const char *expected);

/* Asks for operand i in its own layout and dtype. */
void use_native_layout(struct call *, int i);

/* Sets call->out for a result of `dtype`, or of the operand's own dtype and byte order if the kernel only moves
 * bytes. */
bool call_read_out(const struct module_state *, struct call *, PyObject *object, enum dtype, int ndim,
                   const npy_intp *shape, PyObject *stream);

/* How many indices of a dimension give parts of about `part` bytes: at least one, and a multiple of `multiple`
 * unless it is all of them. */
npy_intp choose_part_step(npy_intp part, npy_intp bytes_per_index, npy_intp multiple);

#endif
