/* The driver's interface is the host's; kernels that include it need its version at most. */
#include "cuda_runtime.h"

#ifndef CUDA_VERSION
#define CUDA_VERSION 13000
#endif
