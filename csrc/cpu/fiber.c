/* Fibers: see fiber.h. */
#define _GNU_SOURCE
#undef _FORTIFY_SOURCE /* its longjmp refuses to go to another stack */

#include "fiber.h"

#include <stdint.h>
#include <string.h>

#ifdef SMEMKIT_ASAN
#include <pthread.h>
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>

/* The stack that the operating system gave the running thread: where a fiber that was never prepared lives. */
static void asan_note_own_stack(struct fiber *fiber)
{
    pthread_attr_t attributes;
    void *bottom;

    if (!fiber->stack_bottom && pthread_getattr_np(pthread_self(), &attributes) == 0) {
        pthread_attr_getstack(&attributes, &bottom, &fiber->stack_bytes);
        fiber->stack_bottom = bottom;
        pthread_attr_destroy(&attributes);
    }
}
#define ASAN_LEAVE(from, to)   \
    asan_note_own_stack(from); \
    __sanitizer_start_switch_fiber(NULL, (to)->stack_bottom, (to)->stack_bytes)
#define ASAN_ARRIVE() __sanitizer_finish_switch_fiber(NULL, NULL, NULL)
/* Who used the stack before may have left it from the middle of a function. */
#define ASAN_CLEAN(bottom, bytes) __asan_unpoison_memory_region(bottom, bytes)
#else
#define ASAN_LEAVE(from, to)
#define ASAN_ARRIVE()
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

/* makecontext passes ints only: the fiber's address travels in two halves. */
static void born(unsigned high, unsigned low)
{
    struct fiber *fiber = (struct fiber *)(((uintptr_t)high << 16 << 16) | low);

    ASAN_ARRIVE();
    fiber->entry(fiber->argument);
}

void fiber_prepare(struct fiber *fiber, void *bottom, void *top, void (*entry)(void *), void *argument)
{
    getcontext(&fiber->birth);
    fiber->birth.uc_stack.ss_sp = bottom;
    fiber->birth.uc_stack.ss_size = (size_t)((char *)top - (char *)bottom);
    fiber->birth.uc_link = NULL;
    fiber->born = false;
    fiber->entry = entry;
    fiber->argument = argument;
#ifdef SMEMKIT_ASAN
    fiber->stack_bottom = bottom;
    fiber->stack_bytes = fiber->birth.uc_stack.ss_size;
    ASAN_CLEAN(bottom, fiber->stack_bytes);
#endif
    makecontext(&fiber->birth, (void (*)(void))born, 2, (unsigned)((uintptr_t)fiber >> 16 >> 16),
                (unsigned)(uintptr_t)fiber);
}

void fiber_switch(struct fiber *from, struct fiber *to)
{
    from->born = true;
    from->sp = __builtin_frame_address(0);
    if (_setjmp(from->registers) == 0) {
        ASAN_LEAVE(from, to);
        if (to->born)
            _longjmp(to->registers, 1);
        setcontext(&to->birth);
    }
    ASAN_ARRIVE();
}

#else

/* Where a new fiber begins: its stack holds the argument and the entry. */
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
struct birth {
    void (*entry)(void *);
    void *argument;
};

static void arrive(void *place)
{
    struct birth birth = *(struct birth *)place;

    ASAN_ARRIVE();
    birth.entry(birth.argument);
}
#endif

void fiber_prepare(struct fiber *fiber, void *bottom, void *top, void (*entry)(void *), void *argument)
{
    uintptr_t *frame = (uintptr_t *)((uintptr_t)top & ~(uintptr_t)15) - 4;

#ifdef SMEMKIT_ASAN
    struct birth birth = {entry, argument};

    fiber->stack_bottom = bottom;
    fiber->stack_bytes = (size_t)((char *)top - (char *)bottom);
    ASAN_CLEAN(bottom, fiber->stack_bytes);
    memcpy(frame, &birth, sizeof birth);
    argument = frame;
    entry = arrive;
#else
    (void)bottom;
#endif
    frame -= 2; /* what the trampoline takes */
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
    ASAN_ARRIVE();
}
#endif

#endif
