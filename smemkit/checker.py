"""The checker: what a kernel asks of memory, explained.

A check runs the kernel's checked build on the CPU device. The extension returns what happened, by addresses in the
code and in memory; here these become lines and names, and the whole a `smemkit.Report`.
"""

from __future__ import annotations

import contextlib
import hashlib
import inspect
import math
import os
import re
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any
from zipfile import BadZipFile

import numpy as np

from smemkit import _core, compiler, dialect, ops, table
from smemkit._core import Error
from smemkit.report import Fault, LaunchReport, LineReport, Report

__all__ = ["Access", "check", "wavefronts"]

_SCHEDULES = ("serial", "lockstep", "random")
_SAMPLE = 16  # blocks of a large grid
_STRUCT = re.compile(r"(?:template\b.*)?(?:typedef\s+)?(?:struct|class|union)\b")
# What blocks that work together have in their source: a sample of them would wait for the others, or be wrong.
_TOGETHER = re.compile(r"\batomic\w*|\b__threadfence|\bcuda\s*::\s*atomic|\bthis_grid\b|\bgrid_group\b")


@dataclass(frozen=True)
class Access:
    """What shared memory does for one request of a warp.

    Attributes
    ----------
    wavefronts : int
        Passes of shared memory that the request takes.
    conflicts : int
        How many of them it would not take without bank conflicts.
    degree : int
        The most words that one bank has to deliver at once: the n of an "n-way bank conflict", 1 without one.
    groups : int
        Groups of lanes, with an active lane in them, that are served one after the other: more than one where the
        lanes of a warp ask for more bytes than the banks have.
    banks : tuple of int
        The words that each bank delivers.
    """

    wavefronts: int
    conflicts: int
    degree: int
    groups: int
    banks: tuple[int, ...]


def wavefronts(
    addresses: Sequence[int | None], size: int = 4, *, store: bool = False, banks: int = 32, bank_width: int = 4
) -> Access:
    """What one request of a warp costs in shared memory.

    Parameters
    ----------
    addresses : sequence of int or None, up to 32
        The byte address that each lane asks for, a multiple of `size`; None for a lane that is not active, as are
        those beyond the sequence's end.
    size : {4, 1, 2, 8, 16}
        Bytes a lane.
    store : bool
        Whether it writes.
    banks : {32, 16, 8, 4, 2}
        How many banks there are; 16 on GPUs of compute capability 1.
    bank_width : {4, 8}
        Bytes a word of a bank; 8 on some of capability 3.

    Returns
    -------
    Access

    Raises
    ------
    TypeError, ValueError
        An argument is not what is required; the message names it.

    Notes
    -----
    For 32 banks of 4 bytes this is what the hardware counts (Nsight Compute on an H200: every one of 240 random
    requests that the tests hold it against). A request is cut into groups of consecutive lanes: of 32 lanes for up
    to 4 bytes, of 16 for 8 bytes, of 8 for 16; of twice as many for a load in which every lane t has the address
    of lane t^1, or every one that of t^2. A group takes as many wavefronts as the busiest bank has distinct words
    to deliver to it. Other banks and widths are predictions by the same rule: today's GPUs have 32 of 4 bytes.

    Examples
    --------
    >>> import smemkit
    >>> column = [128 * lane for lane in range(32)]  # of float tile[32][32]
    >>> smemkit.wavefronts(column).degree
    32
    >>> padded = [132 * lane for lane in range(32)]  # of float tile[32][33]
    >>> smemkit.wavefronts(padded).conflicts
    0
    """
    return Access(*_core.wavefronts(addresses, size, store, banks, bank_width)[:5])


def check(
    target: Any, *args: Any, blocks: str | int = "auto", schedule: str = "serial", seed: int = 0, **keywords: Any
) -> Report:
    """Runs a kernel on the CPU device and explains what it does with memory, and what is wrong with it.

    Parameters
    ----------
    target : function or Launch
        An operation of smemkit, such as `smemkit.transpose`; or a kernel with its launch, ``kernel[grid, block]``,
        see `smemkit.Kernel`.
    *args
        What it is called with. A check works on copies: the arrays stay as they are.
    blocks : {"auto", "all"} or int
        How many blocks of each launch are checked: all; or so many, which are the first, the last and others
        between them, with neighbours. "auto": all, where blocks work together through atomics or fences; else
        16.
    schedule : {"serial", "lockstep", "random"}
        The order in which the threads of a block run: each up to its next barrier; all by one access at a time,
        as code for GPUs older than Volta expects of a warp; or any order, by `seed`. Races are found in each.
    seed : int
    **keywords
        Options of the operation: `kernel`, `tile`, `axis`, …

    Returns
    -------
    Report

    Raises
    ------
    TypeError, ValueError
        An argument is not what is required; the message names it.
    CompileError
        The source of a `smemkit.Kernel` is not accepted.

    Notes
    -----
    Counts are as written in the source; a GPU's compiler may merge accesses. Accesses are a race unless they are
    ordered by what CUDA's memory model orders: barriers, `__syncwarp`, fences with atomics, launches. Two accesses
    of a warp are a race like others.

    Examples
    --------
    >>> import numpy as np, smemkit
    >>> report = smemkit.check(smemkit.transpose, np.eye(64, dtype=np.float32), kernel="unpadded")
    >>> report.ok
    True
    >>> max(line.degree for line in report.lines)
    32
    """
    if schedule not in _SCHEDULES:
        raise ValueError(f"schedule: expected one of {', '.join(_SCHEDULES)}, got {schedule!r}")
    if not isinstance(seed, (int, np.integer)) or not 0 <= seed < 2**64:
        raise ValueError(f"seed: expected an integer from 0 to 2**64 - 1, got {seed!r}")
    wanted = _wanted_blocks(blocks)
    whole = 0
    if hasattr(target, "_checked_call"):
        if keywords:
            raise TypeError(f"{next(iter(keywords))}: a launch of a kernel takes no options of an operation")
        kernel = target.kernel
        sources = {kernel.filename: kernel.source}
        if blocks == "auto" and _TOGETHER.search(dialect.mask(kernel.source)):
            wanted = 0

        def run() -> None:
            target._checked_call(*args)

    elif any(target is operation for operation in _operations()):
        if keywords.get("kernel") == "sequential":
            raise ValueError("kernel: expected one that runs on the executor, got 'sequential', which is plain C")
        run = _operation_call(target, args, keywords)
        kernel, sources = None, {}
        whole = _cooperating_rows() if blocks == "auto" else 0
    else:
        raise TypeError(
            f"target: expected an operation of smemkit or kernel[grid, block], got {_describe(target)}"
        )
    begin = time.perf_counter()
    _load_checked_kernels()
    launches = _core.checked(run, wanted, _SCHEDULES.index(schedule), int(seed), whole)
    reports = tuple(_launch_report(launch, kernel, sources) for launch in launches)
    return Report(reports, time.perf_counter() - begin, sources)


def _wanted_blocks(blocks: str | int) -> int:
    """What `_core.checked` takes: 0 for all."""
    if blocks == "auto":
        return _SAMPLE
    if blocks == "all":
        return 0
    if isinstance(blocks, (int, np.integer)) and not isinstance(blocks, bool) and 0 < blocks < 2**63:
        return int(blocks)
    raise ValueError(f"blocks: expected 'auto', 'all' or a positive integer, got {blocks!r}")


@cache
def _operations() -> frozenset[Callable[..., Any]]:
    return frozenset(getattr(ops, name) for name in ops.__all__)


def _describe(target: Any) -> str:
    if type(target).__name__ == "Kernel":
        return "a Kernel without its launch: give check(kernel[grid, block], …)"
    return repr(target) if callable(target) else f"{type(target).__name__}"


def _operation_call(operation: Callable[..., Any], args: Sequence[Any], keywords: Mapping[str, Any]):
    """A call on the CPU device whose operands and `out` are copies."""
    for name in "device", "stream":
        if keywords.get(name) is not None and not (name == "device" and keywords[name] == "cpu"):
            raise ValueError(f"{name}: a check runs on the CPU device, got {keywords[name]!r}")

    def copied(value: Any) -> Any:
        if isinstance(value, np.ndarray):
            return _copy_as_it_lies(value)
        return value.numpy() if isinstance(value, _core.Array) else value

    copies = [copied(value) for value in args]
    options = {name: copied(value) for name, value in keywords.items()} | {"device": "cpu"}
    inspect.signature(operation).bind(*copies, **options)  # a TypeError that names the argument
    return lambda: operation(*copies, **options)


def _copy_as_it_lies(value: np.ndarray) -> np.ndarray:
    """A copy with the same gaps between its elements, since they are what the counts are about."""
    if not value.size or value.dtype.hasobject:
        return value.copy()
    low, high = np.lib.array_utils.byte_bounds(value)
    start = value.__array_interface__["data"][0] - low
    copy = np.ndarray(value.shape, value.dtype, bytearray(high - low), start, value.strides)
    np.copyto(copy, value)
    return copy


@cache
def _cooperating_rows() -> int:
    """The rows of the table whose blocks work together, as bits."""
    return sum(
        1 << index
        for index, row in enumerate(_core.kernel_rows())
        if _TOGETHER.search(dialect.mask(table.source(row["op"], row["name"])))
    )


@cache
def _load_checked_kernels() -> None:
    _core.load_checked(str(Path(_core.__file__).with_name("_checked.so")))


# ---- from addresses to lines ----


class _Lines:
    """The line table of a library: what line an address of its code belongs to."""

    def __init__(self, library: str) -> None:
        self.library = library
        self.known: dict[int, tuple[str, int]] = {}
        self.units: dict[int, tuple[np.ndarray, list[str]]] = {}  # of a compilation: rows, and its files

    def look_up(self, addresses: set[int]) -> dict[int, tuple[str, int]]:
        """(file, line) of each address: those of return addresses, which belong to the instruction before."""
        missing = sorted(addresses - self.known.keys())
        if missing:
            from elftools.elf.elffile import ELFFile

            with open(self.library, "rb") as file:  # noqa: PTH123
                debug = ELFFile(file).get_dwarf_info()
                ranges = debug.get_aranges()
                units: dict[int, list[int]] = {}
                for address in missing:
                    units.setdefault(ranges.cu_offset_at_addr(address - 1), []).append(address)
                for offset, inside in units.items():
                    if offset is None:
                        continue
                    if offset not in self.units:
                        self.units[offset] = self._kept(debug, offset)
                    self._find(*self.units[offset], inside)
        return {address: self.known.get(address, ("", 0)) for address in addresses}

    def _kept(self, debug: Any, offset: int) -> tuple[np.ndarray, list[str]]:
        """A compilation's line table, from the user's cache: to decode a large one takes seconds."""
        try:
            folder = compiler.cache_folder()
        except Error:
            return self._read(debug, offset)
        name = hashlib.sha256(f"{compiler.identity(self.library)} {offset}".encode()).hexdigest()[:32]
        entry = folder / f"{name}.npz"
        with contextlib.suppress(OSError, ValueError, KeyError, BadZipFile), np.load(entry) as kept:
            os.utime(entry)
            return kept["rows"], kept["files"].tolist()
        rows, files = self._read(debug, offset)
        with contextlib.suppress(OSError), tempfile.TemporaryDirectory(prefix=".new-", dir=folder) as new:
            made = Path(new, entry.name)
            np.savez_compressed(made, rows=rows, files=np.array(files))
            made.replace(entry)
        return rows, files

    @staticmethod
    def _read(debug: Any, offset: int) -> tuple[np.ndarray, list[str]]:
        program = debug.line_program_for_CU(debug.get_CU_at(offset))
        states = [entry.state for entry in program.get_entries() if entry.state]
        rows = np.array([(state.address, state.line, state.file, state.end_sequence) for state in states])
        # where one function ends another may begin: that one counts
        rows = rows[np.lexsort((-rows[:, 3], rows[:, 0]))]
        files = [entry.name.decode() for entry in program.header.file_entry]
        return rows, files if program.header.version >= 5 else ["", *files]

    def _find(self, rows: np.ndarray, files: list[str], addresses: list[int]) -> None:
        at = np.searchsorted(rows[:, 0], np.array(addresses) - 1, side="right") - 1
        for address, (_, line, file, _) in zip(addresses, rows[at].tolist(), strict=True):
            self.known[address] = (files[file], line)


@cache
def _lines_of(library: str) -> _Lines:
    return _Lines(library)


# ---- from what the extension returns to a report ----


class _Source:
    """The texts that a launch's lines are in, under the names that messages use, and its parameters' names."""

    def __init__(self, launch: Mapping[str, Any], kernel: Any, sources: Mapping[str, str]) -> None:
        chains = [site["chain"] for site in launch["sites"]]
        chains += [fault[key][0] for fault in launch["faults"] for key in ("place", "other")]
        self.lines = _lines_of(launch["library"]).look_up({address for chain in chains for address in chain})
        self.texts = dict(sources)
        self.kernel = kernel
        self.parameters = kernel.parameters if kernel is not None else ()
        self.named: dict[str, str] = {}
        if kernel is None:
            function = re.split(r"[<(]", launch["kernel"])[0]
            for file, text in table.sources().items():
                self.named[Path(file).name] = file
                self.texts[file] = text
                if not self.parameters:
                    self.parameters = _parameter_names(text, function)

    def place(self, place: tuple[tuple[int, ...], str | None, int]) -> tuple[str, int]:
        """File and line of what the executor said itself, or of an address with the calls that led there: the
        first that is the author's, and not what the compiler made of a struct to copy it."""
        addresses, file, line = place
        if not addresses:
            return self._name(file or ""), line
        found = [(self._name(file), line) for file, line in map(self.lines.__getitem__, addresses)]
        return next(
            (at for at in found if at[0] in self.texts and not _STRUCT.match(self.text(*at))),
            next((at for at in found if at[0] in self.texts), found[0]),
        )

    def _name(self, file: str) -> str:
        if file in self.texts:
            return file
        name = Path(file).name
        return self.named.get(name, next((text for text in self.texts if Path(text).name == name), name))

    def text(self, file: str, line: int) -> str:
        lines = self.texts.get(file, "").splitlines()
        return lines[line - 1].strip() if 0 < line <= len(lines) else ""

    def parameter(self, index: int) -> str:
        return self.parameters[index] if 0 <= index < len(self.parameters) else ""


def _parameter_names(text: str, function: str) -> tuple[str, ...]:
    """The names of a __global__ function's parameters, from its text."""
    masked = dialect.mask(text)
    head = re.search(rf"__global__[^;{{}}()]*\b{re.escape(function)}\s*\(([^)]*)\)", masked)
    if not head:
        return ()
    return tuple(re.split(r"\W+", parameter.strip())[-1] for parameter in head[1].split(","))


def _launch_report(launch: Mapping[str, Any], kernel: Any, sources: Mapping[str, str]) -> LaunchReport:
    source = _Source(launch, kernel, sources)
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
        _faults(launch["faults"], source),
        tuple(notes),
    )


def _line_reports(launch: Mapping[str, Any], source: _Source) -> tuple[LineReport, ...]:
    """A line each for what a source line does with one kind of memory; several sites of it are added up."""
    warps = launch["blocks_checked"] * -(-math.prod(launch["block"]) // 32)
    together: dict[tuple[Any, ...], list[Mapping[str, Any]]] = {}
    for site in launch["sites"]:
        file, line = source.place((site["chain"], None, 0))
        name = site["variable"] or source.parameter(site["argument"])
        together.setdefault((file, line, site["space"], site["access"], site["size"], name), []).append(site)
    reports = []
    for (file, line, space, access, size, name), group in sorted(together.items(), key=lambda item: item[0]):
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


_ACTS = {"load": "reads", "store": "writes", "atomic": "updates atomically"}
_ACTED = {"load": "read", "store": "wrote", "atomic": "updated atomically"}


def _faults(faults: Sequence[Mapping[str, Any]], source: _Source) -> tuple[Fault, ...]:
    racy = {
        (*source.place(fault[key]), fault["variable"])
        for fault in faults
        if fault["kind"] == "race"
        for key in ("place", "other")
    }
    reports = []
    for fault in faults:
        (file, line), (other_file, other_line) = source.place(fault["place"]), source.place(fault["other"])
        if fault["kind"] == "uninitialised" and (file, line, fault["variable"]) in racy:
            continue  # what the race's other thread has not written yet
        between_blocks = fault["kind"] == "race" and fault["block"] != fault["other_block"]
        threads = (fault["thread"], fault["other_thread"])[: fault["threads"]]
        reports.append(
            Fault(
                kind=fault["kind"],
                line=line or None,
                other_line=other_line or None,
                block=fault["block"],
                threads=threads,
                variable=_variable(fault, source),
                message=_message(fault, source, other_line),
                file=file,
                other_file=other_file,
                text=source.text(file, line),
                hazard=fault["hazard"],
                warp_synchronous=fault["warp_synchronous"],
                count=fault["count"],
                other_block=fault["other_block"] if between_blocks else None,
            )
        )
    order = ["out_of_bounds", "misaligned", "trap", "barrier", "shuffle", "race", "uninitialised", "hang"]
    return tuple(
        sorted(_merged(reports), key=lambda fault: (order.index(fault.kind), fault.file, fault.line or 0))
    )


def _merged(faults: Sequence[Fault]) -> list[Fault]:
    """Faults of the same lines and kind are one."""
    found: dict[tuple[Any, ...], Fault] = {}
    for fault in faults:
        key = (fault.kind, fault.hazard, fault.file, fault.line, fault.other_file, fault.other_line)
        first = found.setdefault(key, fault)
        if first is not fault:  # what happens between warps and between blocks says more
            kept = fault if first.warp_synchronous or (fault.other_block and not first.other_block) else first
            found[key] = replace(kept, count=first.count + fault.count)
    return list(found.values())


def _variable(fault: Mapping[str, Any], source: _Source) -> str:
    """tile[3][5], x[1000], or "" where nothing is known."""
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
    if fault["space"] == "global" and fault["variable"]:  # of the library
        index = f"[{fault['offset'] // (fault['element'] or 1)}]" if fault["rank"] else ""
        return fault["variable"] + index
    name = source.parameter(fault["argument"])
    if fault["space"] != "global" or not name or not fault["size"]:
        return ""
    index = fault["offset"] / fault["size"]
    if index != int(index):
        return f"byte {fault['offset']} of {name}"
    return f"{name}[{'-' if fault['before'] else ''}{int(index)}]"


def _thread(index: tuple[int, int, int], block: tuple[int, int, int] | None = None) -> str:
    return f"thread {index}" + (f" of block {block}" if block else "")


def _message(fault: Mapping[str, Any], source: _Source, other_line: int) -> str:
    what = _variable(fault, source) or ("a word of global memory" if fault["space"] == "global" else "memory")
    kind = fault["kind"]
    if fault["message"] and kind != "out_of_bounds":
        return fault["message"]
    if kind == "race":
        apart = fault["block"] != fault["other_block"]
        here = _thread(fault["thread"], fault["block"] if apart else None)
        other = _thread(fault["other_thread"], fault["other_block"] if apart else None)
        if fault["async"]:
            return (
                f"{here} {_ACTS[fault['access']]} {what} before the asynchronous copy to it, which {other} asked "
                f"for at line {other_line}, has been waited for"
            )
        return (
            f"{here} {_ACTS[fault['access']]} {what}, which {other} {_ACTED[fault['other_access']]} at line "
            f"{other_line}, and nothing orders the two"
        )
    here = _thread(fault["thread"])
    if kind == "uninitialised":
        return f"{here} reads {what}, which no thread of its block has written"
    if kind == "misaligned":
        size = fault["size"]
        return f"{here} {_ACTS[fault['access']]} {size} bytes at {what}, which is no multiple of {size} bytes"
    return f"{here} {_out_of_bounds(fault, source, what)}"


def _out_of_bounds(fault: Mapping[str, Any], source: _Source, what: str) -> str:
    if fault["message"]:  # an index past an array, of which only the type is known
        return fault["message"] + (f": {what}" if fault["variable"] else "")
    acts = _ACTS[fault["access"]]
    if fault["space"] == "":
        null = fault["offset"] < 65536
        return f"{acts} address {fault['offset']:#x}, " + (
            "a null pointer" if null else "which belongs to no array"
        )
    if fault["space"] == "shared":
        where = "before" if fault["before"] else "past"
        static = fault["rank"] == 0 or fault["dims"][0] > 0
        whole = f"of {fault['variable']}" if static else "of shared memory that the launch gave"
        return f"{acts} {what}, {where} the {fault['extent']} bytes {whole}"
    size = fault["size"]
    name = source.parameter(fault["argument"]) or "the array"
    text = f"{acts} {what}, and {name} has {fault['extent'] // size} elements of {size} bytes"
    if fault["lead"]:
        text += f", with {fault['lead'] // size} more before them in the array that it is a view of"
    return text
