/* Fibers: several flows of control on one operating-system thread, each with a stack of its own.
 *
 * A switch stores the callee-saved registers on the old stack and takes them from the new one: some 2 ns in
 * assembly on x86-64 and aarch64. Elsewhere (or with SMEMKIT_PORTABLE_FIBERS) a fiber is born in ucontext
 * and switched with _setjmp and _longjmp.
 */
#ifndef SMEMKIT_FIBER_H
#define SMEMKIT_FIBER_H

#include <stdbool.h>
#include <stddef.h>

#if !defined(__x86_64__) && !defined(__aarch64__) && !defined(SMEMKIT_PORTABLE_FIBERS)
#define SMEMKIT_PORTABLE_FIBERS 1
#endif

#if defined(__SANITIZE_ADDRESS__)
#define SMEMKIT_ASAN 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define SMEMKIT_ASAN 1
#endif
#endif

#ifdef SMEMKIT_PORTABLE_FIBERS
#include <setjmp.h>
#include <ucontext.h>
#endif

struct fiber {
#ifdef SMEMKIT_PORTABLE_FIBERS
    jmp_buf registers;
    ucontext_t birth;
    bool born;
    void (*entry)(void *);
    void *argument;
#else
    void *sp; /* the saved registers lie above it */
#endif
#ifdef SMEMKIT_ASAN
    const void *stack_bottom; /* AddressSanitizer must be told of every change of stack */
    size_t stack_bytes;
#endif
};

/* "x86-64", "aarch64" or "portable" */
extern const char *const fiber_kind;

/* Makes `fiber` start with entry(argument) on the stack [bottom, top) at the first switch to it. `entry`
 * must never return. */
void fiber_prepare(struct fiber *fiber, void *bottom, void *top, void (*entry)(void *), void *argument);

/* Leaves `from`, which must be the running fiber, and goes on in `to`. Returns when somebody switches back. */
void fiber_switch(struct fiber *from, struct fiber *to);

#endif
