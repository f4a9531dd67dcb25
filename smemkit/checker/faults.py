"""The faults of a kernel: what each means, and how to fix it."""

from __future__ import annotations

import warnings
from dataclasses import dataclass

from smemkit.checker.edits import NO_FIX, Advice, Fix

__all__ = ["FAULT_TITLES", "Fault", "Index", "between_blocks", "explain", "race_advice"]

FAULT_TITLES = {
    "race": "race",
    "barrier": "barrier divergence",
    "out_of_bounds": "out of bounds",
    "uninitialised": "uninitialised read",
    "misaligned": "misaligned access",
    "shuffle": "undefined shuffle",
    "hang": "endless wait",
    "trap": "trap",
    "leak": "unfinished copy",
}
_CAUSE_TITLES = {
    "exited": "early return before a barrier",
    "warp": "warp divergence",
    "matrix": "warp divergence",
    "named": "named barrier",
    "mbarrier": "mbarrier",
}
Index = tuple[int, int, int]


@dataclass(frozen=True)
class Fault:
    """An error of a kernel.

    Attributes
    ----------
    kind : {"race", "barrier", "out_of_bounds", "uninitialised", "misaligned", "shuffle", "hang", "trap", "leak"}
    line, other_line : int or None
        The source line; for a race, `other_line` is that of the earlier access.
    block : tuple of int
        The block's index.
    threads : tuple of tuple of int
        For a race: this thread, and the other one.
    variable : str
        The variable, such as "tile[3][5]", if it is known.
    message : str
        What happened.
    file, other_file, text
        The files of `line` and `other_line`, and the text of `line`.
    hazard : {"RAW", "WAR", "WAW", "proxy", ""}
        "proxy": the two are ordered, but a fence between proxies is missing: fence.proxy.async, or, for a tensor
        map, fence.proxy.tensormap.
    warp_synchronous : bool
        The threads of a race are of one warp.
    count : int
        How many times it was seen.
    other_block : tuple of int or None
        The other thread's block, if it is not `block`.
    severity : {"error", "warning"}
        "warning" for stores by one instruction of a value that the source proves the same for all threads, which
        do not change results, for "leak", and where the PTX ISA can be read in two ways.
    fix : Fix
        How to fix it: a string, with edits of the source.
    knock_on : tuple of Fault
        Faults that have the same cause: the fix removes them as well.
    cause : str
        Of a barrier fault: "exited" if threads returned before the barrier, "warp" if lanes of a warp's collective
        are missing, "matrix" if those of an instruction for whole warps are, "named" for a named barrier,
        "mbarrier" for an mbarrier object; otherwise "".
    allowed : str or None
        The reason that a comment ``// smemkit: allow(race) reason`` at one of its lines gives for accepting it.
    """

    kind: str
    line: int | None
    other_line: int | None = None
    block: Index = (0, 0, 0)
    threads: tuple[Index, ...] = ()
    variable: str = ""
    message: str = ""
    file: str = ""
    other_file: str = ""
    text: str = ""
    hazard: str = ""
    warp_synchronous: bool = False
    count: int = 1
    other_block: Index | None = None
    severity: str = "error"
    fix: Fix = NO_FIX
    knock_on: tuple[Fault, ...] = ()
    cause: str = ""
    allowed: str | None = None

    def __post_init__(self) -> None:
        if isinstance(self.fix, Advice):
            object.__setattr__(self, "fix", Advice(_advice(self)))

    @property
    def _same_value(self) -> bool:
        """Whether it is a race of stores of the same value."""
        return self.kind == "race" and self.severity == "warning" and self.hazard != "proxy"

    @property
    def title(self) -> str:
        """Its kind in words: "race (RAW, warp-synchronous)"."""
        if self.kind == "barrier" and self.cause in _CAUSE_TITLES:
            return _CAUSE_TITLES[self.cause]
        words = [self.hazard, "warp-synchronous" if self.warp_synchronous else ""]
        words = [word for word in (*words, "same value" if self._same_value else "") if word]
        return FAULT_TITLES.get(self.kind, self.kind) + (f" ({', '.join(words)})" if words else "")

    @property
    def rule(self) -> str:
        """A short name of what it violates: "race-raw", "barrier-early-return", "out-of-bounds"."""
        rules = {"exited": "early-return"} | {name: name for name in ("warp", "matrix", "named", "mbarrier")}
        detail = "same-value" if self._same_value else self.hazard.lower() or rules.get(self.cause, "")
        return "-".join(filter(None, (self.kind.replace("_", "-"), detail)))

    @property
    def location(self) -> str:
        """File and line: "kernel.cu:14"."""
        return self.file if self.line is None else f"{self.file}:{self.line}"

    @property
    def meaning(self) -> str:
        """What such a fault means."""
        return _meaning(self)

    @property
    def place(self) -> str:
        """The former name of `location`."""
        warnings.warn("Fault.place: it is now called location", DeprecationWarning, stacklevel=2)
        return self.location

    @property
    def remedy(self) -> str:
        """The former name of `fix`."""
        warnings.warn("Fault.remedy: it is now called fix", DeprecationWarning, stacklevel=2)
        return str(self.fix)


# ---- meaning and fix ----


def explain(fault: Fault) -> tuple[str, str]:
    """What a fault means, and how to fix it: a sentence each."""
    return _meaning(fault), str(fault.fix)


def _meaning(fault: Fault) -> str:
    if fault.kind == "race":
        of_map = " reads the tensor map in " in fault.message
        key = "same value" if fault._same_value else "proxy of tensor maps" if of_map else fault.hazard
        meaning = _RACE_MEANINGS[key]
        is_copy = "asynchronous copy" in fault.message and fault.hazard != "proxy"
        is_incoherent = "a non-coherent load" in fault.message
        if "griddepcontrol.wait" in fault.message:
            return f"{meaning} {_EARLY_RULE}"
        return _INCOHERENT_RULE if is_incoherent else f"{meaning} {_COPY_RULE}" if is_copy else meaning
    meaning = _FAULT_TEXTS.get(fault.kind, ("", ""))[0]
    return _BARRIER_MEANINGS.get(fault.cause, meaning) if fault.kind == "barrier" else meaning


def _advice(fault: Fault) -> str:
    """How to fix a fault of this kind, if nothing more is known."""
    if fault.kind == "hang" and "of an mbarrier" in fault.message:
        return _MBARRIER_WAIT
    return race_advice(fault) if fault.kind == "race" else _FAULT_TEXTS.get(fault.kind, ("", ""))[1]


_INCOHERENT_RULE = (
    "A non-coherent load goes through a cache that does not see stores: it may read old contents even after a "
    "barrier. What it reads must not be written while the kernel runs (PTX ISA, ld.global.nc)."
)
_COPY_RULE = (
    "The bytes of an asynchronous copy belong to it until its thread has waited for it, and to other threads only "
    "after a barrier or an mbarrier's phase as well (PTX ISA, cp.async.wait_group, cp.async.bulk, "
    "mbarrier.try_wait)."
)
_EARLY_RULE = (
    "A launch with programmatic stream serialisation may begin before the one before it has ended, and sees what "
    "that one has written only after griddepcontrol.wait (PTX ISA, griddepcontrol)."
)
_RACE_MEANINGS = {
    "RAW": "RAW, read after write: nothing makes the reader wait for the writer, so it may get the old value.",
    "WAR": "WAR, write after read: nothing makes the writer wait for the reader, which may get the new value.",
    "WAW": "WAW, write after write: nothing orders the two writes, so either value may stay.",
    "proxy of tensor maps": (
        "A copy reads its tensor map through a proxy of its own, which need not see what threads have stored "
        "through the generic one: the writer must release the map, and a thread of the copy's block acquire it "
        "(PTX ISA, fence.proxy.tensormap)."
    ),
    "proxy": (
        "The hardware that carries out cp.async.bulk and wgmma goes through the async proxy, which need not see "
        "what threads have stored through the generic one, barrier or not, without fence.proxy.async (PTX ISA, "
        "Memory Consistency Model: Proxies)."
    ),
    "": "Nothing orders the two accesses, so the result depends on which thread comes first.",
    "same value": (
        "Several threads store the same value by one instruction: the result is the same whichever "
        "comes last, but CUDA "
        "promises it only for atomics."
    ),
}


def between_blocks(fault: Fault) -> bool:
    """Whether the two threads of a race are of different blocks."""
    return fault.other_block is not None and fault.other_block != fault.block


def race_advice(fault: Fault) -> str:
    """Advice on a race for which no position of a barrier is known."""
    if fault._same_value:
        return "Let one thread store the value (`if (threadIdx.x == 0)`), or accept it."
    if between_blocks(fault):
        return _BETWEEN_BLOCKS[fault.hazard]
    if fault.hazard == "WAW" and fault.line == fault.other_line:
        return (
            "Let one thread write (`if (threadIdx.x == 0)`), give each thread its own element, or use an atomic."
        )
    return (
        "Put __syncthreads() between the two accesses, where every thread of the block reaches it: "
        "outside of branches "
        "and loops that some threads do not enter, or leave early; or use atomics for both."
    )


_BETWEEN_BLOCKS = {
    "proxy": (
        "Release the tensor map after it has been written, fence.proxy.tensormap::generic.release.gpu, and "
        "acquire it in the block of the copy, fence.proxy.tensormap::generic.acquire.gpu [map], 128."
    ),
    "RAW": (
        "No barrier inside a kernel orders blocks: split the kernel into two launches, or publish "
        "with __threadfence() "
        "and an atomic flag or counter, which the other block reads with an atomic before its own "
        "__threadfence(); "
        "volatile orders nothing."
    ),
    "WAR": (
        "Blocks run in any order, and no barrier inside a kernel orders them: write the results to "
        "another array, split "
        "the kernel into two launches, or use atomics for all accesses."
    ),
    "WAW": (
        "Blocks run in any order: give each block its own elements (does the index lack blockIdx?), let one block "
        "write, set initial values before the launch, or use atomics for all."
    ),
}

_BARRIER_MEANINGS = {
    "exited": (
        "The programming guide promises __syncthreads() only if all threads of the block reach it; "
        "this report is strict "
        "about that. GPUs since Volta wait for the threads that have not exited, so that the kernel "
        "runs there; older "
        "ones count warps."
    ),
    "warp": (
        "A collective of a warp waits for the lanes that its mask names: a GPU hangs here, or "
        "returns undefined values."
    ),
    "matrix": (
        "All lanes of a warp must execute an instruction with .aligned together (PTX ISA, mma, ldmatrix, "
        "stmatrix): otherwise its results are undefined."
    ),
    "named": (
        "A named barrier completes when as many threads have arrived as its instruction names: with another "
        "number a GPU hangs, or goes on early."
    ),
    "mbarrier": (
        "An mbarrier must be initialised, and a phase takes as many arrivals as mbarrier.init has named (PTX ISA, "
        "mbarrier.init, mbarrier.arrive): anything else is undefined."
    ),
}

_MBARRIER_WAIT = (
    "Compare the arrivals of a phase with the count of mbarrier.init, and the parity waited for with the phase: "
    "0 in the first, then 1 and 0 in turn. A cuda::pipeline expects a commit of every producer and a release of "
    "every consumer of each stage: all threads of the group are both, unless make_pipeline is told their roles."
)

_FAULT_TEXTS = {
    "barrier": (
        "A barrier waits for every thread of the block; a GPU hangs here, or goes on with half of the data.",
        "Move the barrier out of the branch or loop, so that all threads reach the same one equally often; "
        "replace an early return by a guard around the work.",
    ),
    "out_of_bounds": (
        "The address lies outside the array: a GPU corrupts what is next to it, or ends the program.",
        "Guard the access, `if (i < n)`, with the array's real extent; at the edge of a tile check both indices.",
    ),
    "uninitialised": (
        "Shared memory holds whatever was left there, which may by chance be zeros: the value read is garbage.",
        "Let the threads write every element that is read, halo and tail too, and put __syncthreads() after it.",
    ),
    "misaligned": (
        "A vector access needs an address that is a multiple of its size; a GPU ends the launch with an error.",
        "Start at a multiple of the vector (4 floats for float4) and give rows a multiple of it, or load scalars.",
    ),
    "shuffle": (
        "The source lane provides no value: it is not in the mask, it has exited, or the block does not have it. "
        "On a GPU the reader gets an undefined value, which is harmless only if the program never uses it.",
        "Let all 32 lanes reach the shuffle, those without work with a neutral value (0 for a sum), in blocks of "
        "whole warps; or restrict it to the active lanes: put only them in the mask, and choose the width, or the "
        "first distance of a loop, so that sources stay among them.",
    ),
    "hang": (
        "The launch never ends: it waits for something that does not happen.",
        "Look at what the loop waits for: a flag that no thread sets, a lock that a thread of the same warp "
        "holds, a block that is not resident; read flags with atomics or volatile.",
    ),
    "trap": (
        "The kernel stopped itself: a failed assert, __trap(), or a division by zero.",
        "Look at the values that led to this line; on a GPU the launch ends with an error, without results.",
    ),
    "leak": (
        "No thread can use the bytes of an asynchronous copy before a wait for it (PTX ISA, cp.async.wait_group): "
        "this one is wasted, or a wait is missing.",
        "Put `cp.async.wait_all` (`__pipeline_wait_prior(0)`) before the end of the kernel, for bulk copies a "
        "wait for their mbarrier or `cp.async.bulk.wait_group.read 0`; or do not start copies that the last "
        "iterations do not use.",
    ),
}
