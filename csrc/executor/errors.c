/* The last error of each host thread, and launches that fail for tests. */
#define _GNU_SOURCE
#include "errors.h"

#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>

static SMEMKIT_THREAD_LOCAL int last_error;
SMEMKIT_THREAD_LOCAL char error_message[MESSAGE_BYTES];
SMEMKIT_THREAD_LOCAL bool error_ran;

int smemkit_last_error(int clear)
{
    int error = last_error;

    if (clear)
        last_error = ERROR_NONE;
    return error;
}

int smemkit_set_error(int error)
{
    if (error)
        last_error = error;
    return error;
}

void smemkit_forget(void)
{
    last_error = ERROR_NONE;
    error_message[0] = '\0';
    error_ran = false;
}

int smemkit_ran(void)
{
    return error_ran;
}

const char *smemkit_last_message(void)
{
    return error_message;
}

int error_refuse(int error, const char *format, ...)
{
    va_list arguments;

    va_start(arguments, format);
    vsnprintf(error_message, sizeof error_message, format, arguments);
    va_end(arguments);
    return smemkit_set_error(error);
}

/* For tests: countdown to the launch that fails (0: none), and the signal that it raises. */
static atomic_long fail_countdown;
static atomic_int fail_signal;

long smemkit_fail_launch(long countdown, int signal)
{
    const long before = atomic_exchange(&fail_countdown, countdown);

    atomic_store(&fail_signal, signal);
    return before > 0 ? before : 0;
}

int smemkit_launch_failure(const char *kernel)
{
    const int number = atomic_load(&fail_signal);

    if (atomic_load(&fail_countdown) <= 0 || atomic_fetch_sub(&fail_countdown, 1) != 1)
        return ERROR_NONE;
    if (!number)
        return error_refuse(ERROR_LAUNCH_FAILURE, "the launch of kernel %s fails, for a test", kernel);
    (void)raise(number);
    return smemkit_interrupted && smemkit_interrupted() ? error_refuse(ERROR_UNKNOWN, "interrupted") : ERROR_NONE;
}
