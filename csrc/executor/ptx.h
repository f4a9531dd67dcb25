/* What PTX's instructions need of the executor, in addition to executor.h. */
#ifndef SMEMKIT_EXECUTOR_PTX_H
#define SMEMKIT_EXECUTOR_PTX_H

#include "executor.h"

#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(default)

/* A collective of all 32 lanes of the warp, which the last lane to arrive executes: `run` gets every lane's
 * object. A lane's object begins with this. If lanes have exited or do not exist, the launch is aborted. */
enum { SMEMKIT_CALL = SMEMKIT_XOR + 1 }; /* the collective's number */
struct smemkit_warp_call {
    const char *instruction; /* "mma.sync" */
    void (*run)(struct smemkit_warp_call *const lanes[32]);
};
void smemkit_warp_call(struct smemkit_warp_call *, const char *file, int line);

/* PTX's mma (matrix.c): d = a @ b + c, of m x k and k x n elements. Registers are in 64 bits each. */
enum smemkit_element {
    SMEMKIT_F16,
    SMEMKIT_BF16,
    SMEMKIT_TF32,
    SMEMKIT_F32,
    SMEMKIT_F64,
    SMEMKIT_S8,
    SMEMKIT_U8,
    SMEMKIT_S4,
    SMEMKIT_U4,
    SMEMKIT_B1,
    SMEMKIT_S32,
    SMEMKIT_E4M3,
    SMEMKIT_E5M2
};
struct smemkit_mma {
    struct smemkit_warp_call call;
    int m, k; /* n is 8 */
    enum smemkit_element a_type, b_type, c_type, d_type;
    int a_column_major, b_row_major; /* m8n8k4 of halves only */
    int bits_and;                    /* of single bits: AND, otherwise XOR */
    int saturate;                    /* of integers: sums beyond 32 bits become the nearest number */
    const uint64_t *a, *b, *c;
    uint64_t *d;
};
void smemkit_multiply(struct smemkit_mma *, const char *file, int line);

/* PTX's wgmma (wgmma.c): d (64, n) = scale_d * d + (scale_a * a) @ (scale_b * b). The operands of a lane: */
struct smemkit_wgmma {
    struct smemkit_warp_call call;
    int n, k;
    enum smemkit_element a_type, b_type, d_type;
    int saturate, scale_d, scale_a, scale_b, transpose_a, transpose_b;
    uint64_t a_descriptor, b_descriptor;
    const uint32_t *a;  /* 4 registers; NULL: a is in shared memory */
    void *const *a_at;  /* where they are */
    void *const *d;     /* where the accumulators are */
    unsigned registers; /* that many */
    const void *code;   /* the kernel's call */
    unsigned thread;    /* this and `number` are the executor's */
    uint64_t number;
};
void smemkit_wgmma_execute(struct smemkit_wgmma *, const char *file, int line);
void smemkit_wgmma_fence(const char *file, int line);
void smemkit_wgmma_commit(const char *file, int line);
/* until at most so many groups of the warp are not complete */
void smemkit_wgmma_wait(unsigned groups, const char *file, int line);

/* PTX's setmaxnreg: the warps of a warpgroup have `count` registers per thread from now on, more than before or
 * fewer. */
void smemkit_set_registers(unsigned count, int more, const char *file, int line);

/* PTX's ldmatrix and stmatrix: lane i of the first 8 * count has row i of the 8 x 8 matrices of 16-bit elements,
 * each lane has a register of each matrix. */
struct smemkit_matrices {
    struct smemkit_warp_call call;
    int count, transposed;
    uint32_t *words;
    uint32_t row[4];
};
void smemkit_load_matrices(struct smemkit_matrices *, const char *file, int line);
void smemkit_store_matrices(struct smemkit_matrices *, const char *file, int line);
/* A row's address must be a multiple of 16. */
void smemkit_matrix_row(const void *row, const char *instruction, const char *file, int line);
/* A fragment of nvcuda::wmma: the address must be a multiple of 16 bytes (8 for elements of 8 bits), and the
 * leading dimension, which counts elements, of 16 bytes for elements of 16 and 32 bits. */
void smemkit_fragment_place(const void *address, unsigned leading, int bits, const char *function,
                            const char *file, int line);

/* PTX's mbarrier (mbarrier.c). init and inval store the word; they abort the launch if there is an object already,
 * or none. `word`: that of a new object for `count` arrivals. `await_init`: before a use, waits until another
 * thread has initialised the object, or none can. */
void smemkit_mbarrier_init(void *object, unsigned count, const char *file, int line);
void smemkit_mbarrier_inval(void *object, const char *file, int line);
uint64_t smemkit_mbarrier_word(unsigned count, const char *file, int line);
void smemkit_mbarrier_await_init(const void *object, const char *file, int line);

/* `count` arrivals of which `dropped` are not expected in later phases. Returns the word before. Sets `refused` if
 * they are not allowed: then call smemkit_mbarrier_refuse, which aborts the launch. */
uint64_t smemkit_mbarrier_arrive(void *object, unsigned count, unsigned dropped, int incomplete, int *refused);
void smemkit_mbarrier_refuse(void *object, unsigned count, const char *file, int line) __attribute__((noreturn));

/* Whether the phase that a word or a parity names is complete: 0 or 1; -1 if it is not, and the thread's last try
 * was of the same mbarrier, at the same line, and it has not synchronised since. Asynchronous copies that are to
 * arrive complete if need be. The pending arrivals of a word. */
int smemkit_mbarrier_is_complete(void *object, uint64_t state, int parity, const char *file, int line);
unsigned smemkit_mbarrier_pending(uint64_t state);
/* Additional bytes that the phase expects; and bytes that have arrived (bulk.c). */
void smemkit_mbarrier_expect(void *object, uint64_t bytes, const char *file, int line);
void smemkit_mbarrier_complete(void *object, uint64_t bytes, const char *file, int line);

/* What the CPU device keeps in a CUtensorMap: a tensor in global memory, and the box of it that one copy moves.
 * Dimensions are innermost first. smemkit/user_kernel/tensor_map.py writes it. */
enum { SMEMKIT_TENSOR_RANK = 5 };
static const uint64_t SMEMKIT_TENSOR_MAGIC = UINT64_C(0x70614D726F736E54);
struct smemkit_tensor {
    uint64_t magic;
    char *address;
    uint64_t strides[SMEMKIT_TENSOR_RANK]; /* in bytes; the first is an element */
    uint32_t shape[SMEMKIT_TENSOR_RANK];
    uint16_t box[SMEMKIT_TENSOR_RANK];
    uint8_t rank, element;              /* bytes */
    uint8_t swizzle;                    /* 0, or 1 to 3 for 32, 64, 128 bytes */
    uint8_t nan;                        /* an element outside the tensor is NaN, not 0 */
    uint8_t type;                       /* of its elements: the driver's CUtensorMapDataType */
    uint8_t steps[SMEMKIT_TENSOR_RANK]; /* from one element of the box to the next; the first is 1 */
};

enum { SMEMKIT_TENSOR_MAP_BYTES = 128 };

/* Bytes of an element of a CUtensorMapDataType; 0: the executor does not have it. */
unsigned smemkit_tensor_element_bytes(unsigned type);
/* Whether a map follows the rules; if not, writes what is wrong: "with an unknown swizzle". */
int smemkit_tensor_is_valid(const struct smemkit_tensor *, char *why, size_t length);

/* tensormap.replace: changes one field of a map. Dimensions count as PTX does. */
enum smemkit_tensor_field {
    SMEMKIT_GLOBAL_ADDRESS,
    SMEMKIT_RANK,
    SMEMKIT_BOX_DIM,
    SMEMKIT_GLOBAL_DIM,
    SMEMKIT_GLOBAL_STRIDE,
    SMEMKIT_ELEMENT_STRIDE,
    SMEMKIT_ELEMTYPE,
    SMEMKIT_INTERLEAVE_LAYOUT,
    SMEMKIT_SWIZZLE_MODE,
    SMEMKIT_FILL_MODE
};
void smemkit_replace_in_tensor_map(enum smemkit_tensor_field, void *map, unsigned dimension, uint64_t value,
                                   const char *file, int line);
/* tensormap.cp_fenceproxy: copies a map, for the warp. */
struct smemkit_tensor_map_copy {
    struct smemkit_warp_call call;
    void *to;
    const void *from;
    unsigned bytes;
};
void smemkit_copy_tensor_map(struct smemkit_tensor_map_copy *, const char *file, int line);
/* fence.proxy.tensormap, of a kernel that was compiled for checking */
void smemkit_checked_tensor_map_release(void);
void smemkit_checked_tensor_map_acquire(const void *map);

/* PTX's bulk copies (bulk.c): the calling thread starts one, closes a bulk group, and waits until at most `groups`
 * of its groups are incomplete, or have not read their sources. */
typedef void smemkit_combine(void *to, const void *from, uint64_t bytes);
struct smemkit_bulk {
    const char *instruction; /* "cp.async.bulk" */
    void *to;
    const void *from;
    uint64_t bytes;
    void *mbarrier;                      /* at which the bytes arrive; NULL: the copy is of a bulk group */
    const struct smemkit_tensor *tensor; /* the end in global memory, whose address is not used; NULL: none */
    int32_t at[SMEMKIT_TENSOR_RANK];     /* the box's first element */
    smemkit_combine *combine;            /* of a reduction; NULL: a copy */
    smemkit_combine *(*combine_of)(
        unsigned type); /* of a reduction of a tensor: `combine`, or NULL if it is none */
    uint64_t value[2];  /* what st.async and red.async have in registers; there `from` is NULL */
};
/* rank: that the instruction names, of a copy of a tensor */
void smemkit_bulk_copy(const struct smemkit_bulk *, int rank, const void *code, const char *file, int line);
void smemkit_bulk_prefetch(const void *from, uint64_t bytes, const char *file, int line);
void smemkit_bulk_commit(void);
void smemkit_bulk_wait(unsigned groups, int read);

/* cp.async.mbarrier.arrive: an arrival when all copies so far of the calling thread are complete. `more`: the
 * phase expects one arrival more. */
void smemkit_async_arrive(void *object, int more, const char *file, int line);

/* PTX's shared window: the 32-bit address of a byte of the block's shared memory, and the reverse. An address that
 * is not in the window gives one that cannot be accessed. */
size_t smemkit_to_shared(const void *address);
void *smemkit_from_shared(size_t address);
int smemkit_is_shared(const void *address);
/* Whether all of these bytes are of the block's shared memory, or of one buffer. */
int smemkit_are_accessible(const void *address, size_t bytes);
/* Whether an address is on the running thread's stack. */
int smemkit_is_local(const void *address);

/* PTX's exit: ends the running thread. */
void smemkit_exit(void) __attribute__((noreturn));

#pragma GCC visibility pop

#ifdef __cplusplus
}
#endif

#endif
