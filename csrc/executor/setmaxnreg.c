/* setmaxnreg, which moves registers between the warpgroups of a block. (PTX ISA, "setmaxnreg") */
#include <stdio.h>

#include "schedule.h"
#include "wgmma.h"

enum { LANES = 32 };
enum { REGISTERS = 65536, MAX_REGISTERS = 256 }; /* of a multiprocessor; the most that a thread may ask for */

struct register_change {
    struct smemkit_warp_call call;
    unsigned count;
    bool more;
    const char *file;
    int line;
};

static NOINLINE void change_registers(struct smemkit_warp_call *const lanes[32])
{
    struct worker *w = own_worker();
    const struct register_change *change = (const struct register_change *)lanes[w->current % LANES];
    struct warp_registers *const own = &wgmma_registers(w)[w->current / LANES];
    char what[MESSAGE_BYTES];

    if (own->count && (change->more ? change->count < own->count : change->count > own->count)) {
        snprintf(what, sizeof what, "setmaxnreg.%s to %u registers at %.200s:%d, where the warp has %u",
                 change->more ? "inc" : "dec", change->count, change->file, change->line, own->count);
        worker_fail(w, KIND_TRAP, what, change->file, change->line);
    }
    *own = (struct warp_registers){change->count, own->changes + 1, change->file, change->line};
}

void smemkit_set_registers(unsigned count, int more, const char *file, int line)
{
    struct worker *w = own_worker();
    struct register_change change = {{"setmaxnreg", change_registers}, count, more, file, line};
    char what[MESSAGE_BYTES];

    if (count < 24 || count > MAX_REGISTERS || count % 8) {
        snprintf(what, sizeof what,
                 "setmaxnreg to %u registers at %.200s:%d: a multiple of 8 from 24 to 256 is needed", count, file,
                 line);
        worker_fail(w, KIND_TRAP, what, file, line);
    }
    (void)wgmma_registers(w);
    smemkit_warp_call(&change.call, file, line);
}

/* The registers of a thread at the block's beginning, if the compiler gives it as many as a block that has a
 * multiprocessor for itself can have: the real number, which is ptxas', is no larger. */
static unsigned most_registers(unsigned threads)
{
    const unsigned each = REGISTERS / threads / 8 * 8;

    return each < MAX_REGISTERS ? each : MAX_REGISTERS;
}

/* Reports that warps want more registers than the block has, by what each has at the end: on a GPU the last
 * setmaxnreg.inc waits for ever. Warps that have executed none keep what they began with. */
static void check_registers(struct worker *w, const struct warp_registers *all)
{
    const unsigned own = most_registers(w->count);
    unsigned last = 0, wanted = 0;
    char what[MESSAGE_BYTES];

    for (unsigned warp = 0; warp < w->count / LANES; warp++) {
        const unsigned count = all[warp].count ? all[warp].count : own;

        wanted += count * LANES;
        if (all[warp].count > own)
            last = warp;
    }
    if (wanted <= own * w->count || all[last].count <= own)
        return;
    snprintf(
        what, sizeof what,
        "endless wait at %.200s:%d: setmaxnreg.inc to %u registers waits until the block has them, but its warps "
        "want %u in all, and a block of %u threads has at most %u (%u each)",
        all[last].file, all[last].line, all[last].count, wanted, w->count, own * w->count, own);
    if (w->tracer)
        smemkit_observer->fault(w, KIND_HANG, what, false, all[last].file, all[last].line, NULL, 0);
    else {
        w->fault.error = ERROR_LAUNCH_TIMEOUT;
        snprintf(w->fault.message, MESSAGE_BYTES, "%s", what);
    }
}

void setmaxnreg_finish(struct worker *w, const struct warp_registers *all)
{
    char what[MESSAGE_BYTES];

    check_registers(w, all);
    for (unsigned warp = 0; warp < w->count / LANES; warp++) {
        const unsigned first = warp / GROUP_WARPS * GROUP_WARPS;
        const unsigned ahead = all[warp].changes > all[first].changes ? warp : first;

        if (all[warp].changes == all[first].changes)
            continue;
        snprintf(
            what, sizeof what,
            "warp divergence at %.200s:%d: setmaxnreg needs the four warps of a warpgroup, and warp %u has not "
            "executed it",
            all[ahead].file, all[ahead].line, ahead == warp ? first : warp);
        if (w->tracer)
            smemkit_observer->fault(w, KIND_BARRIER, what, false, all[ahead].file, all[ahead].line, NULL, 0);
        return;
    }
}
