/* Times of the calls inside smemkit.timed(). */
#ifndef SMEMKIT_CALL_TIMING_H
#define SMEMKIT_CALL_TIMING_H

#include "python/state.h"

/* The time that smemkit's calls took in this thread since timed() began, in seconds; NULL outside timed(). */
struct timing {
    double upload, kernel, download;
    double uploaded, downloaded; /* the host's time up to which uploads and downloads are counted */
};
struct timing *current_timing(void);

PyObject *core_timed(PyObject *module, PyObject *const *args, Py_ssize_t count);

#endif
