/* Fibers: see fiber.h. */
#define _GNU_SOURCE
#undef _FORTIFY_SOURCE /* its longjmp refuses to switch stacks */

#include "fiber.h"

#include <stdint.h>
#include <string.h>

#ifdef SMEMKIT_ASAN
#include <pthread.h>
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>

/* Finds the operating-system thread's own stack, for a fiber that was never prepared. */
static void asan_find_thread_stack(struct fiber *fiber)
{
    pthread_attr_t attributes;
    void *bottom;

    if (!fiber->stack_bottom && pthread_getattr_np(pthread_self(), &attributes) == 0) {
        pthread_attr_getstack(&attributes, &bottom, &fiber->stack_bytes);
        fiber->stack_bottom = bottom;
        pthread_attr_destroy(&attributes);
    }
}
#define ASAN_LEAVE(from, to)      \
    asan_find_thread_stack(from); \
    __sanitizer_start_switch_fiber(NULL, (to)->stack_bottom, (to)->stack_bytes)
#define ASAN_ENTER() __sanitizer_finish_switch_fiber(NULL, NULL, NULL)
/* The last user of the stack may have left it in the middle of a function. */
#define ASAN_CLEAN(bottom, bytes) __asan_unpoison_memory_region(bottom, bytes)
#else
#define ASAN_LEAVE(from, to)
#define ASAN_ENTER()
#define ASAN_CLEAN(bottom, bytes)
#endif

void fiber_forget_stacks(void *bottom, size_t bytes)
{
    (void)bottom;
    (void)bytes;
    ASAN_CLEAN(bottom, bytes);
}

#ifdef SMEMKIT_PORTABLE_FIBERS

const char *const fiber_kind = "portable";

/* makecontext passes only ints, so the fiber's address is split into two halves. */
static void start_fiber(unsigned high, unsigned low)
{
    struct fiber *fiber = (struct fiber *)(((uintptr_t)high << 16 << 16) | low);

    ASAN_ENTER();
    fiber->entry(fiber->argument);
}

void fiber_prepare(struct fiber *fiber, void *bottom, void *top, void (*entry)(void *), void *argument)
{
    getcontext(&fiber->initial);
    fiber->initial.uc_stack.ss_sp = bottom;
    fiber->initial.uc_stack.ss_size = (size_t)((char *)top - (char *)bottom);
    fiber->initial.uc_link = NULL;
    fiber->started = false;
    fiber->entry = entry;
    fiber->argument = argument;
#ifdef SMEMKIT_ASAN
    fiber->stack_bottom = bottom;
    fiber->stack_bytes = fiber->initial.uc_stack.ss_size;
    ASAN_CLEAN(bottom, fiber->stack_bytes);
#endif
    makecontext(&fiber->initial, (void (*)(void))start_fiber, 2, (unsigned)((uintptr_t)fiber >> 16 >> 16),
                (unsigned)(uintptr_t)fiber);
}

void fiber_switch(struct fiber *from, struct fiber *to)
{
    from->started = true;
    from->sp = __builtin_frame_address(0);
    if (_setjmp(from->registers) == 0) {
        ASAN_LEAVE(from, to);
        if (to->started)
            _longjmp(to->registers, 1);
        setcontext(&to->initial);
    }
    ASAN_ENTER();
}

#else

/* Entry point of a new fiber: its stack holds the argument and the entry function. */
void smemkit_trampoline(void);

#if defined(__x86_64__)

const char *const fiber_kind = "x86-64";

__asm__(".text\n"
        ".p2align 4\n"
        ".hidden smemkit_trampoline\n"
        ".globl smemkit_trampoline\n"
        ".type smemkit_trampoline, @function\n"
        "smemkit_trampoline:\n"
        "    popq %rdi\n"
        "    popq %rax\n"
        "    callq *%rax\n"
        "    ud2\n"
        ".size smemkit_trampoline, . - smemkit_trampoline\n");

#else

const char *const fiber_kind = "aarch64";

__asm__(".text\n"
        ".p2align 4\n"
        ".hidden smemkit_trampoline\n"
        ".globl smemkit_trampoline\n"
        ".type smemkit_trampoline, %function\n"
        "smemkit_trampoline:\n"
        "    ldp x0, x9, [sp], #16\n"
        "    blr x9\n"
        "    brk #0\n"
        ".size smemkit_trampoline, . - smemkit_trampoline\n");

#endif

#ifdef SMEMKIT_ASAN
struct fiber_start {
    void (*entry)(void *);
    void *argument;
};

static void start_with_asan(void *stack)
{
    struct fiber_start start = *(struct fiber_start *)stack;

    ASAN_ENTER();
    start.entry(start.argument);
}
#endif

void fiber_prepare(struct fiber *fiber, void *bottom, void *top, void (*entry)(void *), void *argument)
{
    uintptr_t *frame = (uintptr_t *)((uintptr_t)top & ~(uintptr_t)15) - 4;

#ifdef SMEMKIT_ASAN
    struct fiber_start start = {entry, argument};

    fiber->stack_bottom = bottom;
    fiber->stack_bytes = (size_t)((char *)top - (char *)bottom);
    ASAN_CLEAN(bottom, fiber->stack_bytes);
    memcpy(frame, &start, sizeof start);
    argument = frame;
    entry = start_with_asan;
#else
    (void)bottom;
#endif
    frame -= 2; /* popped by the trampoline */
    frame[0] = (uintptr_t)argument;
    frame[1] = (uintptr_t)entry;
    fiber->frame = NULL;
    fiber->resume = (void *)smemkit_trampoline;
    fiber->sp = frame;
}

#ifdef SMEMKIT_ASAN
void fiber_switch(struct fiber *from, struct fiber *to)
{
    ASAN_LEAVE(from, to);
    FIBER_SWITCH(from, to);
    ASAN_ENTER();
}
#endif

#endif
