/* Fibers: see fiber.h. */
#define _GNU_SOURCE
#undef _FORTIFY_SOURCE /* its longjmp refuses to go to another stack */

#include "fiber.h"

#include <stdint.h>
#include <string.h>

#ifdef SMEMKIT_ASAN
#include <pthread.h>
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
#else
#define ASAN_LEAVE(from, to)
#define ASAN_ARRIVE()
#endif

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
#endif
    makecontext(&fiber->birth, (void (*)(void))born, 2, (unsigned)((uintptr_t)fiber >> 16 >> 16),
                (unsigned)(uintptr_t)fiber);
}

void fiber_switch(struct fiber *from, struct fiber *to)
{
    from->born = true;
    if (_setjmp(from->registers) == 0) {
        ASAN_LEAVE(from, to);
        if (to->born)
            _longjmp(to->registers, 1);
        setcontext(&to->birth);
    }
    ASAN_ARRIVE();
}

#else

void smemkit_switch(void **save, void *load);
void smemkit_trampoline(void);

#if defined(__x86_64__)

const char *const fiber_kind = "x86-64";

/* Ends in a jump, not a `ret`: the return predictor knows nothing of other stacks and would miss every time. */
__asm__(".text\n"
        ".p2align 4\n"
        ".globl smemkit_switch\n"
        ".hidden smemkit_switch\n"
        ".type smemkit_switch, @function\n"
        "smemkit_switch:\n"
        "    pushq %rbp\n"
        "    pushq %rbx\n"
        "    pushq %r12\n"
        "    pushq %r13\n"
        "    pushq %r14\n"
        "    pushq %r15\n"
        "    movq %rsp, (%rdi)\n"
        "    movq %rsi, %rsp\n"
        "    popq %r15\n"
        "    popq %r14\n"
        "    popq %r13\n"
        "    popq %r12\n"
        "    popq %rbx\n"
        "    popq %rbp\n"
        "    popq %rcx\n"
        "    jmpq *%rcx\n"
        ".size smemkit_switch, . - smemkit_switch\n"
        ".globl smemkit_trampoline\n"
        ".hidden smemkit_trampoline\n"
        ".type smemkit_trampoline, @function\n"
        "smemkit_trampoline:\n" /* r12: entry, r13: argument */
        "    movq %r13, %rdi\n"
        "    xorl %ebp, %ebp\n"
        "    callq *%r12\n"
        "    ud2\n"
        ".size smemkit_trampoline, . - smemkit_trampoline\n");

enum { SAVED_WORDS = 7, ENTRY_WORD = 3, ARGUMENT_WORD = 2, RETURN_WORD = 6 };

#elif defined(__aarch64__)

const char *const fiber_kind = "aarch64";

__asm__(".text\n"
        ".p2align 4\n"
        ".globl smemkit_switch\n"
        ".hidden smemkit_switch\n"
        ".type smemkit_switch, %function\n"
        "smemkit_switch:\n"
        "    sub sp, sp, #160\n"
        "    stp x19, x20, [sp, #0]\n"
        "    stp x21, x22, [sp, #16]\n"
        "    stp x23, x24, [sp, #32]\n"
        "    stp x25, x26, [sp, #48]\n"
        "    stp x27, x28, [sp, #64]\n"
        "    stp x29, x30, [sp, #80]\n"
        "    stp d8, d9, [sp, #96]\n"
        "    stp d10, d11, [sp, #112]\n"
        "    stp d12, d13, [sp, #128]\n"
        "    stp d14, d15, [sp, #144]\n"
        "    mov x9, sp\n"
        "    str x9, [x0]\n"
        "    mov sp, x1\n"
        "    ldp x19, x20, [sp, #0]\n"
        "    ldp x21, x22, [sp, #16]\n"
        "    ldp x23, x24, [sp, #32]\n"
        "    ldp x25, x26, [sp, #48]\n"
        "    ldp x27, x28, [sp, #64]\n"
        "    ldp x29, x30, [sp, #80]\n"
        "    ldp d8, d9, [sp, #96]\n"
        "    ldp d10, d11, [sp, #112]\n"
        "    ldp d12, d13, [sp, #128]\n"
        "    ldp d14, d15, [sp, #144]\n"
        "    add sp, sp, #160\n"
        "    br x30\n"
        ".size smemkit_switch, . - smemkit_switch\n"
        ".globl smemkit_trampoline\n"
        ".hidden smemkit_trampoline\n"
        ".type smemkit_trampoline, %function\n"
        "smemkit_trampoline:\n" /* x19: entry, x20: argument */
        "    mov x0, x20\n"
        "    mov x29, #0\n"
        "    blr x19\n"
        "    brk #0\n"
        ".size smemkit_trampoline, . - smemkit_trampoline\n");

enum { SAVED_WORDS = 20, ENTRY_WORD = 0, ARGUMENT_WORD = 1, RETURN_WORD = 11 };

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
    memcpy(frame, &birth, sizeof birth);
    argument = frame;
    entry = arrive;
#else
    (void)bottom;
#endif
    frame -= SAVED_WORDS + SAVED_WORDS % 2;
    frame += SAVED_WORDS % 2; /* the stack is aligned to 16 bytes once the words are popped */
    memset(frame, 0, SAVED_WORDS * sizeof *frame);
    frame[ENTRY_WORD] = (uintptr_t)entry;
    frame[ARGUMENT_WORD] = (uintptr_t)argument;
    frame[RETURN_WORD] = (uintptr_t)smemkit_trampoline;
    fiber->sp = frame;
}

void fiber_switch(struct fiber *from, struct fiber *to)
{
    ASAN_LEAVE(from, to);
    smemkit_switch(&from->sp, to->sp);
    ASAN_ARRIVE();
}

#endif
