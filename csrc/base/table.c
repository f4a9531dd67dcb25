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

static const unsigned recorded[ROW_COUNT] = {
#define RECORDED(op, name, dtypes) [ROW_##op##_##name] = dtypes,
#include "recorded.def"
#undef RECORDED
};

unsigned kernel_recorded_dtypes(enum kernel_index kernel)
{
    const struct kernel_row *row = &kernel_rows[kernel];
    const bool measured = row->op == OP_matmul || row->op == OP_reduce || row->op == OP_transpose;

    return measured && row->needs != HOST ? recorded[kernel] : row->dtypes;
}

bool kernel_is_recorded(enum kernel_index kernel)
{
    return kernel_recorded_dtypes(kernel) != 0;
}

/* The dtypes in which a production kernel of the op is recorded. */
static unsigned recorded_dtypes_of(enum op op)
{
    unsigned dtypes = 0;

    for (int i = 0; i < ROW_COUNT; i++)
        if (kernel_rows[i].op == op && kernel_rows[i].role == PRODUCTION)
            dtypes |= recorded[i];
    return dtypes;
}

bool kernel_is_eligible(enum kernel_index kernel, unsigned dtypes)
{
    const struct kernel_row *row = &kernel_rows[kernel];
    const unsigned right = kernel_recorded_dtypes(kernel);
    const bool known = recorded_dtypes_of(row->op) & dtypes;

    if (right & dtypes || (row->traits & DEFAULT && (row->role == PRODUCTION || !known)))
        return true;
    return right ? !known : (row->traits & SOLE) != 0;
}

const struct kernel_rename kernel_renames[] = {
    {OP_transpose, "runs", ROW_transpose_segments}, {OP_matmul, "split_k", ROW_matmul_simt}, {0}};

const kernel_launcher *checked_launchers;

const char *const op_names[OP_COUNT] = {"matmul",  "reduce",      "transpose", "reverse",
                                        "add_one", "elementwise", "convert",   "ceiling"};
