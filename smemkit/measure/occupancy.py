"""Occupancy: how many blocks of a kernel are resident on a multiprocessor, and which resource limits them.

A multiprocessor has limited warps, blocks, registers and shared memory. A block occupies its share of each while
it runs, so the scarcest resource determines the number of resident blocks. Two details go beyond a division:
registers are allocated to warps in units, from the quarter that each of the multiprocessor's four partitions has;
and shared memory is allocated to blocks in units, with one more kilobyte for the driver.

The numbers are from NVIDIA's CUDA programming guide, "Technical Specifications per Compute Capability", and from
`cuda_occupancy.h` in the CUDA toolkit, with which the tests compare this module.
"""

from __future__ import annotations

import operator
import re
from argparse import ArgumentParser, Namespace
from dataclasses import dataclass, field, replace
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any

from smemkit import _core
from smemkit.measure.ptxas import find_resources
from smemkit.user_kernel import launch_text
from smemkit.user_kernel.kernel import Kernel

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["Occupancy", "Resource", "occupancy"]

WARP = 32  # threads
MAX_BLOCK = 1024  # threads
MAX_REGISTERS = 255  # per thread
REGISTERS = 65_536  # per multiprocessor, and at most per block
REGISTER_PORTION = 256  # the allocation unit of a warp
PARTITIONS = 4  # per multiprocessor, each with a quarter of the registers
KIB = 1024

# Compute capability: warps, blocks and KiB of shared memory per multiprocessor.
TABLE = {
    (7, 5): (32, 16, 64),
    (8, 0): (64, 32, 164),
    (8, 6): (48, 16, 100),
    (8, 7): (48, 16, 164),
    (8, 8): (48, 16, 100),
    (8, 9): (48, 24, 100),
    (9, 0): (64, 32, 228),
    (10, 0): (64, 32, 228),
    (10, 3): (64, 32, 228),
    (11, 0): (48, 24, 228),
    (12, 0): (48, 24, 100),
    (12, 1): (48, 24, 100),
}
# The sizes of shared memory in KiB that a carve-out can select; the rest of the memory is L1.
SPLITS = {7: (32, 64)}
SPLITS_SINCE_8 = (0, 8, 16, 32, 64, 100, 132, 164, 196, 228)

_UNITS = {"shared memory": "bytes of shared memory", "launch bounds": "threads of its launch bounds"}


@dataclass(frozen=True)
class Resource:
    """A limited resource of a multiprocessor.

    Attributes
    ----------
    name : str
        "warps", "blocks", "registers", "shared memory" (in bytes); "launch bounds" (in threads) if a block is
        larger than its kernel's `__launch_bounds__` allow.
    per_block : int
        What a block occupies, rounded up to allocation units.
    available : int
        What the multiprocessor has.
    blocks : int
        The number of resident blocks if this were the only limit.
    """

    name: str
    per_block: int
    available: int
    blocks: int


@dataclass(frozen=True)
class Occupancy:
    """A kernel's occupancy of a multiprocessor.

    Attributes
    ----------
    blocks : int
        Resident blocks; 0 if not even one fits and the launch would fail.
    warps : int
        Their warps.
    fraction : float
        `warps` divided by `max_warps`: 1.0 is full.
    limited_by : str
        The limiting resource: "warps", "blocks", "registers", "shared memory" or "launch bounds"; several, as
        "warps, registers", if they limit to the same number.
    block_size : int
        Threads per block.
    max_warps : int
        The most warps that can be resident.
    resources : tuple of Resource
        The limit that each resource sets; without those that a block does not use.
    notes : tuple of str
        Where the numbers of a kernel come from, without a GPU, and what was assumed.
    """

    blocks: int
    warps: int
    fraction: float
    limited_by: str
    block_size: int = field(repr=False, compare=False)
    max_warps: int = field(repr=False, compare=False)
    resources: tuple[Resource, ...] = field(repr=False, compare=False)
    notes: tuple[str, ...] = field(default=(), repr=False, compare=False)

    def __str__(self) -> str:
        return "; ".join([self._summary(), *self.notes])

    def _summary(self) -> str:
        of = f"{self.block_size} thread{'s' * (self.block_size != 1)}"
        if not self.blocks:
            return f"no block of {of} fits: it needs {', '.join(self._too_much())}; limited by {self.limited_by}"
        return (
            f"{self.blocks} block{'s' * (self.blocks != 1)} of {of}, {self.warps} of {self.max_warps} warps per "
            f"multiprocessor: {100 * self.fraction:.3g} %; limited by {self.limited_by}"
        )

    def _too_much(self) -> Iterator[str]:
        for row in self.resources:
            if row.blocks == 0:
                yield f"{row.per_block:,} of {row.available:,} {_UNITS.get(row.name, row.name)}"

    def _repr_html_(self) -> str:
        head = "".join(f"<th>{text}</th>" for text in ("", "per block", "available", "blocks"))
        rows = ""
        for row in self.resources:
            cells = (row.name, f"{row.per_block:,}", f"{row.available:,}", str(row.blocks))
            tag = "th" if row.blocks == self.blocks else "td"
            rows += f"<tr>{''.join(f'<{tag}>{cell}</{tag}>' for cell in cells)}</tr>"
        return f"<table><caption>{escape(str(self))}</caption><tr>{head}</tr>{rows}</table>"


@dataclass(frozen=True)
class _Multiprocessor:
    """A multiprocessor's resources; shared memory in bytes."""

    warps: int
    blocks: int
    shared: int
    shared_per_block: int  # at most, with the driver's part
    reserved: int  # for the driver, per block
    shared_portion: int
    splits: tuple[int, ...]
    registers: int = REGISTERS

    @classmethod
    def of_capability(cls, capability: tuple[int, int]) -> _Multiprocessor:
        warps, blocks, shared = TABLE[capability]
        reserved = KIB if capability >= (8, 0) else 0
        return cls(warps, blocks, shared * KIB, shared * KIB, reserved, **_shared_rules(capability[0]))

    @classmethod
    def of_device(cls, name: str) -> _Multiprocessor:
        """As the driver describes a GPU, whose capability need not be in the table."""
        p = _core.device_properties(name)
        return cls(
            p["max_threads_per_multiprocessor"] // p["warp_size"],
            p["max_blocks_per_multiprocessor"],
            p["shared_per_multiprocessor"],
            p["shared_per_block_optin"] + p["shared_reserved_per_block"],
            p["shared_reserved_per_block"],
            **_shared_rules(p["capability_major"]),
            registers=p["registers_per_multiprocessor"],
        )

    def resources(
        self, block_size: int, shared_bytes: int, registers: int | None, carveout: int | None
    ) -> list[Resource]:
        """The limit that each resource sets."""
        warps = -(-block_size // WARP)
        rows = [
            Resource("warps", warps, self.warps, self.warps // warps),
            Resource("blocks", 1, self.blocks, self.blocks),
        ]
        if registers:
            rows.append(self.registers_of(warps, registers))
        shared = _round_up(shared_bytes + self.reserved, self.shared_portion)
        if shared > self.shared_per_block:
            rows.append(Resource("shared memory", shared, self.shared_per_block, 0))
        elif shared:
            available = self.shared_with_carveout(shared, carveout)
            rows.append(Resource("shared memory", shared, available, available // shared))
        return rows

    def registers_of(self, warps: int, registers: int) -> Resource:
        """The limit that registers set. They are allocated to warps, in each partition from its own quarter."""
        per_warp = _round_up(registers * WARP, REGISTER_PORTION)
        # a block starts only if every partition has room for as many of its warps as the fullest one gets
        needed = per_warp * _round_up(warps, PARTITIONS)
        if needed > self.registers:
            return Resource("registers", needed, self.registers, 0)
        resident = self.registers // PARTITIONS // per_warp * PARTITIONS
        return Resource("registers", per_warp * warps, self.registers, resident // warps)

    def shared_with_carveout(self, shared: int, carveout: int | None) -> int:
        """The multiprocessor's shared memory with a preferred carve-out in percent: the next larger size, and
        enough for one block. The maximum without a preference."""
        wanted = self.shared if carveout is None else max(carveout * self.shared // 100, shared)
        return min((size for size in self.splits if wanted <= size < self.shared), default=self.shared)


def _shared_rules(major: int) -> dict[str, Any]:
    splits = tuple(size * KIB for size in SPLITS.get(major, SPLITS_SINCE_8))
    return {"shared_portion": 256 if major == 7 else 128, "splits": splits}


def occupancy(
    target: Any = None,
    *,
    block_size: int,
    shared_bytes: int = 0,
    registers: int | None = None,
    device: str | None = None,
    capability: tuple[int, int] | str | None = None,
    log: str | Path | None = None,
) -> Occupancy:
    """How many blocks of a kernel are resident on a multiprocessor, and which resource limits them.

    Parameters
    ----------
    target : Kernel, optional
        On a GPU, the compiler provides its registers, static shared memory and launch bounds, and the driver the
        number of blocks. Without a GPU, its static shared memory is that of its source; its registers are those of
        `registers` or of the `log`. Otherwise they are assumed not to limit: the result says so, and is an upper
        bound. None: a kernel with the given numbers.
    block_size : int
        Threads per block, 1 … 1024.
    shared_bytes : int
        Dynamic shared memory per block; without a `target`, all shared memory. More than 48 KB counts as opted in.
    registers : int, optional
        Registers per thread, 0 … 255, as `nvcc -Xptxas -v` prints them. If None, those of `target`; without a
        target, registers are ignored, because up to 32 never limit.
    device : str, optional
        "cuda:0": that GPU. The default device if None.
    capability : (int, int) or str, optional
        (9, 0), "9.0" or "sm_90": any GPU of this compute capability. Required on the CPU device; not allowed
        together with a GPU as `device`.
    log : str or path, optional
        The output of ``nvcc -Xptxas -v``, or a file with it: registers and static shared memory of `target` are
        read from it. Only without a GPU.

    Returns
    -------
    Occupancy
        `blocks` is 0 if not even one block fits.

    Raises
    ------
    TypeError, ValueError
        An argument is invalid; the message names it.
    NoDeviceError
        This machine has no such device.

    Notes
    -----
    Shared memory is assumed to get as much of the memory that it shares with L1 as it needs, unless `target` has a
    carve-out. Clusters, named barriers and tensor memory are ignored, except for a `target` on a GPU, where the
    driver counts them.

    Examples
    --------
    >>> import smemkit
    >>> print(smemkit.occupancy(block_size=256, registers=64, shared_bytes=16384, capability="9.0"))
    4 blocks of 256 threads, 32 of 64 warps per multiprocessor: 50 %; limited by registers
    >>> smemkit.occupancy(block_size=1024, capability="8.6").fraction  # 1536 threads per multiprocessor
    0.6666666666666666
    """
    block_size = _checked("block_size", block_size, 1, MAX_BLOCK, "threads")
    shared_bytes = _checked("shared_bytes", shared_bytes, 0, 2**31 - 1, "bytes")
    if registers is not None:
        registers = _checked("registers", registers, 0, MAX_REGISTERS, "per thread")
    if target is not None and not hasattr(target, "_gpu_function"):
        raise TypeError(f"target: expected a smemkit.Kernel or None, got {type(target).__name__}")
    carveout = getattr(target, "carveout", None)

    gpu = _gpu(device, capability)
    if log is not None and (gpu is not None or target is None):
        raise ValueError(
            "log: expected only with a target and without a GPU; on a GPU the driver knows the kernel's registers"
        )
    if gpu is None:
        capability = _read_capability(capability)
        known = _Known(0, registers) if target is None else _known_of(target, registers, capability, log)
        limits = _Multiprocessor.of_capability(capability)
        rows = limits.resources(block_size, known.static_bytes + shared_bytes, known.registers, carveout)
        return replace(_summary(limits, block_size, rows), notes=known.notes)

    limits = _Multiprocessor.of_device(gpu)
    if target is None:
        return _summary(limits, block_size, limits.resources(block_size, shared_bytes, registers, carveout))
    function = _Function(target._gpu_function(gpu), int(gpu.partition(":")[2]))
    counted = function.registers if registers is None else registers
    rows = limits.resources(block_size, function.static_bytes + shared_bytes, counted, carveout)
    if block_size > function.max_threads and all(row.blocks for row in rows):
        rows.append(Resource("launch bounds", block_size, function.max_threads, 0))
    if registers is not None or not all(row.blocks for row in rows):
        return _summary(limits, block_size, rows)  # the driver has no answer for these numbers, or is not needed
    return _summary(limits, block_size, rows, function.resident_blocks(block_size, shared_bytes, carveout))


@dataclass(frozen=True)
class _Known:
    """What is known of a kernel without a GPU: static shared memory, registers if known, and their sources."""

    static_bytes: int
    registers: int | None
    notes: tuple[str, ...] = ()


def _known_of(target: Any, registers: int | None, capability: tuple[int, int], log: str | Path | None) -> _Known:
    if log is not None:
        found = find_resources(log, target.name or "", f"{capability[0]}{capability[1]}")
        note = f"{found.registers} registers and {found.shared_bytes:,} bytes by nvcc for sm_{found.architecture}"
        return _Known(found.shared_bytes, found.registers if registers is None else registers, (note,))
    if not hasattr(target, "static_shared"):
        if registers is None:
            raise ValueError(
                "registers: required without a GPU, where the kernel's are not known; nvcc -Xptxas -v prints them"
            )
        return _Known(0, registers)
    static = target.static_shared
    notes = [f"{sum(static.values()):,} bytes of static shared memory by the source"] if static else []
    if registers is None:
        notes.append("registers are assumed not to limit, as up to 32 never do; nvcc -Xptxas -v prints them")
    return _Known(sum(static.values()), registers, tuple(notes))


def _gpu(device: str | None, capability: object) -> str | None:
    """The GPU whose limits apply, "cuda:0"; None for a capability or the CPU."""
    if device is None and capability is not None:
        return None
    name = _core.default_device() if device is None else str(device)
    _core.device_properties(name)  # raises for a device that does not exist
    if not name.startswith("cuda"):
        return None
    if capability is not None:
        raise ValueError(f"capability: {name!r} has its own; expected `device` or `capability`, not both")
    return "cuda:0" if name == "cuda" else name


def _read_capability(capability: object) -> tuple[int, int]:
    known = ", ".join(f"{major}.{minor}" for major, minor in TABLE)
    if capability is None:
        raise ValueError(f"capability: the device is 'cpu', which has none; give one of {known}")
    text = ".".join(map(str, capability)) if isinstance(capability, tuple) else str(capability)
    match = re.fullmatch(r"(\d+)\.(\d)|(?:sm_|compute_)(\d+)(\d)[af]?", text)
    found = tuple(int(digits) for digits in match.groups() if digits) if match else None
    if found not in TABLE:
        raise ValueError(f"capability: expected one of {known}; got {capability!r}")
    return found


def _checked(name: str, value: object, low: int, high: int, what: str) -> int:
    try:
        number = operator.index(value)
    except TypeError:
        raise TypeError(f"{name}: expected an integer, got {type(value).__name__}") from None
    if not low <= number <= high:
        raise ValueError(f"{name}: expected {low} ... {high} {what}, got {number}")
    return number


def _round_up(number: int, portion: int) -> int:
    return -(-number // portion) * portion


def _summary(
    multiprocessor: _Multiprocessor, block_size: int, rows: list[Resource], blocks: int | None = None
) -> Occupancy:
    """The occupancy with the driver's number of blocks; with the scarcest resource's if None."""
    if blocks is None:
        blocks = min(row.blocks for row in rows)
    limits = [row.name for row in rows if row.blocks == blocks]
    warps = blocks * -(-block_size // WARP)
    limited_by = ", ".join(limits) or "another resource that the driver counts"
    return Occupancy(
        blocks, warps, warps / multiprocessor.warps, limited_by, block_size, multiprocessor.warps, tuple(rows)
    )


class _Function:
    """A kernel that is loaded on a GPU: the driver's attributes of a CUkernel, given as its address."""

    def __init__(self, handle: int, ordinal: int) -> None:
        from cuda.bindings import driver  # comes with cuda.core, which has loaded the kernel

        self._driver, self._ordinal = driver, ordinal
        self._kernel, self._attributes = driver.CUkernel(handle), driver.CUfunction_attribute

    def _call(self, name: str, *arguments: object) -> Any:
        status, *results = getattr(self._driver, name)(*arguments)
        if status != self._driver.CUresult.CUDA_SUCCESS:
            raise _core.Error(f"{name}: {status.name}")
        return results[0] if results else None

    def _attribute(self, name: str) -> int:
        which = getattr(self._attributes, f"CU_FUNC_ATTRIBUTE_{name}")
        return self._call("cuKernelGetAttribute", which, self._kernel, self._ordinal)

    def _set_attribute(self, name: str, value: int) -> None:
        which = getattr(self._attributes, f"CU_FUNC_ATTRIBUTE_{name}")
        self._call("cuKernelSetAttribute", which, value, self._kernel, self._ordinal)

    @property
    def registers(self) -> int:
        """Per thread."""
        return self._attribute("NUM_REGS")

    @property
    def static_bytes(self) -> int:
        """Static shared memory per block."""
        return self._attribute("SHARED_SIZE_BYTES")

    @property
    def max_threads(self) -> int:
        """The largest block that its launch bounds and its registers allow."""
        return self._attribute("MAX_THREADS_PER_BLOCK")

    def resident_blocks(self, block_size: int, shared_bytes: int, carveout: int | None) -> int:
        """The driver's number, for a launch that opts in to the shared memory that it needs, as smemkit's do."""
        if shared_bytes > self._attribute("MAX_DYNAMIC_SHARED_SIZE_BYTES"):
            self._set_attribute("MAX_DYNAMIC_SHARED_SIZE_BYTES", shared_bytes)
        self._set_attribute("PREFERRED_SHARED_MEMORY_CARVEOUT", -1 if carveout is None else carveout)
        context = self._call("cuDevicePrimaryCtxRetain", self._ordinal)
        try:
            self._call("cuCtxPushCurrent", context)
            try:
                function = self._driver.CUfunction(int(self._kernel))
                name = "cuOccupancyMaxActiveBlocksPerMultiprocessor"
                return self._call(name, function, block_size, shared_bytes)
            finally:
                self._call("cuCtxPopCurrent")
        finally:
            self._call("cuDevicePrimaryCtxRelease", self._ordinal)


def add_arguments(parser: ArgumentParser) -> None:
    """The command line of ``smemkit occupancy``."""
    parser.description = "How many blocks of a kernel fit on a multiprocessor, and what limits them; needs no GPU."
    parser.add_argument(
        "file", nargs="?", metavar="FILE.cu", help="a kernel, whose static shared memory is counted"
    )
    parser.add_argument("--kernel", metavar="NAME", help="the kernel of FILE.cu (optional if it has only one)")
    parser.add_argument("--log", metavar="FILE", help="the output of nvcc -Xptxas -v, with the kernel's registers")
    parser.add_argument("--block-size", type=int, required=True, metavar="THREADS", help="threads per block")
    parser.add_argument("--registers", type=int, metavar="N", help="per thread, as nvcc -Xptxas -v prints them")
    parser.add_argument(
        "--shared-bytes", type=int, default=0, metavar="N", help="per block: dynamic; without FILE.cu static, too"
    )
    launch_text.add_compiler_options(parser)
    where = parser.add_mutually_exclusive_group()
    where.add_argument("--capability", metavar="X.Y", help='a GPU of this compute capability: "9.0", "sm_90"')
    where.add_argument("--device", help='"cuda:0"; the default device if neither is given')
    parser.set_defaults(command=main)


def main(arguments: Namespace) -> int:
    """Runs ``smemkit occupancy``; the exit status is 1 if no block fits."""
    from rich.console import Console
    from rich.table import Table

    if arguments.file is None and (arguments.kernel or arguments.log):
        raise ValueError(f"--{'kernel' if arguments.kernel else 'log'}: goes with a FILE.cu")
    target = None
    if arguments.file is not None:
        options = launch_text.compiler_options(arguments)
        target = Kernel(Path(arguments.file), arguments.kernel, options=options)
    found = occupancy(
        target,
        block_size=arguments.block_size,
        shared_bytes=arguments.shared_bytes,
        registers=arguments.registers,
        device=arguments.device,
        capability=arguments.capability,
        log=arguments.log and Path(arguments.log),
    )
    table = Table(box=None, padding=(0, 2, 0, 0))
    table.add_column("")
    for name in ("per block", "available", "blocks"):
        table.add_column(name, justify="right")
    for row in found.resources:
        style = "bold" if row.blocks == found.blocks else ""
        table.add_row(row.name, f"{row.per_block:,}", f"{row.available:,}", str(row.blocks), style=style)
    console = Console(highlight=False)
    console.print(str(found), soft_wrap=True, markup=False)
    console.print("", table)
    return 0 if found.blocks else 1
