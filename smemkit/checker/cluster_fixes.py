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


def fix_cluster(evidence: Evidence) -> Fix | None:
    """The fix of such an access; None if the fault is none, or a race between two threads."""
    message = evidence.raw["message"]
    return next((Fix(advice) for words, advice in _ADVICE.items() if words in message), None)
