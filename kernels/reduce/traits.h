/* Traits of the production reductions that the host, which divides the work (csrc/ops/reduce/), and the kernels
 * share. Plain C, and constant expressions in C++. */
#ifndef SMEMKIT_REDUCE_TRAITS_H
#define SMEMKIT_REDUCE_TRAITS_H

#include "kernels.h"

#ifdef __cplusplus
#define REDUCE_TRAIT static constexpr
#else
#define REDUCE_TRAIT static inline
#endif

enum {
    REDUCE_VECTOR_BYTES = 16,    /* one load */
    REDUCE_WORD_STATE_BYTES = 8, /* the largest partial result in one flagged word */
    REDUCE_RESIDENT_BLOCKS = 4,  /* per multiprocessor at the same time, which the kernels' registers allow */

    /* loads in flight per thread */
    REDUCE_IN_FLIGHT = 4,        /* vectors of `rows`, by default, */
    REDUCE_SUMS_IN_FLIGHT = 5,   /* for sums of floats if that saves a round of loads, */
    REDUCE_MAX_IN_FLIGHT = 8,    /* and with software-pipelined loads */
    REDUCE_ROWS_IN_FLIGHT = 16,  /* elements of `small_columns` up to a word, */
    REDUCE_BYTES_IN_FLIGHT = 64, /* or bytes of larger ones; bytes of `columns` */
};

/* Elements of a column that a thread of `small_columns` has in flight. */
REDUCE_TRAIT int reduce_rows_in_flight(int element_bytes)
{
    return element_bytes > 4 ? REDUCE_BYTES_IN_FLIGHT / element_bytes : REDUCE_ROWS_IN_FLIGHT;
}

/* Bytes of a row that a thread of `columns` loads at once: as many columns as its registers can hold partial
 * results for, but at least a word and at most a vector. */
REDUCE_TRAIT int reduce_column_vector_bytes(int state_bytes, int element_bytes)
{
    const int columns = state_bytes > 16 ? 2 : state_bytes > 8 ? 4 : 16, bytes = columns * element_bytes;

    return bytes < 4 ? 4 : bytes > REDUCE_VECTOR_BYTES ? (int)REDUCE_VECTOR_BYTES : bytes;
}

#endif
