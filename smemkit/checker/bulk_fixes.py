"""Fixes of races with bulk copies and the async proxy: a fence, a wait for a group, or advice on an mbarrier."""

from __future__ import annotations

import re

from smemkit.checker.barriers import Gap, common_loops, describe, gaps_between, insertions, is_before, passes
from smemkit.checker.edits import Fix, line_edits
from smemkit.checker.evidence import AccessPair, Evidence
from smemkit.checker.statements import Statement

__all__ = ["fix_bulk_copy"]

_BULK = re.compile(r"async[._]bulk|async[._]reduce|memcpy_async_tx|reduce_async")
_COMMIT = re.compile(r"bulk[._]commit_group")
_COPY_OF_TENSOR = re.compile(r"async[._]bulk[._]tensor")
# what is before the map: in inline PTX, of whose operands it is the first of 64 bits, and in cuda::ptx
_BEFORE_MAP = re.compile(
    r'"l"\s*\(|\bspace_global\s*,\s*(?:[\w:]*space_shared|[^,()]+)\s*,(?:\s*[\w:]*op_\w+\s*,)?'
)
_FENCE = 'asm volatile("fence.proxy.async.shared::cta;" ::: "memory");'
_WAIT = 'asm volatile("cp.async.bulk.wait_group.read 0;" ::: "memory");'
_COUNT = re.compile(r"(?P<before>bulk[._]wait_group(?:[._]read)?\s*(?:<|\(\S*|)\s*)(?P<groups>[1-9]\d*)")

FENCE_ADVICE = (
    "Let every thread that writes execute fence.proxy.async (cuda::ptx::fence_proxy_async(space_shared)) after "
    "its stores, before the barrier that hands over to the thread that starts the copy."
)
_MAP_ADVICE = {
    "release": (
        "Let the thread that has written the map at line {other} execute "
        "fence.proxy.tensormap::generic.release.gpu after it, and then hand over; or change the map in shared "
        "memory, and let the whole warp copy it by tensormap.cp_fenceproxy, which releases it."
    ),
    "acquire": (
        "Let the thread that starts the copy at line {line} execute fence.proxy.tensormap::generic.acquire.gpu "
        "[map], 128 before it, after the map has been released."
    ),
}
_FULL_ADVICE = (
    "Let every thread that uses the bytes wait for the phase of the copy's mbarrier before line {line}: the "
    "parity is 0 in the first phase, then 1 and 0 in turn; the phase must expect all bytes that the copies bring."
)
_EMPTY_ADVICE = (
    "Start the copy of line {line} only after all threads have used the old bytes: a barrier, or the phase of an "
    "mbarrier at which each of them arrives."
)
_READ_ADVICE = (
    "Let the thread that started the copy of line {other} wait until it has read its source, "
    "cp.async.bulk.wait_group.read 0 after the commit, and then hand over by a barrier, before line {line}."
)
_DONE_ADVICE = (
    "Let the thread that started the copy of line {other} wait for it, cp.async.bulk.wait_group 0 (not .read), "
    "and then hand over by a barrier, before line {line}."
)


def fix_bulk_copy(evidence: Evidence, pair: AccessPair | None) -> Fix | None:
    """The fix of a race with a bulk copy; None if it is not one."""
    fault, raw = evidence.fault, evidence.raw
    if raw["missing"] in _MAP_ADVICE:
        fix = _map_release(pair) if raw["missing"] == "release" else _map_acquire(pair)
        return fix or Fix(_MAP_ADVICE[raw["missing"]].format(line=fault.line, other=fault.other_line))
    if fault.hazard == "proxy":
        return _fence(pair) or Fix(FENCE_ADVICE)
    texts = [pair.text(statement) for statement in (pair.first, pair.second)] if pair else [fault.text]
    if not raw["async"] or not any(map(_BULK.search, texts)):
        return None
    lines = {"line": fault.line, "other": fault.other_line}
    if not raw["other_copy"]:
        return Fix(_EMPTY_ADVICE.format(**lines))
    if raw["other_access"] == "load":
        return _wait(pair) or Fix(_READ_ADVICE.format(**lines))
    to_shared = raw["space"] == "shared"
    return Fix((_FULL_ADVICE if to_shared else _DONE_ADVICE).format(**lines))


def _barrier_between(pair: AccessPair) -> Gap | None:
    """The gap before the first __syncthreads() on every path from one statement to the other."""
    code, first, second = pair.source.code, pair.first, pair.second
    loops = common_loops(first, second)
    gaps = (
        gaps_between(first, second) if is_before(first, second) or not loops else passes(first, second, loops[0])
    )
    return next(
        (gap for gap in gaps if gap.after and code.startswith("__syncthreads", gap.after.start)),
        None,
    )


def _fence(pair: AccessPair | None) -> Fix | None:
    """A fence after the stores, before the barrier."""
    gap = _barrier_between(pair) if pair else None
    if not pair or not gap:
        return None
    return Fix(
        f"Put {_FENCE[:-1]} {describe(pair.source, gap)}: each thread that writes needs it before the barrier.",
        line_edits(pair.file, pair.source, insertions(pair.source, gap, _FENCE)),
    )


def _map_release(pair: AccessPair | None) -> Fix | None:
    """A fence after the statement that has written a tensor map."""
    if not pair:
        return None
    writer = next((s for s in (pair.first, pair.second) if not _COPY_OF_TENSOR.search(pair.text(s))), None)
    if not writer:
        return None
    fence = 'asm volatile("fence.proxy.tensormap::generic.release.gpu;" ::: "memory");'
    gap = Gap(writer.within, writer.index + 1)
    return Fix(
        f"Put {fence[:-1]} {describe(pair.source, gap)}: it releases the map for copies.",
        line_edits(pair.file, pair.source, insertions(pair.source, gap, fence)),
    )


def _map_operand(text: str) -> str:
    """The expression of the tensor map in a copy's statement; "" if it is not found."""
    before = _BEFORE_MAP.search(text)
    depth = 0
    for at in range(before.end() if before else len(text), len(text)):
        if depth == 0 and text[at] in ",)":
            return text[before.end() : at].strip() if before else ""
        depth += (text[at] in "([{") - (text[at] in ")]}")
    return ""


def _map_acquire(pair: AccessPair | None) -> Fix | None:
    """A fence before the copy, of the map that the copy's statement names."""
    if not pair:
        return None
    for copy in pair.first, pair.second:
        name = _map_operand(pair.text(copy)) if _COPY_OF_TENSOR.search(pair.text(copy)) else ""
        if name:
            fence = (
                f'asm volatile("fence.proxy.tensormap::generic.acquire.gpu [%0], 128;" :: "l"({name}) : "memory");'
            )
            gap = Gap(copy.within, copy.index)
            return Fix(
                f"Put {fence[:-1]} {describe(pair.source, gap)}: the copy must see the map as it was released.",
                line_edits(pair.file, pair.source, insertions(pair.source, gap, fence)),
            )
    return None


def _wait(pair: AccessPair | None) -> Fix | None:
    """A wait of the thread that has started the copy: after its commit, or with a smaller count."""
    if not pair or not _barrier_between(pair):
        return None
    siblings = pair.first.within.statements
    after = siblings[pair.first.index :]
    for sibling in after:
        count = _COUNT.search(pair.source.text, sibling.start, sibling.end)
        if count:
            line = pair.source.line(count.start())
            change = (count.start("groups"), count.end("groups"), "0")
            text = (
                f"Line {line} leaves {count['groups']} groups that may still read their sources: wait for all, 0."
            )
            return Fix(text, line_edits(pair.file, pair.source, [change]))
    commit: Statement | None = next((sibling for sibling in after if _COMMIT.search(pair.text(sibling))), None)
    if not commit:
        return None
    gap = Gap(commit.within, commit.index + 1)
    return Fix(
        f"Put {_WAIT[:-1]} {describe(pair.source, gap)}: the copy may still read its source.",
        line_edits(pair.file, pair.source, insertions(pair.source, gap, _WAIT)),
    )
