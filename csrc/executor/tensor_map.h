/* Tensor maps, for the copies that use them: see tensor_map.c. */
#ifndef SMEMKIT_EXECUTOR_TENSOR_MAP_H
#define SMEMKIT_EXECUTOR_TENSOR_MAP_H

#include <stddef.h>

#include "ptx.h"

/* Writes what a load reads outside the tensor. */
void tensor_fill(const struct smemkit_tensor *, char *to, size_t bytes);

/* Copies float32 elements as a load of a TF32 map does. */
void tensor_round(char *to, const char *from, size_t bytes);

#endif
