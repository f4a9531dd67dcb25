"""Advice on accesses to shared memory of another block of a cluster."""

from __future__ import annotations

from smemkit.checker.edits import Fix
from smemkit.checker.evidence import Evidence

__all__ = ["fix_cluster"]

_ADVICE = {
    "that it has begun": (
        "Put cluster.sync() (barrier.cluster.arrive and .wait) before the first access to another block's shared "
        "memory: a block may begin later than others."
    ),
    "that it has not exited": (
        "Put cluster.sync() (barrier.cluster.arrive and .wait) after the last access to another block's shared "
        "memory, and let no thread return before: its memory ends with it."
    ),
}
_BETWEEN = (
    "Put cluster.sync() (barrier.cluster.arrive and .wait), which all threads of the cluster reach, between line "
    "{other} and line {line}: __syncthreads() orders the threads of one block only."
)


def fix_cluster(evidence: Evidence) -> Fix | None:
    """The fix of an access to another block's shared memory, or of a race with one; None if the fault is
    neither."""
    raw, fault = evidence.raw, evidence.fault
    message = raw["message"]
    if raw["space"] == "shared" and raw["block"] != raw["other_block"]:
        return Fix(_BETWEEN.format(line=fault.line, other=fault.other_line))
    return next((Fix(advice) for words, advice in _ADVICE.items() if words in message), None)
