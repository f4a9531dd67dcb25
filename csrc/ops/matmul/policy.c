/* The policy of matmul: the kernel, and the number of slices of k, with the least predicted time. */
#include "python/state.h"

#include <string.h>

#include "base/table.h"
#include "call/choice.h"
#include "device/device.h"
#include "kernels.h"
#include "matmul.h"
#include "ops/thresholds.h"
#include "prediction.h"

enum { MAX_VECTORS = 8 }; /* of matvec on the host */

static npy_intp slice_length(npy_intp k, npy_intp slices)
{
    return slices == 1 ? k : divide_up(divide_up(k, slices), SLICE_MULTIPLE) * SLICE_MULTIPLE;
}

/* Whether the policy may choose the candidate. A kernel without ANY_STRIDES takes operands that are in C order;
 * others are converted first, by launches that the predicted time does not have. */
static bool supports(const struct candidate *candidate, const struct device *device, enum dtype dtype,
                     enum precision precision, struct matmul_size size)
{
    const struct kernel_row *row = &kernel_rows[candidate->kernel];

    if (size.from_host && row->traits & RESIDUES)
        return false; /* it would store the residues of b again for each part: 1.3 times as slow at n = 12,288 */
    return is_about(candidate, device, dtype, size) && (!device_is_host(device) || candidate->step_ns > 0) &&
           (!(row->traits & PARTS) || parts_fit(row, size.of_bytes ? INT8 : dtype, size)) &&
           (dtype != FLOAT32 || !(row->traits & TF32) || precision != HIGHEST) &&
           kernel_may_be_chosen(device, candidate->kernel, dtype) &&
           (device_is_host(device) || row->traits & ANY_STRIDES || size.c_order) && size.k >= candidate->min_k &&
           (!candidate->max_k || size.k <= candidate->max_k || !(dtype & (FLOATING | COMPLEX))) &&
           candidate->capability <= device->capability;
}

static struct target target_of(const struct device *device)
{
    struct target target = {.device = device};

    if (!device_is_host(device))
        read_thresholds(&matmul_threshold_table, device, target.limits);
    return target;
}

struct matmul_choice choose_matmul_kernel(const struct device *device, enum dtype dtype, enum precision precision,
                                          struct matmul_size size)
{
    const struct target target = target_of(device);
    struct matmul_choice choice = {.row = NULL};
    const bool on_host = device_is_host(device);
    double least = 0;
    npy_intp slices;

    if ((on_host ? (size.m < size.n ? size.m : size.n) <= MAX_VECTORS : has_one_vector(size)) &&
        kernel_may_be_chosen(device, ROW_matmul_matvec, dtype)) {
        least = best_time(NULL, &target, dtype, size, &slices);
        choice = (struct matmul_choice){&kernel_rows[ROW_matmul_matvec], 0, slice_length(size.k, slices)};
        if (has_one_vector(size) && size.batches == 1 && !on_host)
            return choice; /* the others waste at least 15 of 16 rows or columns */
    }
    for (const struct candidate *candidate = matmul_candidates; candidate->rows; candidate++) {
        double time;

        if (!supports(candidate, device, dtype, precision, size))
            continue;
        time = best_time(candidate, &target, dtype, size, &slices);
        if (choice.row && time >= least)
            continue;
        least = time;
        choice = (struct matmul_choice){
            &kernel_rows[candidate->kernel],
            candidate->kernel == ROW_matmul_tiled ? candidate->rows : 0,
            slice_length(size.k, slices),
        };
    }
    return choice;
}

/* The least predicted time of a kernel's candidates, or -1 if it has none; *slices is the number that gives it. */
static double time_of_kernel(const struct target *target, const struct kernel_row *row, enum dtype dtype,
                             struct matmul_size size, npy_intp *slices)
{
    double least = -1;

    *slices = 1;
    if (row->index == ROW_matmul_matvec && (has_one_vector(size) || device_is_host(target->device)))
        return best_time(NULL, target, dtype, size, slices);
    for (const struct candidate *candidate = matmul_candidates; candidate->rows; candidate++) {
        npy_intp divided;
        double time;

        if (candidate->kernel != row->index || !is_about(candidate, target->device, dtype, size))
            continue;
        time = best_time(candidate, target, dtype, size, &divided);
        if (least < 0 || time < least) {
            least = time;
            *slices = divided;
        }
    }
    return least;
}

npy_intp choose_k_per_slice(const struct device *device, const struct kernel_row *row, enum dtype dtype,
                            struct matmul_size size)
{
    npy_intp slices = 1;

    if (row->traits & SLICES) {
        const struct target target = target_of(device);

        (void)time_of_kernel(&target, row, dtype, size, &slices);
    }
    return slice_length(size.k, slices);
}

npy_intp least_k_of_matmul(const struct kernel_row *row)
{
    for (const struct candidate *candidate = matmul_candidates; candidate->rows; candidate++)
        if (candidate->kernel == row->index)
            return candidate->min_k;
    return 0;
}

double predict_matmul_time(const struct device *device, const int64_t *limits, const struct kernel_row *row,
                           enum dtype dtype, struct matmul_size size)
{
    struct target target = {.device = device};
    npy_intp slices;

    memcpy(target.limits, limits, (size_t)matmul_threshold_table.count * sizeof *limits);
    return time_of_kernel(&target, row, dtype, size, &slices);
}
