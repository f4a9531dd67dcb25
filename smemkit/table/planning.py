"""Which kernels a call would launch, without launching them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from smemkit import _core, ops
from smemkit.table.kernel_table import KernelInfo, kernels

__all__ = ["Plan", "PlannedLaunch", "plan"]

NOT_RECORDED = ", not yet run on a GPU"
_SPARSE = (  # halves_suffice in split.cuh
    "where some row or column has mostly small elements and some number has more than 11 bits, or k is less "
    "than 32; float32 in rows and columns with infinities, NaN or a range of more than 2**100"
)
_WIDE = (  # matmul_find_wide_sides in wgmma_residues.cu
    "where some row or column has infinities, NaN or a wide range: its numbers are on average more than "
    "(log2(k) - c) / 2 bits below the power of two above its largest, a zero counting as 64 bits; c is 2 up to "
    "k = 1585, 3 up to 6343, 4 up to 25375, and so on"
)
DECIDED_ON_THE_DEVICE = {  # the paths that a kernel has, and the condition
    "wgmma_single": f"float16; a tile of two bfloat16 per number {_SPARSE}",
    "wgmma_split": f"two float16 per number; a tile of three bfloat16 {_SPARSE}",
    "wgmma_split_small": f"two float16 per number; a tile of three bfloat16 {_SPARSE}",
    "wgmma_residues": f"bytes of an integer per number; a tile in float64 {_WIDE}",
}


@dataclass(frozen=True)
class PlannedLaunch:
    """Consecutive launches of one kernel.

    Attributes
    ----------
    op, kernel : str
        As in `kernels`; ``convert`` changes the dtype or layout of operands.
    options : dict
        Its `tile`, `block_size` or `pad`, if it has one.
    times : int
        The number of launches: for the parts of a large NumPy array, or the matrices of a batch.
    precision : str or None
        The precision in which float32 is multiplied, a value of matmul's `precision`; None for other kernels.
    paths : str or None
        Where the kernel itself decides how it multiplies, on the device: the ways, and the condition.
    recorded : bool
        The kernel has run on a GPU with correct results, in this dtype (transpose: in any): see `KernelInfo`.
    """

    op: str
    kernel: str
    options: dict[str, int]
    times: int = 1
    precision: str | None = None
    recorded: bool = True

    @property
    def paths(self) -> str | None:
        return DECIDED_ON_THE_DEVICE.get(self.kernel)

    def __str__(self) -> str:
        options = "".join(f", {name} {value}" for name, value in self.options.items())
        precision = f", precision {self.precision}" if self.precision else ""
        times = f", {self.times} times" if self.times > 1 else ""
        paths = f", in {self.paths}" if self.paths else ""
        unknown = "" if self.recorded else NOT_RECORDED
        return f"{self.op} {self.kernel}{options}{precision}{times}{paths}{unknown}"


@dataclass(frozen=True)
class Plan:
    """The result of `plan`.

    Attributes
    ----------
    launches : tuple of PlannedLaunch
        In order; empty if nothing has to be computed.
    """

    launches: tuple[PlannedLaunch, ...]

    @property
    def kernels(self) -> tuple[str, ...]:
        """The kernels' names, without ``convert``."""
        return tuple(launch.kernel for launch in self.launches if launch.op != "convert")

    @property
    def precision(self) -> str | None:
        """The precision in which float32 is multiplied; None if none is."""
        return next((launch.precision for launch in self.launches if launch.precision), None)

    def __str__(self) -> str:
        return "\n".join(map(str, self.launches)) or "no launch"


def _row(op: str, name: str) -> KernelInfo:
    return next(row for row in kernels(op) if row.name == name)


def _launch(
    op: str, name: str, size: int, pad: int, precision: str | None, times: int, recorded: bool
) -> PlannedLaunch:
    row, options = _row(op, name), {}
    if row.sizes:
        options[row.size_name] = size
    if row.pads:
        options["pad"] = pad
    return PlannedLaunch(op, name, options, times, precision, recorded)


def plan(op: Callable[..., Any] | str, *args: Any, **kw: Any) -> Plan:
    """The kernels that ``op(*args, **kw)`` would launch.

    It is a dry run: the call's own code decides, but nothing is allocated, copied or computed, and `out` is not
    written.

    Parameters
    ----------
    op : callable or str
        An operation, or its name: ``smemkit.sum``, "sum".
    *args, **kw
        Its arguments.

    Returns
    -------
    Plan
        The names of the kernels and their options; `str` gives a line for each.

    Raises
    ------
    ValueError
        `op` is not an operation's name.
    Exception
        What the operation raises for these arguments.

    Examples
    --------
    >>> import numpy as np, smemkit
    >>> x = np.ones((1000, 40), dtype=np.float32)
    >>> smemkit.plan(smemkit.sum, x, axis=1, device="cpu").kernels
    ('rows',)
    >>> print(smemkit.plan("matmul", x.T, x, tile=16, device="cpu"))
    convert strided
    matmul tiled, tile 16, precision highest
    """
    if isinstance(op, str):
        if op not in ops.__all__:
            raise ValueError(f"op: expected one of {', '.join(sorted(ops.__all__))}, got {op!r}")
        op = getattr(ops, op)
    return Plan(tuple(_launch(*launch) for launch in _core.dry_run(op, args, kw)))
