"""The advice on a misused barrier, for each message of the executor."""

__all__ = ["CAUSE_TEXTS", "MISUSE_TEXTS", "MOVE_TEXT"]

MOVE_TEXT = (
    "Move the barrier out of the branch or loop, so that all threads reach the same one equally "
    "often; let all threads "
    "run the loop as often, and guard the work inside it."
)
MISUSE_TEXTS = {  # by what the executor says of a named barrier or an mbarrier
    "not a multiple of 32": (
        "Give bar.sync a number of threads in whole warps: the hardware counts warps, 32 threads for each. A "
        "group smaller than a warp needs __syncwarp(mask) instead."
    ),
    "of a block that has": (
        "Give bar.sync the number of threads that arrive at it, which the block must have: launch more threads, "
        "or compute the number from blockDim."
    ),
    "(a block has 0 to 15)": "Number named barriers 1 to 15; barrier 0 is that of __syncthreads().",
    "but for": (
        "Let all threads that use one barrier name the same number of threads; a group that waits on its own "
        "needs a barrier of its own, with another number from 1 to 15."
    ),
    "nothing orders it after all arrivals": (
        "Give each group of threads that waits on its own a named barrier of its own, with a number from 1 to 15 "
        "(barrier 0 is that of __syncthreads()); or let all meet between the two phases, with __syncthreads()."
    ),
    "while others wait at it for": (
        "Barrier 0 is that of __syncthreads(), which waits for the whole block: give a group of warps a number "
        "from 1 to 15."
    ),
    "a second arrival at barrier": (
        "Let a thread wait for the phase, with bar.sync, before it arrives again; or let it arrive at two "
        "barriers in turn."
    ),
    "without mbarrier.inval in between": (
        "Let one thread initialise the mbarrier, once. To initialise it again, let one thread run mbarrier.inval "
        "first, after a barrier that all threads pass after their last wait."
    ),
    "has invalidated at": (
        "Run mbarrier.inval after the last use of the mbarrier, and after a barrier that all its threads pass; or "
        "initialise it again before this use, followed by __syncthreads()."
    ),
    "has destroyed": (
        "Destroy the cuda::barrier after its last use, and after a barrier that all its threads pass; or call "
        "init again before this use, followed by __syncthreads()."
    ),
    "has been overwritten": (
        "Give the mbarrier memory of its own; or let one thread run mbarrier.inval, then __syncthreads(), before "
        "its memory is used for data."
    ),
}
CAUSE_TEXTS = {
    "named": (
        "Give the named barrier the number of threads that arrive at it, in whole warps: all that call bar.sync "
        "and bar.arrive for it; and use another barrier number for each group that waits on its own."
    ),
    "mbarrier": (
        "Let one thread initialise the mbarrier with the number of threads that arrive in a phase, then "
        "__syncthreads(); let each of them arrive once, and wait before it arrives again."
    ),
    "matrix": (
        "Let all 32 lanes of the warp reach the instruction: move it out of the branch, give idle lanes zeros, "
        "and return only after it; launch whole warps."
    ),
}
