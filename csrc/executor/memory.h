/* The CPU device's memory: buffers between guard pages. A kernel that leaves its buffer faults, or is reported at
 * the end of the launch; it cannot corrupt other data. */
#ifndef SMEMKIT_MEMORY_H
#define SMEMKIT_MEMORY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Returns `bytes` of memory, 256-byte aligned like a GPU's, or NULL. */
void *memory_allocate(size_t bytes);
void memory_release(void *memory);
/* A kernel's own malloc and free. What is freed is inaccessible at once, and its addresses are given to no other
 * thread before memory_collect, at the end of the launch. False if no kernel has allocated it, or one has freed
 * it. */
void *memory_allocate_in_kernel(size_t bytes);
bool memory_free_in_kernel(void *memory);
void memory_collect(void);
bool memory_is_freed(const void *address); /* and not yet collected */
/* Bytes of all live buffers: now, and at the peak. */
void memory_usage(size_t *now, size_t *most);

/* Registers memory of another owner, so that kernels may use it: it has no guards, and must live until it is
 * unregistered. *registration is NULL if the memory is part of a buffer. False if out of memory. */
bool memory_register(void *start, size_t bytes, void **registration);
void memory_unregister(void *registration);

/* Finds the buffer whose memory or guards contain `address`. False if there is none. */
bool memory_find(const void *address, uintptr_t *start, uintptr_t *end);

/* Makes the guard pages that hold `bytes` bytes at `address` readable, all ones (NaN, -1), so that a check can
 * continue after a read there. False if they are in no guard, or if there are too many already.
 * memory_restore_guards undoes it for all buffers. */
bool memory_poison_guard(const void *address, size_t bytes);
bool memory_restore_guards(void); /* false if the system refuses */
/* Poisons guard pages that others own: maps the pages, adds them to a list with space for POISONED, and unmaps
 * them. */
enum { POISONED = 64 };
struct poisoned_pages {
    char *page[POISONED];
    unsigned count;
};
bool poison_pages(struct poisoned_pages *, const char *first, const char *last);
bool unpoison_page(char *page);

/* Hashes of a memory range, and of all buffers. */
uint64_t memory_hash(const void *start, size_t bytes);
uint64_t memory_hash_of_buffers(void);

/* Describes `address`: "4 bytes past the end of a buffer of 4000 bytes" or the like. */
void memory_describe(const void *address, char *text, size_t length);

/* False, with a description, if bytes next to a live buffer have been overwritten; restores them. */
bool memory_check_slack(char *text, size_t length);

/* Call it in a forked child process: a thread that held the lock does not exist there. */
void memory_after_fork(void);

#endif
