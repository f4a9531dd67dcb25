"""Fixes of races with asynchronous copies (cp.async) and with accesses that an mbarrier should have ordered."""

from __future__ import annotations

import re

from smemkit.checker.barriers import Gap, describe, gaps_between, insertions, is_before, is_reached
from smemkit.checker.edits import Fix, line_edits
from smemkit.checker.evidence import AccessPair, Evidence, Launch
from smemkit.checker.statements import Statement

__all__ = [
    "fix_copy",
    "fix_mbarrier_wait",
    "fix_stage",
    "gaps_after_wait",
    "is_waited_for",
    "needs_a_wait",
    "shared_pipeline",
    "waited_for_wrong_parity",
]

# a wait that leaves groups in flight: __pipeline_wait_prior(1), cp.async.wait_group 1, cp_async_wait<1>(), WAIT(1)
_WAIT = re.compile(
    r"(?P<head>\bcp[._]async[._]wait_group\s*|\b\w*(?:wait|WAIT)\w*\s*[<(]\s*)(?P<groups>[1-9]\d*)(?=\s*[;>)])"
)
_WAIT_OF_PTX = 'asm volatile("cp.async.wait_all;" ::: "memory")'
# cuda::memcpy_async(block, s, x, bytes, pipe);  cooperative_groups::memcpy_async(block, s, x, bytes);
_COPY = re.compile(r"\bmemcpy_async\s*\(\s*(?P<group>\w*).*?\b(?P<last>[A-Za-z_]\w*)\s*\)\s*;$", re.S)


def is_waited_for(evidence: Evidence) -> bool:
    """Whether the reading thread has waited for its own copies of the group, so that a barrier is missing."""
    return evidence.raw["waited"] and not evidence.raw["unwaited"]


def needs_a_wait(evidence: Evidence, pair: AccessPair | None) -> bool:
    """Whether the earlier access is a copy that has not arrived, and not a read of what a copy overwrites."""
    raw = evidence.raw
    if not raw["other_copy"] or raw["other_access"] == "load":
        return False
    wait = _wait_before(pair) if pair else None
    of_some = bool(pair and wait and not is_reached(pair.guards, Gap(wait.within, wait.index)))
    return of_some or not is_waited_for(evidence)


_ANY_WAIT = re.compile(r"cp[._]async[._]wait|\b\w*(?:wait|WAIT)\w*\s*[<(]")


def _wait_before(pair: AccessPair) -> Statement | None:
    """The last wait before the second access."""
    begin, end = pair.function.body.start, pair.second.start
    waits = [match.start() for match in _ANY_WAIT.finditer(pair.source.without_comments, begin, end)]
    return pair.function.statement_at(waits[-1]) if waits else None


def gaps_after_wait(pair: AccessPair) -> list[Gap]:
    """The gaps between the last wait before the second access and that access, where a barrier shows all threads
    what each has waited for."""
    second, wait = pair.second, _wait_before(pair)
    if wait:
        inner = {id(ancestor.within): ancestor.index for ancestor in second.ancestors()}
        around = next((ancestor for ancestor in wait.ancestors() if id(ancestor.within) in inner), None)
        if around and around.index < inner[id(around.within)]:
            return [Gap(around.within, at) for at in range(around.index + 1, inner[id(around.within)] + 1)]
    return [Gap(second.within, second.index)]


def _object(pair: AccessPair, member: str) -> str:
    """The object that one of the statements copies through, if the source calls this member of it; or ""."""
    copies = (_COPY.search(pair.text(statement).strip()) for statement in (pair.first, pair.second))
    name = next((copy["last"] for copy in copies if copy), "")
    return name if name and re.search(rf"\b{name}\s*(?:\[[^\]]*\]\s*)*\.\s*{member}\b", pair.source.code) else ""


def shared_pipeline(pair: AccessPair) -> str:
    """The name of the pipeline of several threads that one of the statements copies through, or ""."""
    pipe = _object(pair, "producer_commit")
    made = rf"\b{pipe}\s*=\s*(?:\w+\s*::\s*)*make_pipeline\s*\(\s*\w"
    return pipe if pipe and re.search(made, pair.source.code) else ""


def fix_stage(evidence: Evidence, pipe: str) -> Fix:
    """A stage of a pipeline that is read before it is complete, or filled before it has been read."""
    fault = evidence.fault
    if fault.hazard == "WAR":
        return Fix(
            f"Call {pipe}.producer_acquire() before line {fault.line} fills the stage, and "
            f"{pipe}.consumer_release() only after line {fault.other_line} has read it."
        )
    return Fix(
        f"Call {pipe}.consumer_wait() in every thread that uses the stage, before line {fault.line}, and "
        f"{pipe}.consumer_release() after the last use."
    )


def fix_copy(evidence: Evidence, pair: AccessPair | None) -> Fix:
    """A copy that has not been waited for."""
    if pair is None:
        return Fix(
            "Wait for the copy, then put a barrier if other threads read it: cp.async.wait_all "
            "(`__pipeline_wait_prior(0)`) and __syncthreads() between the two lines."
        )
    if barrier := _object(pair, "(?:arrive|arrive_and_wait)"):
        return Fix(
            f"Let every thread that reads the bytes wait for the phase of {barrier} before line "
            f"{evidence.fault.line}: {barrier}.wait({barrier}.arrive())."
        )
    return _fewer_in_flight(pair) or _wait_between(pair)


def _fewer_in_flight(pair: AccessPair) -> Fix | None:
    """A wait that leaves too many groups in flight: one fewer."""
    start, end = pair.function.body.start, pair.second.start
    wait = _WAIT.search(pair.source.without_comments, start, end)
    if not wait:
        return None
    fewer = f"{wait['head']}{int(wait['groups']) - 1}"
    line = pair.source.line(wait.start())
    change = (wait.start(), wait.end(), fewer)
    closing = {"<": ">", "(": ")"}.get(fewer.rstrip("0123456789 ")[-1], "")
    text = f"Line {line} leaves {wait['groups']} groups of copies in flight: make it {fewer}{closing}."
    return Fix(text, line_edits(pair.file, pair.source, [change]))


def _wait_between(pair: AccessPair) -> Fix:
    """A wait for all copies between the copy and its use, where all threads reach it, with a barrier if there is
    none."""
    code, wait = pair.source.code, _wait_statement(pair)
    gaps = gaps_between(pair.first, pair.second) if is_before(pair.first, pair.second) else []
    barrier = next((gap for gap in gaps if gap.after and code.startswith("__syncthreads", gap.after.start)), None)
    reached = [gap for gap in gaps if is_reached(pair.guards, gap)]
    if not barrier and not reached:
        return Fix(f"Put {wait} and then __syncthreads() between the two lines, where all threads reach them.")
    gap = barrier or reached[-1]
    new = f"{wait};" if barrier else f"{wait};\n    __syncthreads();"
    text = f"Put {wait} {describe(pair.source, gap)}{'' if barrier else ', and __syncthreads() after it'}."
    return Fix(text, line_edits(pair.file, pair.source, insertions(pair.source, gap, new)))


def _wait_statement(pair: AccessPair) -> str:
    """The wait for all copies, as the source spells its copies."""
    code = pair.source.code
    if pipe := _object(pair, "producer_commit"):
        return f"{pipe}.consumer_wait()"
    copies = (_COPY.search(pair.text(statement).strip()) for statement in (pair.first, pair.second))
    group = next((copy["group"] for copy in copies if copy), "")
    if group and "cooperative_groups" in pair.source.text:
        return f"cooperative_groups::wait({group})"
    return _WAIT_OF_PTX if re.search(r"\basm\b", code) and "__pipeline" not in code else "__pipeline_wait_prior(0)"


# ---- mbarriers ----


def fix_mbarrier_wait(launch: Launch, evidence: Evidence, pair: AccessPair | None) -> Fix | None:
    """A race that a wait for an mbarrier should have prevented; None if there is no such wait, or it is
    correct."""
    fault, wait = evidence.fault, evidence.raw["pass"]
    if not wait or fault.hazard not in ("RAW", "WAR"):
        return None
    _, line, expected, phase, by_preceding = wait
    if by_preceding:
        few = f" If more than {expected} threads arrive in a phase, the count of mbarrier.init is too small."
        return Fix(
            f"Line {line} waits for parity {(phase + 1) % 2} in phase {phase} of the mbarrier: that is the parity "
            "of the phase before, so the wait returns at once (PTX ISA, mbarrier.test_wait). Wait for parity 0 in "
            "the first phase, then 1 and 0 in turn: flip it after each wait."
            + (few if expected < launch.threads else "")
        )
    between = pair and pair.source.line(pair.first.start) <= line <= pair.source.line(pair.second.start)
    if fault.hazard != "RAW" or not between or expected >= launch.threads or evidence.raw["async"]:
        return None
    return Fix(
        f"The mbarrier of line {line} expects {expected} arrival{'s' * (expected != 1)} in a phase, which other "
        f"threads have made before this one has passed line {fault.other_line}: initialise it with the number of "
        "all threads that arrive, and let each arrive after its stores."
    )


def waited_for_wrong_parity(fix: Fix) -> int | None:
    """The line of the wait that such a fix is about; None: it is another fix."""
    found = re.match(r"Line (\d+) waits for parity", fix)
    return int(found[1]) if found else None
