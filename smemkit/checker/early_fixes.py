"""Fixes of accesses that may come before the end of an earlier launch: a wait for it."""

from __future__ import annotations

from smemkit.checker.barriers import Gap, describe, insertions
from smemkit.checker.edits import Fix, line_edits
from smemkit.checker.evidence import Evidence, Launch

__all__ = ["fix_early_access"]

_WAIT = "cudaGridDependencySynchronize();"
_WHY = "a thread that waits, or meets one that has waited at a barrier, sees what the earlier launch has written"
_BETWEEN = (
    "Let the launch between the two wait for the one before it, cudaGridDependencySynchronize(), in at least one "
    "thread: it cannot end before that one then."
)


def fix_early_access(launch: Launch, evidence: Evidence) -> Fix | None:
    """The fix of such an access; None if the fault is none."""
    before = evidence.raw["launches_before"]
    if not before:
        return None
    file, line = evidence.frames[-1] if evidence.frames else ("", 0)
    source = launch.source(file)
    function = source.function_at(line) if source else None
    start = source.extent(line)[0] if source else 0
    after = (
        next((statement for statement in function.body.statements if statement.end > start), None)
        if function
        else None
    )
    text = f"Put {_WAIT[:-1]} before line {line}: {_WHY}."
    if before > 1:
        return Fix(f"{text} {_BETWEEN}")
    if not after:
        return Fix(text)
    gap = Gap(after.within, after.index)
    return Fix(
        f"Put {_WAIT[:-1]} {describe(source, gap)}: {_WHY}.",
        line_edits(file, source, insertions(source, gap, _WAIT)),
    )
