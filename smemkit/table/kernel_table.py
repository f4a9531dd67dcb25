"""The kernel table (kernels/kernels.def) and the kernels' sources."""

from __future__ import annotations

import importlib.resources
import warnings
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache
from importlib.abc import Traversable
from itertools import groupby, product

from smemkit import _core

__all__ = ["KernelInfo", "computes", "kernels", "ladder_of", "reading_order", "source"]

_NEEDS = {"host": "no GPU: plain C", "any": "any GPU", "sm_80": "sm_80 and above", "sm_90a": "sm_90a"}


@dataclass(frozen=True)
class KernelInfo:
    """A kernel: a row of the table.

    Attributes
    ----------
    op, name : str
        The operation, and the kernel's name: a value of ``kernel=``.
    needs : str
        "host" (plain C on the CPU), "any" (any GPU), "sm_80", "sm_90a".
    devices : tuple of str
        The devices on which this build can launch it: "cuda", "cpu".
    sizes, pads : tuple of int
        The values of `tile` or `block_size`, and of `pad`; the default first.
    dtypes : tuple of str
        The dtypes of its operands.
    precision : str
        "high" if it multiplies float32 in TF32, otherwise "highest".
    role : str
        "rung" (a lesson of the ladder), "production" (``kernel=None`` may choose it), or "ceiling" (not the op,
        but an upper bound on its speed).
    default : bool
        ``kernel=None`` chooses it, unless the op's policy prefers a production kernel.
    recorded_dtypes : tuple of str
        The dtypes in which it has run on a GPU with correct results, as a reference file of smemkit shows; on a
        GPU, ``kernel=None`` chooses no others, unless no kernel of the op is recorded in the dtype. All of them,
        for what the benchmark does not measure: "sequential" and small operations such as ``convert``.
    order : int
        The rung's position in the ladder; 0 for production kernels.
    summary, file : str
        Its idea in one line, and the path of its source below kernels/.
    """

    op: str
    name: str
    needs: str
    devices: tuple[str, ...]
    sizes: tuple[int, ...]
    pads: tuple[int, ...]
    dtypes: tuple[str, ...] = field(repr=False)
    precision: str = field(repr=False)
    role: str = field(repr=False)
    default: bool = field(repr=False)
    recorded_dtypes: tuple[str, ...] = field(repr=False)
    order: int = field(repr=False)
    summary: str = field(repr=False)
    file: str = field(repr=False)

    @property
    def recorded(self) -> bool:
        """Whether it has run on a GPU with correct results, in any dtype."""
        return bool(self.recorded_dtypes)

    @property
    def choice(self) -> bool:
        """The former name of `default`."""
        warnings.warn("KernelInfo.choice: it is now called default", DeprecationWarning, stacklevel=2)
        return self.default

    @property
    def ceiling(self) -> bool:
        """The former name of ``role == "ceiling"``."""
        warnings.warn('KernelInfo.ceiling: it is now role == "ceiling"', DeprecationWarning, stacklevel=2)
        return self.role == "ceiling"

    @property
    def label(self) -> str:
        """A prefix of the summary in lists: "default", "production", "ceiling" or ""."""
        return "default" if self.default else "" if self.role == "rung" else self.role

    @property
    def idea(self) -> str:
        """The summary, and a note if the kernel has not yet run on a GPU."""
        return self.summary + ("" if self.recorded else " (not yet run on a GPU)")

    @property
    def size_name(self) -> str:
        """The keyword that takes the values in `sizes`: "tile" or "block_size"."""
        return "block_size" if self.op == "reduce" else "tile"

    @property
    def variants(self) -> tuple[dict[str, int], ...]:
        """All combinations of its options as keywords, the default first; a single {} if it has no options.

        Examples
        --------
        >>> import smemkit
        >>> smemkit.kernels("matmul")[2].variants[0]
        {'tile': 32}
        """
        options = {self.size_name: self.sizes, "pad": self.pads}
        options = {name: values for name, values in options.items() if values}
        return tuple(dict(zip(options, values, strict=True)) for values in product(*options.values()))


def kernels(op: str | None = None) -> list[KernelInfo]:
    """The kernels: for each op its ladder in reading order, then its production kernels.

    Parameters
    ----------
    op : str, optional
        "matmul", "reduce", …; all of them if None.

    Returns
    -------
    list of KernelInfo

    Raises
    ------
    ValueError
        There is no such op; the message lists all.

    Examples
    --------
    >>> import smemkit
    >>> [kernel.name for kernel in smemkit.kernels("reverse")]
    ['static', 'dynamic', 'carved']
    """
    rows = [KernelInfo(**row) for row in _core.kernel_rows()]
    return rows if op is None else _rows_of(rows, op)


def _rows_of(rows: list[KernelInfo], op: str) -> list[KernelInfo]:
    found = [row for row in rows if row.op == op]
    if not found:
        raise ValueError(f"op: expected one of {', '.join(dict.fromkeys(row.op for row in rows))}; got {op!r}")
    return found


def ladder_of(op: str, dtype: str | None = None) -> list[KernelInfo]:
    """The rungs of an op and its ceilings, from the bottom up: those of all dtypes, or of one, at its own
    precision."""
    rows = [row for row in kernels(op) if row.role != "production"]
    return rows if dtype is None else [row for row in rows if computes(row, dtype)]


def computes(row: KernelInfo, dtype: str) -> bool:
    """Whether a kernel takes a dtype, and computes at the dtype's own precision: not float32 in TF32."""
    return dtype in row.dtypes and (dtype != "float32" or row.precision == "highest")


def source(op: str, name: str) -> str:
    """The source of a kernel, with its launcher.

    Parameters
    ----------
    op, name : str
        As in `kernels`.

    Returns
    -------
    str
        CUDA C++; C for the rungs that run on the host.

    Raises
    ------
    ValueError
        There is no such op, or it has no such kernel; the message lists all.

    Examples
    --------
    >>> import smemkit
    >>> "__syncthreads()" in smemkit.source("matmul", "tiled")
    True
    """
    rows = {row.name: row for row in _rows_of(kernels(), op)}
    if renamed := _core.renamed_kernels().get((op, name)):
        warnings.warn(f"name: {name!r} is now called {renamed!r}", DeprecationWarning, stacklevel=2)
        name = renamed
    if name not in rows:
        raise ValueError(f"name: expected one of {op}'s kernels, {', '.join(rows)}; got {name!r}")
    return importlib.resources.files("smemkit._kernels").joinpath(rows[name].file).read_text(encoding="utf-8")


@cache
def sources() -> dict[str, str]:
    """The .cu and .cuh files below kernels/: their texts, by path ("transpose/ladder/40_padded.cu")."""
    return dict(_sources_in(importlib.resources.files("smemkit._kernels"), ""))


def _sources_in(folder: Traversable, path: str) -> Iterator[tuple[str, str]]:
    for entry in folder.iterdir():
        if entry.is_dir():
            yield from _sources_in(entry, f"{path}{entry.name}/")
        elif entry.name.endswith((".cu", ".cuh")):
            yield path + entry.name, entry.read_text(encoding="utf-8")


def reading_order() -> str:
    """kernels/README.md: for each op its ladder, from the bottom up, and its production kernels, in Markdown."""
    lines = [
        "# The kernels, in reading order",
        "",
        "Generated from kernels.def by `python -m smemkit kernels --markdown`: edit that, not this.",
        "",
        "A file in `ladder/` is one rung: the idea, the kernel, its launcher. Read a ladder from the bottom up:",
        "the difference between two rungs is the lesson. The files in `production/` are as long as they need to",
        "be: `kernel=None` chooses among these kernels, for every shape, dtype and layout, and a few rungs where",
        "they are faster. The default is chosen unless the op's policy (`csrc/ops/`) prefers another one. The",
        "first tile, block size and pad are the defaults.",
        "",
        *_HOW_TO_ADD,
    ]
    for op, rows in groupby(kernels(), key=lambda row: row.op):
        lines += ["", f"## {op}", *_table([row for row in rows if row.role != "production"])]
        if production := [row for row in kernels(op) if row.role == "production"]:
            lines += ["", f"### {op}, in production", *_table(production)]
    return "\n".join(lines) + "\n"


_HOW_TO_ADD = [
    "- **A rung**: one file in `ladder/`, one row in `kernels.def`. Build, tests and benchmarks follow.",
    "- **A production kernel**: one file in `production/`, one row, and a rule in the policy under `csrc/ops/`.",
    "- **A dtype**: its bit and name in `kernels.h` and `csrc/python/dtypes.c`, its type in `common/types.cuh`.",
    "- **An operation**: its arguments as a struct in `kernels.h`, its folder here, its file in `csrc/ops/`, its",
    "  function in `smemkit/ops.py`.",
    "- **A device**: an implementation of `csrc/device/device.h`.",
]


def _table(rows: list[KernelInfo]) -> Iterator[str]:
    """The rows as a table in Markdown."""
    yield from ["", "| kernel | needs | options | idea |", "|---|---|---|---|"]
    for row in rows:
        options = [f"{row.size_name} {_values(row.sizes)}"] if row.sizes else []
        options += [f"pad {_values(row.pads)}"] if row.pads else []
        idea = f"**{row.label}:** {row.summary}" if row.label in ("default", "ceiling") else row.summary
        yield f"| [{row.name}]({row.file}) | {_NEEDS[row.needs]} | {'; '.join(options)} | {idea} |"


def _values(values: tuple[int, ...]) -> str:
    return ", ".join(map(str, values))
