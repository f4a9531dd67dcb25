/* The CPU device's memory: buffers between guard pages, so that a kernel that leaves its buffer faults, or is
 * found out at the end of the launch, instead of spoiling somebody else's data. */
#ifndef SMEMKIT_MEMORY_H
#define SMEMKIT_MEMORY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* `bytes` of memory on a 256-byte boundary, as a GPU gives it; NULL where there is none left. */
void *memory_allocate(size_t bytes);
void memory_release(void *memory);
/* Bytes of the buffers that live, and the most that lived at once. */
void memory_usage(size_t *now, size_t *most);

/* Makes known memory that is somebody else's, so that kernels may use it: it has no guards, and must outlive its
 * loan. One without a loan (NULL) lies in a buffer already. False where there is no memory to write this down. */
bool memory_register(void *start, size_t bytes, void **loan);
void memory_unregister(void *loan);

/* The buffer that `address` lies in or, by less than its guards, beside. False where there is none. */
bool memory_find(const void *address, uintptr_t *start, uintptr_t *end);

/* A hash of some memory, and of all buffers. */
uint64_t memory_hash(const void *start, size_t bytes);
uint64_t memory_hash_of_buffers(void);

/* Where `address` lies: writes "4 bytes past the end of a buffer of 4000 bytes" or the like. */
void memory_describe(const void *address, char *text, size_t length);

/* False, with a description, where bytes next to a live buffer have been overwritten; fixes them. */
bool memory_check_slack(char *text, size_t length);

/* In a forked child, where a thread that held the lock is no more. */
void memory_after_fork(void);

#endif
