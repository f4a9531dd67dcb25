/* The last error of a host thread: see errors.c. */
#ifndef SMEMKIT_ERRORS_H
#define SMEMKIT_ERRORS_H

#include "block.h"

extern SMEMKIT_THREAD_LOCAL char error_message[MESSAGE_BYTES];
extern SMEMKIT_THREAD_LOCAL bool error_ran; /* a launch has run blocks since smemkit_forget */

/* Sets the error and its message. Returns the error. */
int error_refuse(int error, const char *format, ...) __attribute__((format(printf, 2, 3)));

#endif
