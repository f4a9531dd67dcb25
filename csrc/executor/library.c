/* See library.h. */
#define _GNU_SOURCE
#include "library.h"

#include <link.h>
#include <stdio.h>

static int match_library(struct dl_phdr_info *info, size_t size, void *argument)
{
    struct library *library = argument;
    uintptr_t low = UINTPTR_MAX, high = 0;

    (void)size;
    for (int i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *part = &info->dlpi_phdr[i];

        if (part->p_type == PT_LOAD) {
            const uintptr_t start = info->dlpi_addr + part->p_vaddr, end = start + part->p_memsz;

            low = start < low ? start : low;
            high = end > high ? end : high;
        }
    }
    if (library->code - low >= high - low)
        return 0;
    library->base = info->dlpi_addr;
    library->text_start = low;
    library->text_end = high;
    for (int i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *part = &info->dlpi_phdr[i];

        if (part->p_type == PT_LOAD && part->p_flags & PF_W) {
            library->data_start = info->dlpi_addr + part->p_vaddr;
            library->data_end = library->data_start + part->p_memsz;
        }
    }
    snprintf(library->name, sizeof library->name, "%s", info->dlpi_name);
    return 1;
}

struct library library_find(uintptr_t code)
{
    struct library library = {.code = code};

    dl_iterate_phdr(match_library, &library);
    return library;
}
