/* The shared library that contains a kernel: its code and its variables. */
#ifndef SMEMKIT_LIBRARY_H
#define SMEMKIT_LIBRARY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct library {
    uintptr_t code; /* an address in its text */
    uintptr_t base, text_start, text_end, data_start, data_end;
    char name[512];
};

/* Finds the library that contains `code`. */
struct library library_find(uintptr_t code);

/* Whether the library, or its data, contains an address. */
static inline bool library_holds(const struct library *library, uintptr_t address)
{
    return address - library->text_start < library->text_end - library->text_start;
}

static inline bool library_has_data(const struct library *library, uintptr_t address)
{
    return address - library->data_start < library->data_end - library->data_start;
}

#endif
