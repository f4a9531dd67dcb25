/* The functions that -fsanitize=thread, -fsanitize=bounds and -fsanitize-coverage call in a checked build
 * of a kernel. They are compiled once, optimised, and linked into every checked library with hidden visibility, so
 * that they neither replace nor use a sanitizer's own run-time library.
 */
#include <string.h>

#include "executor/executor.h"
#include "trace.h"

#define HIDDEN __attribute__((visibility("hidden")))
#define INLINE static inline __attribute__((always_inline))
#define CALLER __builtin_return_address(0)

/* The tracer of the block that runs on this stack. NULL on a host stack: host code in the library is instrumented
 * too. */
INLINE struct tracer *own_tracer(void)
{
    const uintptr_t here = (uintptr_t)__builtin_frame_address(0);

    if (here - (uintptr_t)smemkit_stacks >= STACKS_BYTES)
        return NULL;
    return ((const struct stack_region *)(here & ~(STACK_REGION - 1)))->tracer;
}

INLINE void visit(const void *code, unsigned kind)
{
    struct tracer *t = own_tracer();

    if (t)
        log_item(t, item_of(t, code, kind));
}

INLINE void log_access(struct tracer *t, uintptr_t address, uint64_t space, unsigned bytes, enum access_kind kind,
                       const void *code)
{
    *t->address++ = tag_address(address, space, bytes, kind);
    log_item(t, item_of(t, code, ITEM_ACCESS));
}

/* Slow path: an access outside the recently used arrays, a misaligned access, or one before which other threads
 * may run. */
static __attribute__((noinline)) void touch_other(struct tracer *t, uintptr_t address, unsigned bytes,
                                                  enum access_kind kind, const void *code)
{
    const uint64_t space = smemkit_trace_slow_access(t, address, bytes, kind, item_of(t, code, ITEM_ACCESS));

    if (space == SPACE_UNKNOWN)
        return;
    log_access(t, address, space, bytes, kind, code);
    if (t->yield)
        smemkit_trace_yield(t);
}

INLINE bool is_local(uintptr_t address)
{
    return address - (uintptr_t)smemkit_stacks < STACKS_BYTES;
}

/* An access to a thread's locals */
INLINE void touch_local(struct tracer *t, uintptr_t address, unsigned bytes, enum access_kind kind,
                        const void *code)
{
    if (__builtin_expect(t->locals_used, 0))
        smemkit_trace_local(t, address, bytes, kind, item_of(t, code, ITEM_ACCESS));
}

/* `bytes` is a power of two up to 16 */
INLINE void touch(const volatile void *memory, unsigned bytes, enum access_kind kind, const void *code)
{
    const uintptr_t address = (uintptr_t)memory;
    const struct span *span;
    struct tracer *t;

    t = own_tracer();
    if (!t)
        return;
    if (is_local(address)) {
        if (!t->locals_by_coverage)
            touch_local(t, address, bytes, kind, code);
        return;
    }
    span = t->spans;
    for (int i = 1; i < SPANS && address - span->start >= span->bytes; i++)
        span++;
    if (span == t->spans && address - span->start < span->bytes)
        span = &t->statics[(address - span->start) >> t->static_shift];
    if (__builtin_expect(bytes > 1 && address - span->start < span->bytes &&
                             span->bytes - (address - span->start) >= bytes && !(address & (bytes - 1)) &&
                             !t->yield,
                         1))
        log_access(t, address, span->space, bytes, kind, code);
    else
        touch_other(t, address, bytes, kind, code);
}

/* Splits a range into the largest aligned power-of-two accesses. */
static void touch_range(const volatile void *memory, size_t bytes, enum access_kind kind, const void *code)
{
    struct tracer *const t = own_tracer();
    const volatile char *at = memory;

    while (t && bytes) {
        unsigned piece = 16;

        while (piece > bytes || ((uintptr_t)at & (piece - 1)))
            piece >>= 1;
        if (is_local((uintptr_t)at))
            touch_local(t, (uintptr_t)at, piece, kind, code);
        else
            touch(at, piece, kind, code);
        at += piece;
        bytes -= piece;
    }
}

/* clang's -fsanitize=thread leaves out elements of local arrays. Its -fsanitize-coverage=trace-loads,trace-stores
 * has all accesses: those of locals are taken from there, the others from the thread sanitizer's hooks. */
INLINE void touch_covered(const void *memory, unsigned bytes, enum access_kind kind, const void *code)
{
    struct tracer *const t = own_tracer();

    if (!t || !is_local((uintptr_t)memory))
        return;
    t->locals_by_coverage = true;
    touch_local(t, (uintptr_t)memory, bytes, kind, code);
}

#define HOOKS(bytes)                                             \
    HIDDEN void __tsan_read##bytes(void *memory)                 \
    {                                                            \
        touch(memory, bytes, ACCESS_LOAD, CALLER);               \
    }                                                            \
    HIDDEN void __tsan_write##bytes(void *memory)                \
    {                                                            \
        touch(memory, bytes, ACCESS_STORE, CALLER);              \
    }                                                            \
    HIDDEN void __tsan_unaligned_read##bytes(void *memory)       \
    {                                                            \
        touch(memory, bytes, ACCESS_LOAD, CALLER);               \
    }                                                            \
    HIDDEN void __tsan_unaligned_write##bytes(void *memory)      \
    {                                                            \
        touch(memory, bytes, ACCESS_STORE, CALLER);              \
    }                                                            \
    HIDDEN void __tsan_volatile_read##bytes(void *memory)        \
    {                                                            \
        touch(memory, bytes, ACCESS_LOAD, CALLER);               \
    }                                                            \
    HIDDEN void __tsan_volatile_write##bytes(void *memory)       \
    {                                                            \
        touch(memory, bytes, ACCESS_STORE, CALLER);              \
    }                                                            \
    HIDDEN void __tsan_read_write##bytes(void *memory)           \
    {                                                            \
        touch(memory, bytes, ACCESS_LOAD, CALLER);               \
        touch(memory, bytes, ACCESS_STORE, CALLER);              \
    }                                                            \
    HIDDEN void __tsan_unaligned_read_write##bytes(void *memory) \
    {                                                            \
        touch(memory, bytes, ACCESS_LOAD, CALLER);               \
        touch(memory, bytes, ACCESS_STORE, CALLER);              \
    }                                                            \
    HIDDEN void __sanitizer_cov_load##bytes(void *memory)        \
    {                                                            \
        touch_covered(memory, bytes, ACCESS_LOAD, CALLER);       \
    }                                                            \
    HIDDEN void __sanitizer_cov_store##bytes(void *memory)       \
    {                                                            \
        touch_covered(memory, bytes, ACCESS_STORE, CALLER);      \
    }

HOOKS(1)
HOOKS(2)
HOOKS(4)
HOOKS(8)
HOOKS(16)

HIDDEN void __tsan_read_range(void *memory, size_t bytes)
{
    touch_range(memory, bytes, ACCESS_LOAD, CALLER);
}

HIDDEN void __tsan_write_range(void *memory, size_t bytes)
{
    touch_range(memory, bytes, ACCESS_STORE, CALLER);
}

HIDDEN void __tsan_init(void)
{
}

HIDDEN void __tsan_func_entry(void *code)
{
    visit(code, ITEM_ENTER); /* code: the call site */
}

HIDDEN void __tsan_func_exit(void)
{
    visit(CALLER, ITEM_LEAVE);
}

HIDDEN void __tsan_vptr_update(void **memory, void *value)
{
    (void)value;
    touch(memory, sizeof *memory, ACCESS_STORE, CALLER);
}

HIDDEN void __tsan_vptr_read(void **memory)
{
    touch(memory, sizeof *memory, ACCESS_LOAD, CALLER);
}

HIDDEN void __sanitizer_cov_trace_pc(void)
{
    visit(CALLER, ITEM_BLOCK);
}

static inline void *move(void *to, const void *from, size_t bytes, const void *code)
{
    touch_range(from, bytes, ACCESS_LOAD, code);
    touch_range(to, bytes, ACCESS_STORE, code);
    return smemkit_trace_move(to, from, bytes);
}

static inline void *fill(void *to, int byte, size_t bytes, const void *code)
{
    touch_range(to, bytes, ACCESS_STORE, code);
    return smemkit_trace_fill(to, byte, bytes);
}

/* clang copies structs with these, so they are accesses of the kernel. They must not call memcpy, which would be a
 * call of themselves. */
HIDDEN void *memmove(void *to, const void *from, size_t bytes)
{
    return move(to, from, bytes, CALLER);
}

HIDDEN void *memcpy(void *restrict to, const void *restrict from, size_t bytes)
{
    return move(to, from, bytes, CALLER);
}

HIDDEN void *memset(void *to, int byte, size_t bytes)
{
    return fill(to, byte, bytes, CALLER);
}

/* clang 16 and later call these instead. */
HIDDEN void *__tsan_memmove(void *to, const void *from, size_t bytes)
{
    return move(to, from, bytes, CALLER);
}

HIDDEN void *__tsan_memcpy(void *to, const void *from, size_t bytes)
{
    return move(to, from, bytes, CALLER);
}

HIDDEN void *__tsan_memset(void *to, int byte, size_t bytes)
{
    return fill(to, byte, bytes, CALLER);
}

/* Called for an index past an array whose size the compiler knows. The argument's layout is the sanitizer's. */
struct bounds {
    const char *file;
    uint32_t line, column;
    const struct {
        uint16_t kind, info;
        char name[];
    } * array, *index;
};

HIDDEN void __ubsan_handle_out_of_bounds(const struct bounds *bounds, uintptr_t index)
{
    struct tracer *t = own_tracer();

    if (t)
        smemkit_trace_bounds(t, bounds->file, (int)bounds->line, bounds->array->name, (int64_t)index);
}

/* Called at the end of a function that has no return statement. */
struct position {
    const char *file;
    uint32_t line, column;
};

HIDDEN void __ubsan_handle_missing_return(const struct position *position)
{
    smemkit_trap("the end of a function without its return", position->file, (int)position->line);
}
