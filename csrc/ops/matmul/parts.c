/* The memory that kernels of matmul with PARTS need for the parts of their operands. */
#include "python/state.h"

#include "base/table.h"
#include "kernels.h"
#include "matmul.h"
#include "python/dtypes.h"

/* What the parts of the operands, and the residues of a batch's result, may take beside them: a fifth of an H100's
 * memory. (The parts of a single a do not count: a few of its rows are multiplied at once, see rows_at_once in
 * matmul.c.) */
static const uint64_t MAX_PARTS_BYTES = (uint64_t)16 << 30;

int parts_per_element(const struct kernel_row *row, enum dtype operands)
{
    if (row->traits & RESIDUES)
        return (MATMUL_MODULI + 1 + (int)sizeof(double)) / 2;
    if (operands != FLOAT32)
        return (dtype_bytes(operands) + 1) / 2;
    return row->traits & TF32 ? 1 + 2 : MATMUL_FLOAT_PARTS;
}

uint64_t bytes_of_parts(const struct kernel_row *row, enum dtype operands, npy_intp matrices, npy_intp sides,
                        npy_intp k)
{
    return row->traits & RESIDUES ? matmul_operand_residues_bytes(matrices, sides, k)
                                  : matmul_parts_bytes(matrices, sides, k, parts_per_element(row, operands));
}

bool parts_fit(const struct kernel_row *row, enum dtype operands, struct matmul_size size)
{
    const bool in_residues = row->traits & RESIDUES;
    uint64_t bytes = bytes_of_parts(row, operands, size.batches, size.n, size.k);

    if (size.batches > 1)
        bytes += bytes_of_parts(row, operands, size.batches, size.m, size.k) +
                 (in_residues ? matmul_c_residues_bytes(size.batches, size.m, size.n) : 0);
    return size.batches <= INT32_MAX / (in_residues ? MATMUL_MODULI : 1) && size.m < MATMUL_MAX_SIDE &&
           size.n < MATMUL_MAX_SIDE && size.k < MATMUL_MAX_SIDE && bytes <= MAX_PARTS_BYTES;
}
