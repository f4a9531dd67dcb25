"""From the extension's results of a checked launch to its report: lines, faults and their messages."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from smemkit.checker.evidence import Evidence, Launch
from smemkit.checker.faults import Fault
from smemkit.checker.fixes import fixed
from smemkit.checker.launches import LaunchReport, WaitReport
from smemkit.checker.lines import LineReport
from smemkit.checker.source_lines import LaunchSource

__all__ = ["launch_reports"]

_PIPELINE_WAIT = re.compile(r"\b(?:producer_acquire|consumer_wait(?:_prior|_for|_until)?)\b")
_VERB_PRESENT = {"load": "reads", "store": "writes", "atomic": "updates atomically"}
_MISSING_MAP_FENCES = {
    "release": "fence.proxy.tensormap::generic.release of the writer comes between",
    "acquire": "fence.proxy.tensormap::generic.acquire of the map comes between, in a thread of the copy's block",
}
_VERB_PAST = {"load": "read", "store": "wrote", "atomic": "updated atomically"}


def launch_reports(
    launches: Sequence[Mapping[str, Any]],
    kernels: Sequence[Any],
    sources: Sequence[Mapping[str, str]],
    scalars: Sequence[Mapping[str, int]],
) -> list[LaunchReport]:
    """The reports of launches: each of its `smemkit.Kernel`, with the sources and the integer arguments of that by
    name; or all of an operation, which has no kernels."""
    reports, earlier = [], []
    for number, launch in enumerate(launches):
        kernel, texts, own = (kernels[number], sources[number], scalars[number]) if kernels else (None, {}, {})
        source = LaunchSource(launch, kernel, texts, earlier)
        reports.append(_launch_report(launch, source, own))
        earlier = [source, *earlier] if kernels else []
    return reports


def _launch_report(launch: Mapping[str, Any], source: LaunchSource, scalars: Mapping[str, int]) -> LaunchReport:
    checked, blocks = launch["blocks_checked"], launch["blocks"]
    notes = []
    if checked < blocks:
        which = "the first and the last" if checked > 1 else "the first"
        between = ", and others between them with their neighbours" if checked > 2 else ""
        notes.append(f"{checked} of {blocks:,} blocks were checked: {which}{between}")
    if launch["more_faults"]:
        notes.append(f"{launch['more_faults']:,} more faults were found at other lines")
    return LaunchReport(
        launch["kernel"],
        launch["grid"],
        launch["block"],
        launch["shared_bytes"],
        checked,
        blocks,
        _line_reports(launch, source),
        _fault_reports(launch, source, scalars),
        tuple(notes),
        barriers=launch["barriers"],
        cluster=launch["cluster"] if any(launch["cluster"]) else None,
        copies_in_flight=launch["copies_in_flight"],
        bytes_in_flight=launch["bytes_in_flight"],
        waits=_wait_reports(launch, source),
    )


def _wait_reports(launch: Mapping[str, Any], source: LaunchSource) -> tuple[WaitReport, ...]:
    """The waits for mbarriers, by line."""
    found = []
    for file, line, passed, idle in launch["waits"]:
        at = source.location(((), file, line))
        found.append(WaitReport(*at, source.text(*at), passed, idle))
    return tuple(sorted(found, key=lambda wait: (wait.file, wait.line)))


def _line_reports(launch: Mapping[str, Any], source: LaunchSource) -> tuple[LineReport, ...]:
    """One LineReport per source line, kind of access and variable. The counts of its sites are added up."""
    warps = launch["blocks_checked"] * -(-math.prod(launch["block"]) // 32)
    groups: dict[tuple[Any, ...], list[Mapping[str, Any]]] = {}
    for site in launch["sites"]:
        file, line = source.location((site["chain"], None, 0))
        name = site["variable"] or source.parameter(site["argument"])
        groups.setdefault((file, line, site["space"], site["access"], site["size"], name), []).append(site)
    reports = []
    for (file, line, space, access, size, name), group in sorted(groups.items(), key=lambda item: item[0]):
        worst = max(group, key=lambda site: (site["degree"], site["sectors"] / max(1, site["requests"])))
        counts = {
            key: sum(site[key] for site in group)
            for key in (
                *("requests", "wavefronts", "conflicts", "sectors", "ideal_sectors"),
                *("lanes", "ideal_requests"),
            )
        }
        counts |= {"degree": worst["degree"], "warps": warps}
        text = source.text(file, line)
        reports.append(
            LineReport(
                file, line, text, space, access, size=size, variable=name, example=worst["example"], **counts
            )
        )
    return tuple(reports)


def _fault_reports(
    launch: Mapping[str, Any], source: LaunchSource, scalars: Mapping[str, int]
) -> tuple[Fault, ...]:
    faults = launch["faults"]
    racy = {
        (*source.location(fault[key]), fault["variable"])
        for fault in faults
        if fault["kind"] == "race" and not fault["launches_before"]
        for key in ("location", "other")
    }
    found = [_evidence(fault, source) for fault in faults]
    found = [  # an uninitialised read that is part of a race: the other thread has not written it yet
        evidence
        for evidence in found
        if evidence.fault.kind != "uninitialised"
        or (evidence.fault.file, evidence.fault.line, evidence.raw["variable"]) not in racy
    ]
    order = ["out_of_bounds", "misaligned", "trap", "barrier", "shuffle", "race", "uninitialised", "hang", "leak"]
    raced = {line for evidence in found if evidence.raw["async"] for line in _lines_of(evidence.fault)}
    found = [
        evidence for evidence in found if evidence.fault.kind != "leak" or not raced & {*_lines_of(evidence.fault)}
    ]
    setting = Launch(source.texts, launch["block"], launch["shared_bytes"], scalars)
    return tuple(
        sorted(
            fixed(setting, _merge_faults(found)),
            key=lambda fault: (fault.severity, order.index(fault.kind), fault.file, fault.line or 0),
        )
    )


def _lines_of(fault: Fault) -> tuple[tuple[str, int | None], ...]:
    """The lines of a fault."""
    return (fault.file, fault.line), (fault.other_file, fault.other_line)


def _evidence(fault: Mapping[str, Any], source: LaunchSource) -> Evidence:
    """A fault of the extension in the words of a report."""
    if fault["pass"] and _PIPELINE_WAIT.search(source.text(*source.location(((), *fault["pass"][:2])))):
        fault = {**fault, "pass": None}  # the library waits for the right phase
    other = source.of_launch(fault["launches_before"])
    (file, line), (other_file, other_line) = source.location(fault["location"]), other.location(fault["other"])
    frames, other_frames = source.frames(fault["location"]), other.frames(fault["other"])
    between_blocks = fault["kind"] == "race" and (fault["block"] != fault["other_block"] or other is not source)
    message = _fault_message(fault, source, other_line) + _callers(frames, file, line)
    if other_frames != frames:
        message += _callers(other_frames, other_file, other_line)
    report = Fault(
        kind=fault["kind"],
        line=line or None,
        other_line=other_line or None,
        block=fault["block"],
        threads=(fault["thread"], fault["other_thread"])[: fault["threads"]],
        variable=_format_variable(fault, source),
        message=message,
        file=file,
        other_file=other_file,
        text=source.text(file, line),
        hazard=fault["hazard"],
        warp_synchronous=fault["warp_synchronous"],
        count=fault["count"],
        other_block=fault["other_block"] if between_blocks else None,
        severity="warning" if fault["kind"] == "leak" or fault["doubtful"] else "error",
    )
    return Evidence(report, fault, frames, other_frames)


def _callers(frames: Sequence[tuple[str, int]], file: str, line: int) -> str:
    """The calls that led to a line, innermost first."""
    if len(frames) < 2 or frames[0] != (file, line):
        return ""
    calls = [f"line {at}" if name == file else f"{name}:{at}" for name, at in frames[1:]]
    return f"; line {line} is called at " + ", called at ".join(calls)


def _merge_faults(found: Sequence[Evidence]) -> list[Evidence]:
    """Combines faults of the same kind at the same lines, except an out-of-bounds read and write."""
    kept: dict[tuple[Any, ...], Evidence] = {}
    named = {(evidence.fault.file, evidence.fault.line) for evidence in found if _is_named_access(evidence)}
    for evidence in found:
        fault = evidence.fault
        bounds = fault.kind == "out_of_bounds"
        if bounds and not _is_named_access(evidence) and (fault.file, fault.line) in named:
            continue  # the index of the same access
        before = evidence.raw["launches_before"]
        key = (fault.kind, fault.hazard, fault.file, fault.line, fault.other_file, fault.other_line, before)
        key += (evidence.name, evidence.raw["access"] == "load") if bounds else ()
        first = kept.setdefault(key, evidence)
        if first is not evidence:  # a race between warps or between blocks says more
            more = fault.other_block and not first.fault.other_block
            best = evidence if first.fault.warp_synchronous or more else first
            count, reach = first.fault.count + fault.count, max(first.raw["reach"], evidence.raw["reach"])
            kept[key] = replace(best, fault=replace(best.fault, count=count), raw={**best.raw, "reach": reach})
    return list(kept.values())


def _is_named_access(evidence: Evidence) -> bool:
    """Whether it is an access whose address is known, not the compiler's check of an index."""
    return evidence.fault.kind == "out_of_bounds" and evidence.raw["size"] > 0


def _format_variable(fault: Mapping[str, Any], source: LaunchSource) -> str:
    """The variable of an access: tile[3][5], x[1000], or "" if unknown."""
    if fault["space"] == "shared":
        name, element = fault["variable"], fault["element"] or fault["size"] or 1
        offset = -fault["offset"] if fault["before"] else fault["offset"]
        if not name:
            return f"byte {offset} of the shared memory" if fault["size"] else ""
        index = offset // element
        if fault["rank"] == 0 and index == 0:
            return name
        indices = []
        for extent in reversed(fault["dims"][1 : fault["rank"]]):
            indices.insert(0, index % extent)
            index //= extent
        return name + "".join(f"[{i}]" for i in (index, *indices))
    if fault["space"] == "global" and fault["variable"]:  # a variable of the kernel's library
        index = f"[{fault['offset'] // (fault['element'] or 1)}]" if fault["rank"] else ""
        return fault["variable"] + index
    name = source.parameter(fault["argument"])
    if fault["space"] != "global" or not name or not fault["size"]:
        return ""
    index = fault["offset"] / fault["size"]
    if index != int(index):
        return f"byte {fault['offset']} of {name}"
    return f"{name}[{'-' if fault['before'] else ''}{int(index)}]"


def _format_thread(index: tuple[int, int, int], block: tuple[int, int, int] | None = None) -> str:
    return f"thread {index}" + (f" of block {block}" if block else "")


def _fault_message(fault: Mapping[str, Any], source: LaunchSource, other_line: int) -> str:
    what = _format_variable(fault, source) or (
        "a word of global memory" if fault["space"] == "global" else "memory"
    )
    kind = fault["kind"]
    if fault["message"] and (kind != "out_of_bounds" or fault["message"].startswith("illegal ")):
        return fault["message"]
    if kind == "race":
        between_blocks = fault["block"] != fault["other_block"]
        here = _format_thread(fault["thread"], fault["block"] if between_blocks else None)
        other = _format_thread(fault["other_thread"], fault["other_block"] if between_blocks else None)
        verb = _VERB_PRESENT[fault["access"]]
        if fault["registers"]:
            return _register_message(fault, here, verb, other_line)
        if fault["launches_before"]:
            return _early_message(fault, source, what, other_line)
        if fault["multiplies"]:
            here = f"the wgmma.mma_async that {here} executes"
        elif fault["copy"] or fault["hazard"] == "proxy":
            here = f"the asynchronous copy that {here} starts"
        if fault["missing"] in _MISSING_MAP_FENCES:
            return (
                f"{here} reads the tensor map in {what}, which {other} wrote at line {other_line}, and no "
                f"{_MISSING_MAP_FENCES[fault['missing']]}"
            )
        if fault["hazard"] == "proxy":
            late = fault["doubtful"] and fault["access"] == "load"
            late = "; it has executed the fence, but the writer has not" if late else ""
            how = "an atomic" if fault["other_access"] == "atomic" else "an ordinary store"
            return (
                f"{here} {verb} {what}, which {other} wrote at line {other_line} with {how}, and no "
                f"fence.proxy.async of the writer comes between{late}"
            )
        if fault["other_copy"]:
            if fault["other_multiplies"]:
                return (
                    f"{here} {verb} {what} before the wgmma.mma_async that {other} has executed at line "
                    f"{other_line}, and that may still read it, has been waited for"
                )
            ends = ("from", "has read it") if fault["other_access"] == "load" else ("to", "has been waited for")
            return (
                f"{here} {verb} {what} before the asynchronous copy {ends[0]} it, which {other} started at line "
                f"{other_line}, {ends[1]}"
            )
        accesses = f"{here} {verb} {what}, which {other} {_VERB_PAST[fault['other_access']]} at line {other_line}"
        if fault["incoherent"]:
            return f"{accesses}: one of the two is a non-coherent load (__ldg, ld.global.nc)"
        return f"{accesses}, and nothing orders the two{_passed_wait(fault)}"
    here = _format_thread(fault["thread"])
    if kind == "uninitialised":
        return f"{here} reads {what}, which no thread of its block has written"
    if kind == "misaligned":
        size = fault["size"]
        verb = _VERB_PRESENT[fault["access"]]
        return f"{here} {verb} {size} bytes at {what}, which is not a multiple of {size} bytes"
    return f"{here} {_out_of_bounds_message(fault, source, what)}"


def _early_message(fault: Mapping[str, Any], source: LaunchSource, what: str, other_line: int) -> str:
    """An access of a launch that may be before the end of an earlier launch."""
    before = fault["launches_before"]
    which = (
        f"the launch before, {source.of_launch(1).name},"
        if before == 1
        else (f"{source.of_launch(before).name}, {before} launches before,")
    )
    here, other = (_format_thread(fault[f"{key}thread"], fault[f"{key}block"]) for key in ("", "other_"))
    here = f"an asynchronous copy that {here} starts" if fault["copy"] else here
    waited = (
        "may still run, for no griddepcontrol.wait of this launch comes before"
        if before == 1
        else "may still run: the launch after it has ended without griddepcontrol.wait, or this one has not waited"
    )
    verb, past = _VERB_PRESENT[fault["access"]], _VERB_PAST[fault["other_access"]]
    return f"{here} {verb} {what}, which {other} of {which} {past} at line {other_line}: that launch {waited}"


def _passed_wait(fault: Mapping[str, Any]) -> str:
    """Why the mbarrier wait before a race did not prevent it, if the wait was for the wrong phase."""
    if not fault["pass"] or not fault["pass"][4]:
        return ""
    _, line, _, phase, _ = fault["pass"]
    return f": the wait at line {line} returned at once, while phase {phase} of its mbarrier was not complete"


def _register_message(fault: Mapping[str, Any], here: str, verb: str, other_line: int | None) -> str:
    if fault["registers"] == "in flight":
        return f"{here} {verb} a register of the wgmma.mma_async at line {other_line} before its wgmma.wait_group"
    if not other_line:
        return f"{here} executes wgmma.mma_async without a wgmma.fence before"
    return (
        f"{here} executes wgmma.mma_async with a register that it has written at line {other_line}, without a "
        "wgmma.fence in between"
    )


def _out_of_bounds_message(fault: Mapping[str, Any], source: LaunchSource, what: str) -> str:
    if fault["message"]:  # an index past the end of an array whose type alone is known
        return fault["message"] + (f": {what}" if fault["variable"] else "")
    acts = _VERB_PRESENT[fault["access"]]
    if fault["space"] == "":
        null = fault["offset"] < 65536
        return f"{acts} address {fault['offset']:#x}, " + (
            "a null pointer" if null else "which belongs to no array"
        )
    if fault["space"] == "shared":
        where = "before" if fault["before"] else "past"
        static = fault["rank"] == 0 or fault["dims"][0] > 0
        memory = f"of {fault['variable']}" if static else "of dynamic shared memory of the launch"
        return f"{acts} {what}, {where} the {fault['extent']} bytes {memory}"
    size = fault["size"]
    name = source.parameter(fault["argument"]) or "the array"
    text = f"{acts} {what}, and {name} has {fault['extent'] // size} elements of {size} bytes"
    if fault["lead"]:
        text += f", with {fault['lead'] // size} more before them in the array that it is a view of"
    return text
