"""The checker: reports a kernel's memory accesses and its faults.

A check runs the kernel's checked build on the CPU device. The extension returns accesses and faults with addresses
in code and memory. This module turns these into source lines and variable names, and makes a `smemkit.Report`.
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
_SAMPLE_BLOCKS = 16  # blocks to check of a large grid
_ALIGNMENT = 256  # bytes: copies of operands are aligned as the operands are, up to this
_TYPE_DEFINITION = re.compile(r"(?:template\b.*)?(?:typedef\s+)?(?:struct|class|union)\b")
# In the source of kernels whose blocks cooperate: a sample of them would wait for the others, or be wrong.
_INTER_BLOCK_SYNC = re.compile(r"\batomic\w*|\b__threadfence|\bcuda\s*::\s*atomic|\bthis_grid\b|\bgrid_group\b")


@dataclass(frozen=True)
class Access:
    """The cost of one request of a warp in shared memory.

    Attributes
    ----------
    wavefronts : int
        Passes of shared memory that the request takes.
    conflicts : int
        The wavefronts that bank conflicts add.
    degree : int
        The most words that one bank has to deliver at once: the n of an "n-way bank conflict", 1 without one.
    groups : int
        Groups of lanes, with at least one active lane, that are served one after the other. There are several if
        the lanes of a warp request more bytes than the banks have.
    banks : tuple of int
        The number of words that each bank delivers.
    """

    wavefronts: int
    conflicts: int
    degree: int
    groups: int
    banks: tuple[int, ...]


def wavefronts(
    addresses: Sequence[int | None], size: int = 4, *, store: bool = False, banks: int = 32, bank_width: int = 4
) -> Access:
    """The wavefronts and bank conflicts of one request of a warp in shared memory.

    Parameters
    ----------
    addresses : sequence of int or None, up to 32
        The byte address that each lane requests, a multiple of `size`; None for an inactive lane. Lanes beyond the
        end of the sequence are inactive.
    size : {4, 1, 2, 8, 16}
        Bytes per lane.
    store : bool
        Whether the request is a store.
    banks : {32, 16, 8, 4, 2}
        The number of banks; 16 on GPUs of compute capability 1.
    bank_width : {4, 8}
        Bytes per word of a bank; 8 on some GPUs of compute capability 3.

    Returns
    -------
    Access

    Raises
    ------
    TypeError, ValueError
        An argument is invalid; the message names it.

    Notes
    -----
    For 32 banks of 4 bytes the result equals the hardware's counts: the tests compare 240 random requests with
    Nsight Compute's counts on an H200. A request is divided into groups of consecutive lanes: 32 lanes for up to 4
    bytes, 16 for 8 bytes, 8 for 16 bytes. A load has groups of twice as many lanes if every lane t has the address
    of lane t^1, or every lane t that of t^2. A group takes as many wavefronts as the busiest bank has distinct
    words to deliver to it. Other numbers and widths of banks are predictions by the same rule: today's GPUs have
    32 banks of 4 bytes.

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
    """Runs a kernel on the CPU device and reports its memory accesses and its faults.

    Parameters
    ----------
    target : function or Launch
        An operation of smemkit, such as `smemkit.transpose`; or a kernel with its launch, ``kernel[grid, block]``,
        see `smemkit.Kernel`.
    *args
        The arguments of the call. A check works on copies: the arrays do not change.
    blocks : {"auto", "all"} or int
        The blocks of each launch to check: all, or this many, which are the first, the last and others between
        them with their neighbours. "auto" means all blocks if they cooperate through atomics or fences, otherwise
        16.
    schedule : {"serial", "lockstep", "random"}
        The order in which the threads of a block run. "serial": each runs up to its next barrier. "lockstep": all
        advance by one access at a time, as code for GPUs older than Volta expects of a warp. "random": any order,
        chosen by `seed`. Every schedule finds races.
    seed : int
    **keywords
        Options of the operation: `kernel`, `tile`, `axis`, …

    Returns
    -------
    Report

    Raises
    ------
    TypeError, ValueError
        An argument is invalid; the message names it.
    CompileError
        The source of a `smemkit.Kernel` does not compile.

    Notes
    -----
    Counts are as written in the source; a GPU's compiler may merge accesses. Accesses are a race unless CUDA's
    memory model orders them: by barriers, `__syncwarp`, fences with atomics, or launches. That includes two
    accesses of the same warp.

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
    block_count = _blocks_to_check(blocks)
    all_blocks_rows = 0
    if hasattr(target, "_checked_call"):
        if keywords:
            raise TypeError(f"{next(iter(keywords))}: a launch of a kernel takes no options of an operation")
        kernel = target.kernel
        sources = {kernel.filename: kernel.source}
        if blocks == "auto" and _INTER_BLOCK_SYNC.search(dialect.mask(kernel.source)):
            block_count = 0

        def run() -> None:
            target._checked_call(*args)

    elif any(target is operation for operation in _operations()):
        if keywords.get("kernel") == "sequential":
            raise ValueError("kernel: expected one that runs on the executor, got 'sequential', which is plain C")
        run = _bind_operation(target, args, keywords)
        kernel, sources = None, {}
        all_blocks_rows = _inter_block_rows() if blocks == "auto" else 0
    else:
        raise TypeError(
            f"target: expected an operation of smemkit or kernel[grid, block], got {_describe(target)}"
        )
    begin = time.perf_counter()
    _load_checked_kernels()
    launches = _core.checked(run, block_count, _SCHEDULES.index(schedule), int(seed), all_blocks_rows)
    reports = tuple(_launch_report(launch, kernel, sources) for launch in launches)
    return Report(reports, time.perf_counter() - begin, sources)


def _blocks_to_check(blocks: str | int) -> int:
    """The number of blocks for `_core.checked`: 0 for all."""
    if blocks == "auto":
        return _SAMPLE_BLOCKS
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
        return "a Kernel without a launch: use check(kernel[grid, block], …)"
    return repr(target) if callable(target) else f"{type(target).__name__}"


def _bind_operation(operation: Callable[..., Any], args: Sequence[Any], keywords: Mapping[str, Any]):
    """A call on the CPU device with copies of the operands and `out`."""
    for name in "device", "stream":
        if keywords.get(name) is not None and not (name == "device" and keywords[name] == "cpu"):
            raise ValueError(f"{name}: a check runs on the CPU device, got {keywords[name]!r}")

    copies = _copies([*args, *keywords.values()])
    args, options = copies[: len(args)], dict(zip(keywords, copies[len(args) :], strict=True)) | {"device": "cpu"}
    inspect.signature(operation).bind(*args, **options)  # raises a TypeError that names the argument
    return lambda: operation(*args, **options)


def _copies(values: Sequence[Any]) -> list[Any]:
    """Copies of the arrays among the values, and the other values. The copies have the same strides and alignment,
    because the counts depend on them, and overlap as the arrays do: `out` may be an operand."""
    arrays = {id(value): value for value in values if isinstance(value, (np.ndarray, _core.Array))}
    addresses = {key: address for key, value in arrays.items() if (address := _address(value)) is not None}
    bounds: list[list[int]] = []  # of disjoint memory ranges
    for low, high in sorted(_byte_bounds(address, arrays[key]) for key, address in addresses.items()):
        if bounds and low < bounds[-1][1]:
            bounds[-1][1] = max(bounds[-1][1], high)
        else:
            bounds.append([low, high])
    ranges = [(low, high, _memory(low, high)) for low, high in bounds]

    def copied(key: int, value: np.ndarray | _core.Array) -> np.ndarray | _core.Array:
        values = value if isinstance(value, np.ndarray) else value.numpy()
        if key in addresses:
            start = addresses[key]
            low, memory = next((low, memory) for low, high, memory in ranges if low <= start < high)
            copy = np.ndarray(value.shape, value.dtype, memory, start - low, value.strides)
            np.copyto(copy, values)
            return copy if value is values else _core.from_dlpack(copy, "cpu", None)
        return value.copy() if value is values else _core.asarray(values, None, "cpu", None)

    copies = {key: copied(key, value) for key, value in arrays.items()}
    return [copies.get(id(value), value) for value in values]


def _address(value: np.ndarray | _core.Array) -> int | None:
    """The address of element 0, …, 0; None if the copy needs no memory of the same layout (an empty array), or
    cannot have it (objects, and an Array of bfloat16, which NumPy's DLPack does not know)."""
    if value.size == 0 or value.dtype.hasobject:
        return None
    if isinstance(value, np.ndarray):
        return value.__array_interface__["data"][0]
    return None if value.dtype.kind == "V" else value.address


def _byte_bounds(address: int, value: np.ndarray | _core.Array) -> tuple[int, int]:
    """The first byte of an array, and the byte after its last one."""
    offsets = [stride * (length - 1) for stride, length in zip(value.strides, value.shape, strict=True)]
    low = address + sum(offset for offset in offsets if offset < 0)
    return low, address + sum(offset for offset in offsets if offset > 0) + value.itemsize


def _memory(low: int, high: int) -> memoryview:
    """New memory for the bytes from `low` to `high`, aligned as they are."""
    memory = np.empty(high - low + _ALIGNMENT, np.uint8)
    start = (low - memory.__array_interface__["data"][0]) % _ALIGNMENT
    return memory[start : start + high - low].data


@cache
def _inter_block_rows() -> int:
    """The rows of the kernel table whose blocks cooperate, as a bit set."""
    return sum(
        1 << index
        for index, row in enumerate(_core.kernel_rows())
        if _INTER_BLOCK_SYNC.search(dialect.mask(table.source(row["op"], row["name"])))
    )


@cache
def _load_checked_kernels() -> None:
    _core.load_checked(str(Path(_core.__file__).with_name("_checked.so")))


# ---- from addresses to lines ----


class _LineTable:
    """The line table of a library: maps an address in its code to a source line."""

    def __init__(self, library: str) -> None:
        self.library = library
        self.known: dict[int, tuple[str, int]] = {}
        self.units: dict[int, tuple[np.ndarray, list[str]]] = {}  # offset of a compilation unit → rows and files

    def look_up(self, addresses: set[int]) -> dict[int, tuple[str, int]]:
        """(file, line) of each return address: those of the instruction before it."""
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
                        self.units[offset] = self._read_cached(debug, offset)
                    self._resolve(*self.units[offset], inside)
        return {address: self.known.get(address, ("", 0)) for address in addresses}

    def _read_cached(self, debug: Any, offset: int) -> tuple[np.ndarray, list[str]]:
        """The line table of a compilation unit, from the user's cache: decoding a large one takes seconds."""
        try:
            folder = compiler.cache_folder()
        except Error:
            return self._read_line_program(debug, offset)
        name = hashlib.sha256(f"{compiler.file_fingerprint(self.library)} {offset}".encode()).hexdigest()[:32]
        entry = folder / f"{name}.npz"
        with contextlib.suppress(OSError, ValueError, KeyError, BadZipFile), np.load(entry) as kept:
            os.utime(entry)
            return kept["rows"], kept["files"].tolist()
        rows, files = self._read_line_program(debug, offset)
        with contextlib.suppress(OSError), tempfile.TemporaryDirectory(prefix=".new-", dir=folder) as new:
            made = Path(new, entry.name)
            np.savez_compressed(made, rows=rows, files=np.array(files))
            made.replace(entry)
        return rows, files

    @staticmethod
    def _read_line_program(debug: Any, offset: int) -> tuple[np.ndarray, list[str]]:
        program = debug.line_program_for_CU(debug.get_CU_at(offset))
        states = [entry.state for entry in program.get_entries() if entry.state]
        rows = np.array([(state.address, state.line, state.file, state.end_sequence) for state in states])
        # a function may begin where another ends: the row of the one that begins comes last and counts
        rows = rows[np.lexsort((-rows[:, 3], rows[:, 0]))]
        files = [entry.name.decode() for entry in program.header.file_entry]
        return rows, files if program.header.version >= 5 else ["", *files]

    def _resolve(self, rows: np.ndarray, files: list[str], addresses: list[int]) -> None:
        at = np.searchsorted(rows[:, 0], np.array(addresses) - 1, side="right") - 1
        for address, (_, line, file, _) in zip(addresses, rows[at].tolist(), strict=True):
            self.known[address] = (files[file], line)


@cache
def _line_table(library: str) -> _LineTable:
    return _LineTable(library)


# ---- from the extension's results to a report ----


class _LaunchSource:
    """The source files of a launch, by the names that messages use, and its parameters' names."""

    def __init__(self, launch: Mapping[str, Any], kernel: Any, sources: Mapping[str, str]) -> None:
        chains = [site["chain"] for site in launch["sites"]]
        chains += [fault[key][0] for fault in launch["faults"] for key in ("place", "other")]
        self.lines = _line_table(launch["library"]).look_up({address for chain in chains for address in chain})
        self.texts = dict(sources)
        self.kernel = kernel
        self.parameters = kernel.parameters if kernel is not None else ()
        self.file_by_base_name: dict[str, str] = {}
        if kernel is None:
            function = re.split(r"[<(]", launch["kernel"])[0]
            for file, text in table.sources().items():
                self.file_by_base_name[Path(file).name] = file
                self.texts[file] = text
                if not self.parameters:
                    self.parameters = _parameter_names(text, function)

    def location(self, location: tuple[tuple[int, ...], str | None, int]) -> tuple[str, int]:
        """File and line of a location that the executor reported, or of a call stack: its innermost entry in the
        author's files that is not the copying of a struct, which the compiler generates."""
        addresses, file, line = location
        if not addresses:
            return self._displayed_file(file or ""), line
        found = [(self._displayed_file(file), line) for file, line in map(self.lines.__getitem__, addresses)]
        return next(
            (at for at in found if at[0] in self.texts and not _TYPE_DEFINITION.match(self.text(*at))),
            next((at for at in found if at[0] in self.texts), found[0]),
        )

    def _displayed_file(self, file: str) -> str:
        if file in self.texts:
            return file
        name = Path(file).name
        return self.file_by_base_name.get(
            name, next((text for text in self.texts if Path(text).name == name), name)
        )

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
    source = _LaunchSource(launch, kernel, sources)
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
        _fault_reports(launch["faults"], source),
        tuple(notes),
    )


def _line_reports(launch: Mapping[str, Any], source: _LaunchSource) -> tuple[LineReport, ...]:
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


_VERB_PRESENT = {"load": "reads", "store": "writes", "atomic": "updates atomically"}
_VERB_PAST = {"load": "read", "store": "wrote", "atomic": "updated atomically"}


def _fault_reports(faults: Sequence[Mapping[str, Any]], source: _LaunchSource) -> tuple[Fault, ...]:
    racy = {
        (*source.location(fault[key]), fault["variable"])
        for fault in faults
        if fault["kind"] == "race"
        for key in ("place", "other")
    }
    reports = []
    for fault in faults:
        (file, line), (other_file, other_line) = source.location(fault["place"]), source.location(fault["other"])
        if fault["kind"] == "uninitialised" and (file, line, fault["variable"]) in racy:
            continue  # part of a race: the other thread has not written it yet
        between_blocks = fault["kind"] == "race" and fault["block"] != fault["other_block"]
        threads = (fault["thread"], fault["other_thread"])[: fault["threads"]]
        reports.append(
            Fault(
                kind=fault["kind"],
                line=line or None,
                other_line=other_line or None,
                block=fault["block"],
                threads=threads,
                variable=_format_variable(fault, source),
                message=_fault_message(fault, source, other_line),
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
        sorted(_merge_faults(reports), key=lambda fault: (order.index(fault.kind), fault.file, fault.line or 0))
    )


def _merge_faults(faults: Sequence[Fault]) -> list[Fault]:
    """Combines faults of the same kind at the same lines."""
    found: dict[tuple[Any, ...], Fault] = {}
    for fault in faults:
        key = (fault.kind, fault.hazard, fault.file, fault.line, fault.other_file, fault.other_line)
        first = found.setdefault(key, fault)
        if first is not fault:  # a race between warps or between blocks says more
            kept = fault if first.warp_synchronous or (fault.other_block and not first.other_block) else first
            found[key] = replace(kept, count=first.count + fault.count)
    return list(found.values())


def _format_variable(fault: Mapping[str, Any], source: _LaunchSource) -> str:
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


def _fault_message(fault: Mapping[str, Any], source: _LaunchSource, other_line: int) -> str:
    what = _format_variable(fault, source) or (
        "a word of global memory" if fault["space"] == "global" else "memory"
    )
    kind = fault["kind"]
    if fault["message"] and kind != "out_of_bounds":
        return fault["message"]
    if kind == "race":
        between_blocks = fault["block"] != fault["other_block"]
        here = _format_thread(fault["thread"], fault["block"] if between_blocks else None)
        other = _format_thread(fault["other_thread"], fault["other_block"] if between_blocks else None)
        verb = _VERB_PRESENT[fault["access"]]
        if fault["async"]:
            return (
                f"{here} {verb} {what} before the asynchronous copy to it, which {other} started at line "
                f"{other_line}, has been waited for"
            )
        return (
            f"{here} {verb} {what}, which {other} {_VERB_PAST[fault['other_access']]} at line {other_line}, and "
            "nothing orders the two"
        )
    here = _format_thread(fault["thread"])
    if kind == "uninitialised":
        return f"{here} reads {what}, which no thread of its block has written"
    if kind == "misaligned":
        size = fault["size"]
        verb = _VERB_PRESENT[fault["access"]]
        return f"{here} {verb} {size} bytes at {what}, which is not a multiple of {size} bytes"
    return f"{here} {_out_of_bounds_message(fault, source, what)}"


def _out_of_bounds_message(fault: Mapping[str, Any], source: _LaunchSource, what: str) -> str:
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
