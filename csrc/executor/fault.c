/* Faults of kernels: a wild address, an integer division by zero, a stack overflow, an endless loop.
 *
 * This signal handler is installed while launches run. On a worker inside a block it records the fault and
 * switches to the worker's own fiber, which abandons the block. Other signals are forwarded to the previous
 * handler (Python's faulthandler, a debugger, the default).
 */
#define _GNU_SOURCE
#include "block.h"

#include <signal.h>
#include <string.h>
#include <unistd.h>
#if defined(__x86_64__) || defined(__aarch64__)
#include <ucontext.h>
#endif

static const int signals[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP};
enum { SIGNALS = sizeof signals / sizeof signals[0] };

/* Signal handlers belong to the process. These are the previous ones, during a launch. One launch at a time has
 * the pool, and changes them under the pool's lock. */
static struct sigaction previous[SIGNALS];
static bool installed;

static bool is_store(int signal, void *context)
{
#if defined(__x86_64__) && defined(REG_ERR)
    return signal == SIGSEGV && ((ucontext_t *)context)->uc_mcontext.gregs[REG_ERR] & 2;
#else
    (void)signal;
    (void)context;
    return false;
#endif
}

static const void *code_of(void *context)
{
#if defined(__x86_64__) && defined(REG_RIP)
    return (const void *)((ucontext_t *)context)->uc_mcontext.gregs[REG_RIP];
#elif defined(__aarch64__) && defined(__linux__)
    return (const void *)((ucontext_t *)context)->uc_mcontext.pc;
#else
    (void)context;
    return NULL;
#endif
}

static void forward_signal(int number, siginfo_t *info, void *context)
{
    for (int i = 0; i < SIGNALS; i++) {
        if (signals[i] != number)
            continue;
        if (previous[i].sa_flags & SA_SIGINFO) {
            previous[i].sa_sigaction(number, info, context);
        } else if (previous[i].sa_handler == SIG_DFL) {
            signal(number, SIG_DFL); /* the instruction is retried and faults again */
            if (info->si_code <= 0)  /* but a signal that was sent is not */
                raise(number);
        } else if (previous[i].sa_handler != SIG_IGN) {
            previous[i].sa_handler(number);
        }
    }
}

/* Whether a worker may be taken out of its block: where it runs the kernel, which holds no lock, but not in the
 * executor, the checker or the C library. It is interrupted again soon. */
static bool may_interrupt(const struct worker *w, void *context)
{
    const void *code = code_of(context);
    const struct worker *host = w->host ? w->host : w;
    const struct library *kernel = atomic_load(&host->interruptible);

    return !code || !kernel || library_holds(kernel, (uintptr_t)code);
}

static void on_signal(int number, siginfo_t *info, void *context)
{
    struct worker *w = smemkit_worker;
    bool interrupting = w && number == SIGSEGV && info->si_code == SI_TKILL && info->si_pid == getpid();

    if (interrupting && !may_interrupt(w, context))
        return;
    if (w && atomic_load(&w->in_block)) {
        if (!interrupting) {
            w->fault_signal = number;
            w->fault_address = info->si_addr;
            w->fault_code = code_of(context);
            w->fault_address_known = info->si_code == SEGV_MAPERR || info->si_code == SEGV_ACCERR;
            w->fault_is_store = is_store(number, context);
        }
        worker_leave(w);
    }
    if (!interrupting) /* an interrupting signal that arrives too late is ignored */
        forward_signal(number, info, context);
}

void fault_handler_install(void)
{
    struct sigaction ours;

    memset(&ours, 0, sizeof ours);
    ours.sa_sigaction = on_signal;
    ours.sa_flags = SA_SIGINFO | SA_ONSTACK | SA_NODEFER; /* the handler does not return: block no signal */
    for (int i = 0; i < SIGNALS; i++)
        sigaction(signals[i], &ours, &previous[i]);
    installed = true;
}

/* Restores the previous handlers, except where another handler has been set meanwhile. */
void fault_handler_remove(void)
{
    struct sigaction current;

    for (int i = 0; i < SIGNALS; i++)
        if (sigaction(signals[i], NULL, &current) == 0 && current.sa_flags & SA_SIGINFO &&
            current.sa_sigaction == on_signal)
            sigaction(signals[i], &previous[i], NULL);
    installed = false;
}

void fault_after_fork(void)
{
    if (installed)
        fault_handler_remove();
}

void fault_handler_kick(struct worker *w, const struct library *kernel)
{
    atomic_store(&w->interruptible, kernel);
    if (atomic_load(&w->in_block))
        pthread_kill(w->thread, SIGSEGV);
}
