/* The library that a kernel lies in, and the memory that it brings along: its variables. */
#ifndef SMEMKIT_LIBRARY_H
#define SMEMKIT_LIBRARY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct library {
    uintptr_t code; /* in it */
    uintptr_t base, text_start, text_end, data_start, data_end;
    char name[512];
};

/* The library of some code. */
struct library library_find(uintptr_t code);

/* Whether an address is of the library at all, and of its data. */
static inline bool library_holds(const struct library *library, uintptr_t address)
{
    return address - library->text_start < library->text_end - library->text_start;
}

static inline bool library_has_data(const struct library *library, uintptr_t address)
{
    return address - library->data_start < library->data_end - library->data_start;
}

#endif
