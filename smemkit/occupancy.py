"""Occupancy: how many blocks of a kernel a multiprocessor holds at once, and what keeps it from holding more.

A multiprocessor has so many warps, blocks, registers and bytes of shared memory to give. A block takes its share
of each when it starts and gives it back when it ends, so the scarcest of them says how many blocks are resident.
Two roundings make this more than a division: registers go to warps in portions, each partition of a multiprocessor
handing out its own quarter, and shared memory goes to blocks in portions, with a kilobyte more for the driver.

The numbers are those of NVIDIA's CUDA programming guide, "Technical Specifications per Compute Capability", and of
`cuda_occupancy.h` in the CUDA toolkit, which the tests hold this module against.
"""

from __future__ import annotations

import operator
import re
from argparse import ArgumentParser, Namespace
from dataclasses import dataclass, field
from html import escape
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.table import Table

from smemkit import _core

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["Occupancy", "Resource", "occupancy"]

WARP = 32  # threads
MAX_BLOCK = 1024  # threads
MAX_REGISTERS = 255  # a thread
REGISTERS = 65_536  # of a multiprocessor, and the most that a block may take
REGISTER_PORTION = 256  # of a warp
PARTITIONS = 4  # of a multiprocessor, each with its own quarter of the registers
KIB = 1024

# Compute capability: the warps, the blocks and the KiB of shared memory of a multiprocessor.
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
# The KiB of shared memory among which a carve-out chooses, up to what there is; the rest of the memory is L1.
SPLITS = {7: (32, 64)}
SPLITS_SINCE_8 = (0, 8, 16, 32, 64, 100, 132, 164, 196, 228)

_UNITS = {"shared memory": "bytes of shared memory", "launch bounds": "threads of its launch bounds"}


@dataclass(frozen=True)
class Resource:
    """One of the things of which a multiprocessor has only so much.

    Attributes
    ----------
    name : str
        "warps", "blocks", "registers", "shared memory" (in bytes); "launch bounds" (in threads) where a block is
        larger than its kernel's `__launch_bounds__` allow.
    per_block : int
        What a block takes of it, as it is handed out.
    available : int
        What there is.
    blocks : int
        How many blocks there would be if nothing else were scarce.
    """

    name: str
    per_block: int
    available: int
    blocks: int


@dataclass(frozen=True)
class Occupancy:
    """How much of a multiprocessor a kernel keeps busy.

    Attributes
    ----------
    blocks : int
        Blocks that are resident at once; 0 where not even one fits and the launch would fail.
    warps : int
        Their warps.
    fraction : float
        `warps` of the most that a multiprocessor holds: 1.0 is full.
    limited_by : str
        The resource that allows no more: "warps", "blocks", "registers", "shared memory" or "launch bounds";
        several of them, as "warps, registers", where they end at the same number.
    block_size : int
        Threads a block.
    max_warps : int
        The most warps that a multiprocessor holds.
    resources : tuple of Resource
        What each resource alone would allow; one that a block takes nothing of is not among them.
    """

    blocks: int
    warps: int
    fraction: float
    limited_by: str
    block_size: int = field(repr=False, compare=False)
    max_warps: int = field(repr=False, compare=False)
    resources: tuple[Resource, ...] = field(repr=False, compare=False)

    def __str__(self) -> str:
        of = f"{self.block_size} thread{'s' * (self.block_size != 1)}"
        if not self.blocks:
            return f"no block of {of} fits: it takes {', '.join(self._too_much())}; limited by {self.limited_by}"
        return (
            f"{self.blocks} block{'s' * (self.blocks != 1)} of {of}, {self.warps} of {self.max_warps} warps a "
            f"multiprocessor: {100 * self.fraction:.3g} %; limited by {self.limited_by}"
        )

    def _too_much(self) -> Iterator[str]:
        for row in self.resources:
            if row.blocks == 0:
                yield f"{row.per_block:,} of {row.available:,} {_UNITS.get(row.name, row.name)}"

    def _repr_html_(self) -> str:
        head = "".join(f"<th>{text}</th>" for text in ("", "a block takes", "there are", "blocks"))
        rows = ""
        for row in self.resources:
            cells = (row.name, f"{row.per_block:,}", f"{row.available:,}", str(row.blocks))
            tag = "th" if row.blocks == self.blocks else "td"
            rows += f"<tr>{''.join(f'<{tag}>{cell}</{tag}>' for cell in cells)}</tr>"
        return f"<table><caption>{escape(str(self))}</caption><tr>{head}</tr>{rows}</table>"


@dataclass(frozen=True)
class _Multiprocessor:
    """What a multiprocessor has to give; shared memory in bytes."""

    warps: int
    blocks: int
    shared: int
    shared_a_block: int  # the most that a block gets, the driver's part included
    reserved: int  # the driver's part of each block's shared memory
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
        """As the driver describes a GPU: also one whose capability is not in the table."""
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
        """What each resource alone would allow."""
        warps = -(-block_size // WARP)
        rows = [
            Resource("warps", warps, self.warps, self.warps // warps),
            Resource("blocks", 1, self.blocks, self.blocks),
        ]
        if registers:
            rows.append(self.registers_of(warps, registers))
        shared = _round_up(shared_bytes + self.reserved, self.shared_portion)
        if shared > self.shared_a_block:
            rows.append(Resource("shared memory", shared, self.shared_a_block, 0))
        elif shared:
            there = self.carved(shared, carveout)
            rows.append(Resource("shared memory", shared, there, there // shared))
        return rows

    def registers_of(self, warps: int, registers: int) -> Resource:
        """What the registers allow, which are handed out to warps, in each partition from its own quarter."""
        a_warp = _round_up(registers * WARP, REGISTER_PORTION)
        # a block starts only if each partition could hold as many of its warps as the fullest one
        needed = a_warp * _round_up(warps, PARTITIONS)
        if needed > self.registers:
            return Resource("registers", needed, self.registers, 0)
        resident = self.registers // PARTITIONS // a_warp * PARTITIONS
        return Resource("registers", a_warp * warps, self.registers, resident // warps)

    def carved(self, shared: int, carveout: int | None) -> int:
        """The shared memory of a multiprocessor where a carve-out, in percent, is preferred: the next size up, and
        at least enough for one block. All of it without a preference."""
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
) -> Occupancy:
    """How many blocks a multiprocessor holds at once, and what keeps it from holding more.

    Parameters
    ----------
    target : Kernel, optional
        On a GPU its registers, its static shared memory and its launch bounds are the compiler's, and the number
        of blocks is the driver's. Without a GPU no compiler has counted them: `registers` is required, and
        `shared_bytes` has to include the static arrays. None for a kernel of which the numbers alone are known.
    block_size : int
        Threads a block, 1 … 1024.
    shared_bytes : int
        Dynamic shared memory of a block; without a `target` all of it. More than 48 KB counts as opted in.
    registers : int, optional
        Registers a thread, 0 … 255, as `nvcc -Xptxas -v` prints them. If None: those of `target`, and without it
        they are left out of account; up to 32 are never the scarcest resource.
    device : str, optional
        "cuda:0": that GPU. The default device if None.
    capability : (int, int) or str, optional
        (9, 0), "9.0" or "sm_90": a GPU of this compute capability, which need not be here. On the CPU device it
        has to be given; it does not go together with a GPU as `device`.

    Returns
    -------
    Occupancy
        `blocks` is 0 where not even one block fits.

    Raises
    ------
    TypeError, ValueError
        An argument is not what is required; the message names it.
    NoDeviceError
        The device is not here.

    Notes
    -----
    All of the memory that shared memory and L1 share counts as shared where it is needed, unless the carve-out of
    `target` says otherwise. Clusters, named barriers and tensor memory are left out of account but for a `target`
    on a GPU, where the driver counts them.

    Examples
    --------
    >>> import smemkit
    >>> print(smemkit.occupancy(block_size=256, registers=64, shared_bytes=16384, capability="9.0"))
    4 blocks of 256 threads, 32 of 64 warps a multiprocessor: 50 %; limited by registers
    >>> smemkit.occupancy(block_size=1024, capability="8.6").fraction  # 1536 threads a multiprocessor
    0.6666666666666666
    """
    block_size = _checked("block_size", block_size, 1, MAX_BLOCK, "threads")
    shared_bytes = _checked("shared_bytes", shared_bytes, 0, 2**31 - 1, "bytes")
    if registers is not None:
        registers = _checked("registers", registers, 0, MAX_REGISTERS, "a thread")
    if target is not None and not hasattr(target, "_gpu_function"):
        raise TypeError(f"target: expected a smemkit.Kernel or None, got {type(target).__name__}")
    carveout = getattr(target, "carveout", None)

    gpu = _gpu(device, capability)
    if gpu is None:
        if target is not None and registers is None:
            raise ValueError(
                "registers: without a GPU those of the kernel are not known; give them, as nvcc -Xptxas -v "
                "prints them"
            )
        there = _Multiprocessor.of_capability(_read_capability(capability))
        return _summary(there, block_size, there.resources(block_size, shared_bytes, registers, carveout))

    there = _Multiprocessor.of_device(gpu)
    if target is None:
        return _summary(there, block_size, there.resources(block_size, shared_bytes, registers, carveout))
    function = _Function(target._gpu_function(gpu), int(gpu.partition(":")[2]))
    counted = function.registers if registers is None else registers
    rows = there.resources(block_size, function.static_bytes + shared_bytes, counted, carveout)
    if block_size > function.max_threads and all(row.blocks for row in rows):
        rows.append(Resource("launch bounds", block_size, function.max_threads, 0))
    if registers is not None or not all(row.blocks for row in rows):
        return _summary(there, block_size, rows)  # a question that the driver cannot be asked, or need not
    return _summary(there, block_size, rows, function.resident_blocks(block_size, shared_bytes, carveout))


def _gpu(device: str | None, capability: object) -> str | None:
    """The GPU that is asked, "cuda:0"; None where a capability or the CPU is."""
    if device is None and capability is not None:
        return None
    name = _core.default_device() if device is None else str(device)
    _core.device_properties(name)  # refuses what is no device, or not here
    if not name.startswith("cuda"):
        return None
    if capability is not None:
        raise ValueError(f"capability: {name!r} has its own; give `device` or `capability`, not both")
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
    there: _Multiprocessor, block_size: int, rows: list[Resource], blocks: int | None = None
) -> Occupancy:
    """The occupancy where `blocks` is the driver's word; the scarcest resource's if None."""
    if blocks is None:
        blocks = min(row.blocks for row in rows)
    limits = [row.name for row in rows if row.blocks == blocks]
    warps = blocks * -(-block_size // WARP)
    limited_by = ", ".join(limits) or "another resource that the driver counts"
    return Occupancy(blocks, warps, warps / there.warps, limited_by, block_size, there.warps, tuple(rows))


class _Function:
    """A kernel that is loaded on a GPU, a CUkernel's address, as the driver knows it."""

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
        """A thread's."""
        return self._attribute("NUM_REGS")

    @property
    def static_bytes(self) -> int:
        """Shared memory that a block has without asking."""
        return self._attribute("SHARED_SIZE_BYTES")

    @property
    def max_threads(self) -> int:
        """The largest block that its launch bounds and its registers allow."""
        return self._attribute("MAX_THREADS_PER_BLOCK")

    def resident_blocks(self, block_size: int, shared_bytes: int, carveout: int | None) -> int:
        """The driver's word, for a launch that opts in to the shared memory that it needs, as launches here do."""
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
    parser.add_argument("--block-size", type=int, required=True, metavar="THREADS", help="threads a block")
    parser.add_argument("--registers", type=int, metavar="N", help="a thread, as nvcc -Xptxas -v prints them")
    parser.add_argument("--shared-bytes", type=int, default=0, metavar="N", help="a block, static and dynamic")
    where = parser.add_mutually_exclusive_group()
    where.add_argument("--capability", metavar="X.Y", help=f'"9.0", "sm_90": one of {len(TABLE)} in a table')
    where.add_argument("--device", help='"cuda:0"; the default device if neither is given')
    parser.set_defaults(command=main)


def main(arguments: Namespace) -> int:
    """Runs ``smemkit occupancy``; the exit status is 1 where no block fits."""
    found = occupancy(
        block_size=arguments.block_size,
        shared_bytes=arguments.shared_bytes,
        registers=arguments.registers,
        device=arguments.device,
        capability=arguments.capability,
    )
    table = Table(box=None, padding=(0, 2, 0, 0))
    table.add_column("")
    for name in ("a block takes", "there are", "blocks"):
        table.add_column(name, justify="right")
    for row in found.resources:
        style = "bold" if row.blocks == found.blocks else ""
        table.add_row(row.name, f"{row.per_block:,}", f"{row.available:,}", str(row.blocks), style=style)
    console = Console(highlight=False)
    console.print(str(found), soft_wrap=True, markup=False)
    console.print("", table)
    return 0 if found.blocks else 1
