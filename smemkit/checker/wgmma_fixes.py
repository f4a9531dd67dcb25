"""Advice on races of wgmma: its registers, and its operands in shared memory."""

from __future__ import annotations

from smemkit.checker.edits import Fix
from smemkit.checker.evidence import Evidence

__all__ = ["fix_wgmma"]

_WAIT = (
    "Put wgmma.commit_group and wgmma.wait_group between line {other} and line {line}: until then the registers "
    "of a wgmma.mma_async are in use."
)
_FENCE = (
    "Put wgmma.fence.sync.aligned in front of the wgmma.mma_async of line {line}, after the last access to its "
    "registers by other instructions."
)
_OPERANDS = (
    "Let every warp of the warpgroup wait for the wgmma.mma_async of line {other}, wgmma.wait_group, and then "
    "hand over by a barrier or an mbarrier, before line {line}."
)


def fix_wgmma(evidence: Evidence) -> Fix | None:
    """The fix of a race with a wgmma; None if the race has nothing to do with wgmma."""
    raw, fault = evidence.raw, evidence.fault
    lines = {"line": fault.line, "other": fault.other_line}
    if raw["registers"]:
        return Fix((_WAIT if raw["registers"] == "in flight" else _FENCE).format(**lines))
    return Fix(_OPERANDS.format(**lines)) if raw["other_multiplies"] else None
