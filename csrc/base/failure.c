/* See failure.h. */
#include "failure.h"

#include <stdarg.h>
#include <stdio.h>

void failure_set(struct failure *failure, enum failure_kind kind, const char *format, ...)
{
    va_list arguments;

    failure->kind = kind;
    va_start(arguments, format);
    vsnprintf(failure->text, sizeof failure->text, format, arguments);
    va_end(arguments);
}
