"""The checker: reports a kernel's memory accesses and its faults.

A check runs the kernel's checked build on the CPU device. The extension returns accesses and faults with addresses
in code and memory; source_lines.py and findings.py turn these into source lines, variable names and messages.
"""

from __future__ import annotations

import inspect
import re
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import cache
from itertools import chain, count
from pathlib import Path
from typing import Any

import numpy as np

from smemkit import _core, ops
from smemkit.checker.allowances import accept, read_allowances
from smemkit.checker.faults import Fault
from smemkit.checker.findings import launch_reports
from smemkit.checker.launches import LaunchReport
from smemkit.checker.report import Report
from smemkit.cuda_source.lexer import mask
from smemkit.table import kernel_table
from smemkit.user_kernel.array_argument import arrays_of, with_arrays

__all__ = ["check"]

_SCHEDULES = ("serial", "lockstep", "random")
_COMPLETIONS = ("early", "late", "random")  # in the order of enum completion
_SAMPLE_BLOCKS = 16  # blocks to check of a large grid
_ALIGNMENT = 256  # bytes: copies of operands are aligned as the operands are, up to this
# Found in the source of kernels whose blocks cooperate: a sample of blocks would wait for the others, or be wrong.
_INTER_BLOCK_SYNC = re.compile(r"\batomic\w*|\b__threadfence|\bcuda\s*::\s*atomic|\bthis_grid\b|\bgrid_group\b")


def check(
    target: Any,
    *args: Any,
    blocks: str | int = "auto",
    schedule: str = "serial",
    completion: str = "both",
    seed: int = 0,
    **keywords: Any,
) -> Report:
    """Runs a kernel on the CPU device and reports its memory accesses and its faults.

    Parameters
    ----------
    target : function, Launch or Chain
        An operation of smemkit, such as `smemkit.transpose`; or a kernel with its launch, ``kernel[grid, block]``,
        see `smemkit.Kernel`; or several launches that may overlap, see `smemkit.chain`.
    *args
        The arguments of the call. A check works on copies: the arrays do not change.
    blocks : {"auto", "all"} or int
        The blocks of each launch to check: all, or this many, which are the first, the last and others between
        them with their neighbours. "auto" means all blocks of a chain and of those that cooperate through atomics
        or fences, otherwise 16.
    schedule : {"serial", "lockstep", "random"}
        The order in which the threads of a block run. "serial": each runs up to its next barrier. "lockstep": all
        advance by one access at a time, as code for GPUs older than Volta expects of a warp. "random": any order,
        chosen by `seed`. Every schedule finds races.
    completion : {"both", "early", "late", "random"}
        When asynchronous copies complete: at once, only when they are waited for, or either, chosen by `seed`.
        "both" runs the launches early and then, if they have asynchronous copies, late: the report has the counts
        of the last run and the faults of both.
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
    if completion not in ("both", *_COMPLETIONS):
        raise ValueError(f"completion: expected one of both, {', '.join(_COMPLETIONS)}, got {completion!r}")
    if not isinstance(seed, (int, np.integer)) or not 0 <= seed < 2**64:
        raise ValueError(f"seed: expected an integer from 0 to 2**64 - 1, got {seed!r}")
    block_count = _blocks_to_check(blocks)
    all_blocks_rows = None
    if hasattr(target, "_checked_call"):
        if keywords:
            raise TypeError(f"{next(iter(keywords))}: a launch of a kernel takes no options of an operation")
        kernels = target.kernels
        texts = _displayed_sources(kernels)
        sources = {name: text for own in texts for name, text in own.items()}
        is_chain = len(kernels) > 1  # a block may use what any block of another launch has written
        if blocks == "auto" and (
            is_chain or any(_INTER_BLOCK_SYNC.search(mask(text)) for text in sources.values())
        ):
            block_count = 0
        scalars = [_scalars(kernel, own) for kernel, own in zip(kernels, _own_args(target, args), strict=True)]

        def run() -> None:
            target._checked_call(*args)

    elif any(target is operation for operation in _operations()):
        if keywords.get("kernel") == "sequential":
            raise ValueError("kernel: expected one that runs on the executor, got 'sequential', which is plain C")
        bound = [_bind_operation(target, args, keywords)]  # a wrong argument is refused before anything runs

        def run() -> None:
            (bound.pop() if bound else _bind_operation(target, args, keywords))()

        kernels, texts, sources, scalars = (), (), {}, []
        all_blocks_rows = _inter_block_rows() if blocks == "auto" else None
    else:
        raise TypeError(
            "target: expected an operation of smemkit, kernel[grid, block] or a chain of launches, got "
            f"{_describe(target)}"
        )
    allowances = read_allowances(sources)
    begin = time.perf_counter()
    _load_checked_kernels()
    runs: list[tuple[LaunchReport, ...]] = []
    for order in ("early", "late") if completion == "both" else (completion,):
        settings = (_SCHEDULES.index(schedule), int(seed), all_blocks_rows, _COMPLETIONS.index(order))
        launches = _core.checked(run, block_count, *settings)
        reports = launch_reports(launches, kernels, texts, scalars)
        runs.append(tuple(accept(report, allowances) for report in reports))
        if not any(launch["asynchronous"] for launch in launches):
            break
    return Report(_union(runs), time.perf_counter() - begin, sources)


def _union(runs: Sequence[tuple[LaunchReport, ...]]) -> tuple[LaunchReport, ...]:
    """The launches of the last run, with the faults that only earlier ones have. A run that a fault has ended has
    fewer launches."""
    *earlier, launches = runs
    for others in earlier:
        pairs = zip(launches, others, strict=False)
        launches = (
            *(replace(last, faults=_joined(last.faults, other.faults)) for last, other in pairs),
            *launches[len(others) :],
            *others[len(launches) :],
        )
    return launches


def _joined(faults: Sequence[Fault], others: Sequence[Fault]) -> tuple[Fault, ...]:
    """The faults of two runs without duplicates: a fault may have a different second access, or be a consequence
    of another one."""
    known = {_identity(related) for fault in faults for related in (fault, *fault.knock_on)}
    return (*faults, *(fault for fault in others if _identity(fault) not in known))


def _identity(fault: Fault) -> tuple[Any, ...]:
    return fault.kind, fault.hazard, fault.file, fault.line, fault.other_line


def _displayed_sources(kernels: Sequence[Any]) -> tuple[dict[str, str], ...]:
    """The sources of each kernel by the names that messages use. Two files of one name get their kernels' too."""
    known: dict[str, str] = {}
    found = []
    for kernel in kernels:
        own = {}
        for name, text in kernel.sources.items():
            names = chain([name, f"{kernel.name}/{name}"], (f"{kernel.name}-{i}/{name}" for i in count(2)))
            shown = next(shown for shown in names if known.get(shown, text) == text)
            known[shown] = own[shown] = text
        found.append(own)
    return tuple(found)


def _own_args(target: Any, args: Sequence[Any]) -> list[Sequence[Any]]:
    """The arguments of each launch of a target."""
    if not hasattr(target, "launches"):
        return [args]
    if args:
        raise TypeError("args: a chain of launches takes no arguments, for its launches are bound to theirs")
    return [bound.args for bound in target.launches]


def _scalars(kernel: Any, args: Sequence[Any]) -> dict[str, int]:
    """The integer arguments of a kernel, by its parameters' names."""
    names = kernel.parameters if kernel is not None else ()
    return {
        name: int(value) for name, value in zip(names, args, strict=False) if isinstance(value, (int, np.integer))
    }


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

    values = [*args, *keywords.values()]
    copies = with_arrays(values, _copies(arrays_of(values)))
    args, options = copies[: len(args)], dict(zip(keywords, copies[len(args) :], strict=True)) | {"device": "cpu"}
    inspect.signature(operation).bind(*args, **options)  # raises a TypeError that names the argument
    return lambda: operation(*args, **options)


@cache
def _inter_block_rows() -> bytes:
    """A byte for each row of the kernel table: whether the kernel's blocks cooperate."""
    return bytes(
        _INTER_BLOCK_SYNC.search(mask(kernel_table.source(row["op"], row["name"]))) is not None
        for row in _core.kernel_rows()
    )


@cache
def _load_checked_kernels() -> None:
    _core.load_checked(str(Path(_core.__file__).with_name("_checked.so")))


# ---- copies of the operands ----


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
