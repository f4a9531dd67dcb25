/* The times of the calls inside smemkit.timed(). */
#ifndef SMEMKIT_CALL_TIMING_H
#define SMEMKIT_CALL_TIMING_H

/* The seconds that smemkit's calls took in this thread since timed() began. */
struct timing {
    double upload, kernel, download;
    double uploaded, downloaded; /* the host's time up to which uploads and downloads are counted */
};

#endif
