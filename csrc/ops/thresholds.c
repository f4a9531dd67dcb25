/* The values of a policy's thresholds on a device. */
#include "thresholds.h"

#include <string.h>

#include "device/recorder.h"

static const struct {
    int capability, multiprocessors;
} fitted_gpus[FITTED_GPUS] = {
#define FITTED_GPU(column, capability, multiprocessors, name) [COLUMN_##column] = {capability, multiprocessors},
#include "fitted_gpus.def"
#undef FITTED_GPU
};

/* The column for a capability: that of the highest one not above it, or the first. */
static int column_of(int capability)
{
    int best = 0;

    for (int i = 1; i < FITTED_GPUS; i++)
        if (fitted_gpus[i].capability <= capability && (fitted_gpus[i].capability > fitted_gpus[best].capability ||
                                                        fitted_gpus[best].capability > capability))
            best = i;
    return best;
}

void read_thresholds(const struct threshold_table *table, const struct device *device, int64_t *values)
{
    const int64_t *given = recorder_thresholds(device, table->op);
    const int wanted = column_of(device->capability);

    if (given) {
        memcpy(values, given, (size_t)table->count * sizeof *values);
        return;
    }
    for (int i = 0; i < table->count; i++) {
        const struct threshold *row = &table->rows[i];
        const int column = row->columns[wanted] ? wanted : 0;
        const int fitted = fitted_gpus[column].multiprocessors;

        values[i] = row->columns[column];
        if (row->scale == GPU && device->multiprocessors != fitted)
            values[i] = values[i] * device->multiprocessors / fitted;
    }
}
