/* printf for kernels: the text is formatted first and written in one piece, so that lines of different threads do
 * not mix, and a fault during formatting leaves no lock of the C library locked. */
#ifndef SMEMKIT_PRINT_H
#define SMEMKIT_PRINT_H

#include <cstdarg>
#include <unistd.h>

namespace smemkit
{

__attribute__((format(printf, 1, 2))) SMEMKIT_INLINE int print(const char *format, ...)
{
    char text[1024];
    va_list arguments;

    va_start(arguments, format);
    int length = vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    if (length > 0 &&
        write(STDOUT_FILENO, text, (size_t)length < sizeof text ? (size_t)length : sizeof text - 1) < 0)
        length = -1;
    smemkit_tick(1);
    return length;
}

} // namespace smemkit

#define printf smemkit::print

#endif
