/* The thresholds of the reductions' policy and work split: fitted to an H200 by measurements of random problems.
 * Numbers of blocks are per multiprocessor, sizes are in the unit that the comment or the name says. */
#ifndef SMEMKIT_OPS_REDUCE_THRESHOLDS_H
#define SMEMKIT_OPS_REDUCE_THRESHOLDS_H

#include "kernels.h"

enum {
    VECTOR_BYTES = 16,      /* one load */
    CACHE_LINE_VECTORS = 8, /* a chunk is a multiple of a cache line of this many vectors */
    WARP = 32,

    /* blocks per multiprocessor */
    FEW_BLOCKS = 2,      /* enough to keep it busy */
    RESIDENT_BLOCKS = 4, /* as many as fit at the same time */
    MANY_BLOCKS = 8,     /* from here on there is much to read */
    MAX_ROW_BLOCKS = 12, /* when rows are split: some blocks wait, so that no multiprocessor is idle at the end */
    MAX_COLUMN_BLOCKS = 4, /* the same for columns, where the last block has more to combine */

    /* splitting a row, or a tile of columns: bytes per chunk */
    MAX_UNSPLIT_BYTES =
        64 << 10,        /* up to this size one block reads it all: synchronising blocks costs a microsecond */
    MIN_CHUNK = 4 << 10, /* at least, while one warp of the last block can wait for all others */
    MIN_FEW_BLOCKS_CHUNK = 16 << 10, /* at least, while there are few blocks */
    MIN_SINGLE_ROW_CHUNK =
        12 << 10, /* at least, to give a single row the same number of blocks on all multiprocessors */
    MIN_MANY_BLOCKS_CHUNK = 128 << 10, /* while there are not too many blocks */
    MAX_CHUNK = 4 << 20,               /* at most, if rows are split at all */
    MAX_SPLITS = 65535,                /* chunks per row: the grid's y */

    /* rows in single_pass: threads per row */
    MAX_SHORT_ROW_VECTORS = 32,       /* rows up to this length go through shared memory, if there are many */
    SHORT_ROW_BYTES_PER_THREAD = 128, /* bytes per thread of such a row */
    MAX_WARP_ROW_VECTORS =
        1024, /* rows up to this length get a warp or fewer threads, if there are WARP_ROWS per multiprocessor */
    WARP_ROWS = 16,
    MIN_ROW_THREADS = 8,     /* at least, for such a row */
    MAX_THREAD_VECTORS = 10, /* more threads, if each had more vectors than this */
    MIN_SM_THREADS = 2048,   /* more threads, if a multiprocessor had fewer than this */
    MAX_FEW_ROWS_WARP_VECTORS =
        256, /* up to this length a row gets a warp also with few rows, at least one per multiprocessor */
    MAX_HALF_WARP_ROWS_VECTORS =
        6 * REDUCE_BLOCK, /* rows that would leave a block's threads idle get a warp each: up to this length, if
                             there are half of WARP_ROWS per multiprocessor */
    MAX_LONG_WARP_ROW_VECTORS =
        16 * REDUCE_BLOCK, /* up to this length, if there are WARP_ROWS per multiprocessor */

    /* loads in flight per thread of single_pass */
    IN_FLIGHT = 4,                /* the default; one more, if that saves a round of loads */
    MAX_IN_FLIGHT = 8,            /* with software-pipelined loads */
    PIPELINE_GAIN = 2,            /* pipelining makes the last round cheaper by this many loads */
    MIN_LONG_THREAD_VECTORS = 64, /* pipelined even without that gain, if a thread has this many vectors */
    MAX_WARP_ROUNDS = 4,          /* a warp's rows take one more load in flight only below this many rounds */

    /* columns: tiles and whole columns */
    WIDE_TILE = 32,        /* vectors per tile of columns, if that gives enough tiles for all multiprocessors */
    MAX_ROW_TILE = 80,     /* rows of up to this many vectors are one tile */
    NARROW_TILE = 8,       /* vectors per tile otherwise: rows are split, and a wide tile has more to combine */
    MAX_FOLD_VECTORS = 64, /* of folded rows */
    MIN_THREAD_ROWS = 8,   /* of `columns` */
    MIN_WHOLE_COLUMN_THREADS = 384, /* per multiprocessor: enough for one thread per vector of whole columns */
    MIN_UNROLLED_THREADS = 12,      /* the same, if there is a kernel for this number of rows */
    MAX_TILED_COLUMNS = 512,        /* tiles are better than whole columns for at most this many columns */
    MIN_TILED_ROWS = 512,           /* of at least this many rows */
    MIN_UNALIGNED_TILED_ROWS = 256, /* and, if rows are unaligned, for columns of at least this many rows */

    /* when small_columns takes a column problem */
    MAX_SMALL_COLUMNS_ELEMENTS = 16 << 20, /* up to this many elements, unless whole columns are better; */
    FEW_ROWS = 8,                    /* unaligned rows, which take two loads, do not matter if there are so few, */
    WORD_BYTES = 4,                  /* or if elements are smaller than this; */
    MAX_NARROW_COLUMNS = 8,          /* any number of elements in rows no longer than this, */
    MIN_MANY_NARROW_ROWS = 50,       /* or no longer than a warp with at least this many rows, */
    MIN_NARROW_COLUMNS_PER_SM = 128, /* if there are this many columns per multiprocessor */

    /* when small_columns takes a row problem: one element per thread */
    MIN_ELEMENT_LOAD_ROWS = 12,   /* at least this many rows, */
    MAX_FEW_ROWS_BYTES = 2 << 10, /* fewer rows only if they are unaligned, of at most this many bytes */
    MAX_SHORT_ROWS = 32 << 10,    /* at most this many rows of FEW_ROWS elements or fewer */
    MAX_UNALIGNED_ELEMENTS =
        1 << 20,                    /* longer rows only if they are unaligned: up to this many elements in all, */
    LONG_ROW = 1024,                /* in rows no longer than this if elements are smaller than a word; */
    MIN_UNALIGNED_ROW_BYTES = 1024, /* or any number of elements in rows of words, of at least this many bytes */
    MAX_UNALIGNED_ROW = 32 << 10,   /* and at most this many elements */
    MIN_SUBWORD_REGISTER_ROWS = 8 << 10, /* rows of small elements stay in registers if there are more than this */
    MAX_ROWWISE_ELEMENTS = 3,            /* rows of up to this length go to rowwise */

    /* small_columns: threads per tile */
    MIN_BLOCK_THREADS = 64,
    MIN_SMALL_COLUMN_ROWS = 4,    /* per thread, before more threads share a column */
    MIN_FULL_BLOCK_THREADS_Y = 8, /* below this height, blocks get no more threads than needed */
    ROWS_IN_FLIGHT = 16,          /* rows in flight per thread */
    BYTES_IN_FLIGHT = 64,         /* bytes in flight per thread, for elements larger than a word */
    MAX_ROUNDS = 3,            /* with more rounds of such loads, tiles become narrower, if all blocks still fit */
    MAX_UNSPLIT_ROUNDS = 6,    /* with more rounds, rows are split */
    MAX_TILE_ELEMENTS = 40000, /* with more elements in a narrow tile, rows are split */
    MIN_SPLIT_THREAD_ROWS = 16,      /* at least, per thread, when rows are split */
    MIN_SPLIT_WIDE_COLUMNS = 128,    /* from this many columns on, tiles of split rows are twice as wide */
    MIN_FOLDED_THREAD_ROWS = 32,     /* at least, per thread, before a warp spans several narrow rows */
    NARROW_TILE_COLUMNS = 8,         /* columns of a narrow tile: a sector of words */
    MAX_SCATTERED_ELEMENTS = 400000, /* tiles become even narrower only up to this many elements in all */
};

#endif
