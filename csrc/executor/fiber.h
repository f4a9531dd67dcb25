/* Fibers: several flows of control on one operating-system thread, each with its own stack.
 *
 * On x86-64 and aarch64 a switch is a few instructions, inlined where it is needed. They store the stack pointer,
 * the frame pointer and the resume address, and load those of the other fiber; the compiler saves the other
 * registers that are in use. The switch must not be a function, nor end in `ret`: the processor predicts returns
 * from the calls it has seen, and a fiber that is entered by a call and left by a switch would spoil every
 * prediction. Elsewhere (or with SMEMKIT_PORTABLE_FIBERS) ucontext creates a fiber, and _setjmp and _longjmp
 * switch.
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
    void *sp; /* stack pointer at the last switch */
    jmp_buf registers;
    ucontext_t initial;
    bool started;
    void (*entry)(void *);
    void *argument;
#else
    void *sp, *frame, *resume; /* stack pointer, frame pointer, resume address */
#endif
#ifdef SMEMKIT_ASAN
    const void *stack_bottom; /* AddressSanitizer must be told of every stack switch */
    size_t stack_bytes;
#endif
};

#ifndef SMEMKIT_PORTABLE_FIBERS
#if defined(__x86_64__)
#define FIBER_SWITCH(from, to)                                                                               \
    do {                                                                                                     \
        struct fiber *smemkit_from = (from), *smemkit_to = (to);                                             \
        __asm__ volatile("leaq 1f(%%rip), %%rcx\n\t"                                                         \
                         "movq %%rsp, (%0)\n\t"                                                              \
                         "movq %%rbp, 8(%0)\n\t"                                                             \
                         "movq %%rcx, 16(%0)\n\t"                                                            \
                         "movq (%1), %%rsp\n\t"                                                              \
                         "movq 8(%1), %%rbp\n\t"                                                             \
                         "jmpq *16(%1)\n"                                                                    \
                         "1:"                                                                                \
                         : "+a"(smemkit_from), "+d"(smemkit_to)                                              \
                         :                                                                                   \
                         : "rbx", "rcx", "rsi", "rdi", "r8", "r9", "r10", "r11", "r12", "r13", "r14", "r15", \
                           "xmm0", "xmm1", "xmm2", "xmm3", "xmm4", "xmm5", "xmm6", "xmm7", "xmm8", "xmm9",   \
                           "xmm10", "xmm11", "xmm12", "xmm13", "xmm14", "xmm15", "cc", "memory");            \
    } while (0)
#else
#define FIBER_SWITCH(from, to)                                                                                    \
    do {                                                                                                          \
        register struct fiber *smemkit_from __asm__("x0") = (from);                                               \
        register struct fiber *smemkit_to __asm__("x1") = (to);                                                   \
        __asm__ volatile("adr x9, 1f\n\t"                                                                         \
                         "mov x10, sp\n\t"                                                                        \
                         "stp x10, x29, [x0]\n\t"                                                                 \
                         "str x9, [x0, #16]\n\t"                                                                  \
                         "ldp x10, x29, [x1]\n\t"                                                                 \
                         "ldr x9, [x1, #16]\n\t"                                                                  \
                         "mov sp, x10\n\t"                                                                        \
                         "br x9\n"                                                                                \
                         "1:"                                                                                     \
                         : "+r"(smemkit_from), "+r"(smemkit_to)                                                   \
                         :                                                                                        \
                         : "x2", "x3", "x4", "x5", "x6", "x7", "x8", "x9", "x10", "x11", "x12", "x13", "x14",     \
                           "x15", "x16", "x17", "x18", "x19", "x20", "x21", "x22", "x23", "x24", "x25", "x26",    \
                           "x27", "x28", "x30", "v0", "v1", "v2", "v3", "v4", "v5", "v6", "v7", "v8", "v9",       \
                           "v10", "v11", "v12", "v13", "v14", "v15", "v16", "v17", "v18", "v19", "v20", "v21",    \
                           "v22", "v23", "v24", "v25", "v26", "v27", "v28", "v29", "v30", "v31", "cc", "memory"); \
    } while (0)
#endif
#endif

/* "x86-64", "aarch64" or "portable" */
extern const char *const fiber_kind;

/* The first switch to `fiber` will call entry(argument) on the stack [bottom, top). `entry` must never return. */
void fiber_prepare(struct fiber *fiber, void *bottom, void *top, void (*entry)(void *), void *argument);

/* Call it before memory that held stacks is used for something else. */
void fiber_forget_stacks(void *bottom, size_t bytes);

/* Prefetches the top of a fiber's stack: it is likely to run after the next one. */
static inline void fiber_fetch(const struct fiber *fiber)
{
#ifndef SMEMKIT_PORTABLE_FIBERS
    __builtin_prefetch(fiber->sp);
    __builtin_prefetch((char *)fiber->sp + 64);
    __builtin_prefetch((char *)fiber->sp + 128);
#else
    (void)fiber;
#endif
}

/* Switches from `from`, the running fiber, to `to`. Returns when another fiber switches back. */
#if defined(SMEMKIT_PORTABLE_FIBERS) || defined(SMEMKIT_ASAN)
void fiber_switch(struct fiber *from, struct fiber *to);
#else
static inline __attribute__((always_inline)) void fiber_switch(struct fiber *from, struct fiber *to)
{
    FIBER_SWITCH(from, to);
}
#endif

#endif
