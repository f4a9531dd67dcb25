"""Advice on accesses to shared memory of another block of a cluster."""

from __future__ import annotations

import re

from smemkit.checker.edits import Fix, line_edits
from smemkit.checker.evidence import AccessPair, Evidence

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
# the scope of an arrival at an mbarrier, or of a wait
_SCOPE = re.compile(
    r"mbarrier\.[\w.:]*\.(?:acquire|release)\.(cta)\b|mbarrier_\w+\(\s*[\w:]*sem_(?:acquire|release)\s*,"
    r"\s*[\w:]*scope_(cta)\b"
)
_REMOTE_ARRIVAL = re.compile(r"mbarrier\.arrive[\w.:]*shared::cluster|mbarrier_arrive\w*\([^;]*space_cluster")


def _wider_scopes(pair: AccessPair | None) -> Fix | None:
    """The arrivals and waits of the function at the scope of the cluster, if some are at the block's."""
    if not pair:
        return None
    statements = pair.function.body.statements
    begin, end = statements[0].start, statements[-1].end
    found = list(_SCOPE.finditer(pair.source.text, begin, end))
    if not found or not _REMOTE_ARRIVAL.search(pair.source.text, begin, end):
        return None
    lines = sorted({pair.source.line(match.start()) for match in found})
    where = f"line {lines[0]}" if len(lines) == 1 else f"lines {', '.join(map(str, lines))}"
    changes = [(*match.span(match.lastindex), "cluster") for match in found]
    return Fix(
        f"Write .cluster for .cta in {where}: the arrival and the wait are of different blocks, and .cta orders "
        "the threads of one block only.",
        line_edits(pair.file, pair.source, changes),
    )


def fix_cluster(evidence: Evidence, pair: AccessPair | None) -> Fix | None:
    """The fix of an access to another block's shared memory, or of a race with one; None if the fault is
    neither."""
    raw, fault = evidence.raw, evidence.fault
    message = raw["message"]
    if raw["space"] == "shared" and raw["block"] != raw["other_block"]:
        by_threads = not raw["async"]  # a copy releases to the whole cluster
        return (_wider_scopes(pair) if by_threads else None) or Fix(
            _BETWEEN.format(line=fault.line, other=fault.other_line)
        )
    return next((Fix(advice) for words, advice in _ADVICE.items() if words in message), None)
