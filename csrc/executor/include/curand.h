/* cuRAND's host API is for host code; kernels need the device's generators. */
#include <curand_kernel.h>
