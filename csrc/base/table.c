/* The kernel table: kernels/kernels.def as an array. */
#include "table.h"

#define CPU       true
#define NO_CPU    false
#define LIST(...) ((const int[]){__VA_ARGS__, -1})
#define NONE      ((const int[]){-1})

#define KERNEL(op_, name_, order_, needs_, cpu_, dtypes_, sizes_, pads_, role_, traits_, summary_) \
    {.op = OP_##op_,                                                                               \
     .name = #name_,                                                                               \
     .order = order_,                                                                              \
     .needs = needs_,                                                                              \
     .cpu = cpu_,                                                                                  \
     .role = role_,                                                                                \
     .traits = traits_,                                                                            \
     .dtypes = dtypes_,                                                                            \
     .sizes = sizes_,                                                                              \
     .pads = pads_,                                                                                \
     .summary = summary_,                                                                          \
     .index = ROW_##op_##_##name_},
const struct kernel_row kernel_rows[ROW_COUNT] = {
#include "kernels.def"
};

static const bool recorded[ROW_COUNT] = {
#define RECORDED(op, name) [ROW_##op##_##name] = true,
#include "recorded.def"
#undef RECORDED
};

bool kernel_is_recorded(enum kernel_index kernel)
{
    const struct kernel_row *row = &kernel_rows[kernel];
    const bool measured = row->op == OP_matmul || row->op == OP_reduce || row->op == OP_transpose;

    return recorded[kernel] || !measured || row->needs == HOST;
}

const struct kernel_rename kernel_renames[] = {
    {OP_transpose, "runs", ROW_transpose_segments}, {OP_matmul, "split_k", ROW_matmul_simt}, {0}};

const kernel_launcher *checked_launchers;

const char *const op_names[OP_COUNT] = {"matmul", "reduce",  "transpose", "reverse", "add_one",
                                        "add",    "compare", "convert",   "ceiling"};
