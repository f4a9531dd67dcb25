"""The faults of a kernel: what each means, and how to fix it."""

from __future__ import annotations

import warnings
from dataclasses import dataclass

__all__ = ["FAULT_TITLES", "Fault", "Index", "between_blocks", "explain"]

FAULT_TITLES = {
    "race": "race",
    "barrier": "barrier divergence",
    "out_of_bounds": "out of bounds",
    "uninitialised": "uninitialised read",
    "misaligned": "misaligned access",
    "shuffle": "undefined shuffle",
    "hang": "endless wait",
    "trap": "trap",
}
Index = tuple[int, int, int]


@dataclass(frozen=True)
class Fault:
    """An error of a kernel.

    Attributes
    ----------
    kind : {"race", "barrier", "out_of_bounds", "uninitialised", "misaligned", "shuffle", "hang", "trap"}
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
    hazard : {"RAW", "WAR", "WAW", ""}
    warp_synchronous : bool
        The threads of a race are of one warp.
    count : int
        How many times it was seen.
    other_block : tuple of int or None
        The other thread's block, if it is not `block`.
    severity : {"error", "warning"}
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
    allowed: str | None = None

    @property
    def title(self) -> str:
        """Its kind in words: "race (RAW, warp-synchronous)"."""
        words = [word for word in (self.hazard, "warp-synchronous" if self.warp_synchronous else "") if word]
        return FAULT_TITLES.get(self.kind, self.kind) + (f" ({', '.join(words)})" if words else "")

    @property
    def location(self) -> str:
        """File and line: "kernel.cu:14"."""
        return self.file if self.line is None else f"{self.file}:{self.line}"

    @property
    def meaning(self) -> str:
        """What such a fault means."""
        return explain(self)[0]

    @property
    def fix(self) -> str:
        """How to fix it."""
        return explain(self)[1]

    @property
    def place(self) -> str:
        """The former name of `location`."""
        warnings.warn("Fault.place: it is now called location", DeprecationWarning, stacklevel=2)
        return self.location

    @property
    def remedy(self) -> str:
        """The former name of `fix`."""
        warnings.warn("Fault.remedy: it is now called fix", DeprecationWarning, stacklevel=2)
        return self.fix


# ---- meaning and fix ----


def explain(fault: Fault) -> tuple[str, str]:
    """What a fault means, and how to fix it, in one sentence each."""
    if fault.kind == "race":
        return _RACE_MEANINGS.get(fault.hazard, _RACE_MEANINGS[""]), _race_fix(fault)
    return _FAULT_TEXTS.get(fault.kind, ("", ""))


_RACE_MEANINGS = {
    "RAW": "RAW, read after write: nothing makes the reader wait for the writer, so it may get the old value.",
    "WAR": "WAR, write after read: nothing makes the writer wait for the reader, which may get the new value.",
    "WAW": "WAW, write after write: nothing orders the two writes, so either value may stay.",
    "": "Nothing orders the two accesses, so the result depends on which thread comes first.",
}


def between_blocks(fault: Fault) -> bool:
    """Whether the two threads of a race are of different blocks."""
    return fault.other_block is not None and fault.other_block != fault.block


def _race_fix(fault: Fault) -> str:
    here, other, other_file = fault.line, fault.other_line, fault.other_file or fault.file
    if between_blocks(fault):
        return (
            "No barrier inside a kernel orders blocks: split the kernel into two launches, use atomics, or "
            "publish with __threadfence() and an atomic flag or counter."
        )
    if fault.hazard == "WAW" and here == other and fault.file == other_file:
        return (
            "Let one thread write (`if (threadIdx.x == 0)`), give each thread its own element, or use an atomic."
        )
    if here is None or other is None:
        where = "between the two accesses"
    elif fault.file != other_file:
        where = f"between {other_file}:{other} and {fault.file}:{here}"
    else:
        where = f"between lines {other} and {here}"
    barrier = "__syncwarp()" if fault.warp_synchronous else "__syncthreads()"
    if here is not None and here == other and fault.file == other_file:
        fix = (
            f"Line {here} reads and writes: read into a register, put {barrier} there, then write; in a loop, one "
            "more before the next pass"
        )
    else:
        fix = f"Put {barrier} {where}"
    if fault.warp_synchronous:
        return (
            f"{fix}, or __syncthreads() if other warps touch the same data. The two threads are of one warp, but "
            "warps have not run in lock step since Volta; shuffles do not order memory either."
        )
    if here == other:
        return f"{fix}."
    if fault.hazard == "WAR":
        return f"{fix}, so that all have read before anyone writes again."
    return f"{fix}, where every thread of the block reaches it; or use atomics for both."


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
        "Shared memory holds whatever the last block left there, never zeros: the value read is garbage.",
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
}
