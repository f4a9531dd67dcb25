"""Limits that a right kernel must keep as well: what the checker counts, and words of the source.

A limit is a function of the `Case`, the report of its launches and the source. It returns what is wrong, or "".
"""

from __future__ import annotations

import re
from collections.abc import Callable
from fractions import Fraction

from smemkit.checker.launches import LaunchReport
from smemkit.checker.lines import LineReport
from smemkit.checker.report import Report
from smemkit.cuda_source.lexer import mask
from smemkit.lab.exercises.cases import Case
from smemkit.measure.formats import pluralize
from smemkit.measure.occupancy import occupancy
from smemkit.user_kernel.kernel import Kernel

__all__ = [
    "Limit",
    "barriers",
    "full_warps",
    "global_accesses",
    "no_conflicts",
    "occupied",
    "sectors",
    "shared_bytes",
    "shared_requests",
    "uses",
    "without",
]

Limit = Callable[[Case, Report, str], str]
CAPABILITY = "9.0"  # of the GPU that limits of occupancy are about: an H100 or H200


def no_conflicts() -> Limit:
    """No request to shared memory has a bank conflict."""

    def limit(case: Case, report: Report, source: str) -> str:
        lines = [line for line in report.lines if line.conflicts]
        if not lines:
            return ""
        worst = max(lines, key=lambda line: (line.degree, line.conflicts))
        ideal = worst.wavefronts - worst.conflicts
        article = "an" if worst.degree in (8, 11, 18) else "a"
        return (
            f"{_at(worst)}: it has {article} {worst.degree}-way bank conflict, and takes "
            f"{worst.wavefronts:,} wavefronts where "
            f"{ideal:,} would do"
        )

    return limit


def sectors(most: Fraction = Fraction(33, 32)) -> Limit:
    """Global memory: at most `most` times the ideal number of sectors, over all accesses together."""

    def limit(case: Case, report: Report, source: str) -> str:
        lines = [line for line in report.lines if line.space == "global"]
        touched, ideal = (sum(getattr(line, name) for line in lines) for name in ("sectors", "ideal_sectors"))
        if touched <= most * ideal:
            return ""
        worst = max(lines, key=lambda line: line.sectors - line.ideal_sectors)
        return (
            f"{_at(worst)}: it is not coalesced; its {pluralize(worst.requests, 'request')} touch "
            f"{worst.sectors:,} sectors of global memory, and {worst.ideal_sectors:,} would hold the data; all "
            f"accesses together may touch at most {most} times the ideal"
        )

    return limit


def global_accesses(kind: str) -> Limit:
    """At most ``case.budget[kind]`` elements loaded, stored or updated; `kind` is "load", "store" or "atomic"."""

    def limit(case: Case, report: Report, source: str) -> str:
        lines = [line for line in report.lines if line.space == "global" and line.access == kind]
        count = sum(line.lanes or 32 * line.requests for line in lines)
        if count <= case.budget[kind]:
            return ""
        worst = max(lines, key=lambda line: line.lanes)
        return f"{_at(worst)}: the threads make {count:,} {_KINDS[kind]} global memory in all, and " + _enough(
            case.budget[kind]
        )

    return limit


def _enough(number: int) -> str:
    return f"{number:,} {'is' if number == 1 else 'are'} enough"


_KINDS = {"load": "loads from", "store": "stores to", "atomic": "atomic operations on"}


def shared_requests() -> Limit:
    """At most ``case.budget["shared"]`` requests of warps to shared memory."""

    def limit(case: Case, report: Report, source: str) -> str:
        lines = [line for line in report.lines if line.space == "shared"]
        count = sum(line.requests for line in lines)
        if count <= case.budget["shared"]:
            return ""
        worst = max(lines, key=lambda line: line.requests)
        return f"{_at(worst)}: the warps make {count:,} requests to shared memory in all, and " + _enough(
            case.budget["shared"]
        )

    return limit


def full_warps() -> Limit:
    """No line is executed by warps that are mostly idle where fewer full warps could do the work."""

    def limit(case: Case, report: Report, source: str) -> str:
        lines = [line for line in report.lines if line.divergent]
        if not lines:
            return ""
        worst = max(lines, key=lambda line: line.requests - line.ideal_requests)
        return (
            f"{_at(worst)}: it runs in divergent warps: "
            f"{worst.lanes / worst.requests:.0f} of 32 lanes are active on "
            f"average, in {worst.requests:,} requests where {worst.ideal_requests:,} of full warps would do"
        )

    return limit


def barriers(most: int) -> Limit:
    """The source has at most `most` calls of ``__syncthreads()``."""

    def limit(case: Case, report: Report, source: str) -> str:
        count = len(re.findall(r"\b__syncthreads\s*\(", mask(source)))
        if count <= most:
            return ""
        return f"The source has {count} calls of __syncthreads(), and {_enough(most)}"

    return limit


def shared_bytes(most: int) -> Limit:
    """A block has at most `most` bytes of shared memory."""

    def limit(case: Case, report: Report, source: str) -> str:
        used = max(_bytes(launch, source) for launch in report.launches)
        if used <= most:
            return ""
        return f"A block uses {used:,} bytes of shared memory, and may use at most {most:,}"

    return limit


def occupied(blocks: int, registers: int = 32) -> Limit:
    """At least `blocks` blocks fit on a multiprocessor of an H100 or H200."""

    def limit(case: Case, report: Report, source: str) -> str:
        return next(filter(None, (_crowded(launch, source, blocks, registers) for launch in report.launches)), "")

    return limit


def _bytes(launch: LaunchReport, source: str) -> int:
    """The bytes of a block: the launch's dynamic shared memory, and the kernel's static variables."""
    kernel = Kernel._to_check(source, None, options=())[launch.kernel]
    return launch.shared_bytes + sum(kernel.static_shared.values())


def _crowded(launch: LaunchReport, source: str, blocks: int, registers: int) -> str:
    used = _bytes(launch, source)
    threads = launch.block[0] * launch.block[1] * launch.block[2]
    found = occupancy(block_size=threads, shared_bytes=used, registers=registers, capability=CAPABILITY)
    if found.blocks >= blocks:
        return ""
    return (
        f"Only {pluralize(found.blocks, 'block')} of {used:,} bytes of shared memory fit on a "
        f"multiprocessor (limited by {found.limited_by}), and {blocks} should"
    )


def uses(*words: str) -> Limit:
    """The source uses one of these names."""

    def limit(case: Case, report: Report, source: str) -> str:
        if any(_has(source, word) for word in words):
            return ""
        return f"The task asks for {' or '.join(words)}, which the source does not use"

    return limit


def without(*words: str, why: str = "") -> Limit:
    """The source uses none of these names."""

    def limit(case: Case, report: Report, source: str) -> str:
        found = next((word for word in words if _has(source, word)), None)
        return f"The source uses {found}, which this task excludes{why and ': ' + why}" if found else ""

    return limit


def _has(source: str, word: str) -> bool:
    return re.search(rf"(?<!\w){re.escape(word)}(?!\w)", mask(source)) is not None


def _at(line: LineReport) -> str:
    variable = f" of {line.variable}" if line.variable else ""
    return f"Line {line.line}, {'an' if line.access == 'atomic' else 'a'} {_NOUNS[line.access]}{variable}"


_NOUNS = {"load": "load", "store": "store", "atomic": "atomic update"}
