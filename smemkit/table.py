"""The kernel table (kernels/kernels.def) as Python sees it, and the sources that it names."""

from __future__ import annotations

import importlib.resources
import warnings
from dataclasses import dataclass, field
from functools import cache
from itertools import groupby, product
from pathlib import Path

from smemkit import _core

__all__ = ["KernelInfo", "kernels", "reading_order", "source"]

_NEEDS = {"host": "no GPU: plain C", "any": "any GPU", "sm_80": "sm_80 and above", "sm_90a": "sm_90a"}


@dataclass(frozen=True)
class KernelInfo:
    """One kernel: a row of the table.

    Attributes
    ----------
    op, name : str
        What it computes, and its name there: what ``kernel=`` takes.
    needs : str
        "host" (plain C on the CPU), "any" (any GPU), "sm_80", "sm_90a".
    devices : tuple of str
        Where this build can launch it: "cuda", "cpu".
    sizes, pads : tuple of int
        The values of `tile` or `block_size`, and of `pad`; the default first.
    dtypes : tuple of str
        The dtypes of its operands.
    choice : bool
        It is what ``kernel=None`` takes.
    ceiling : bool
        It is not the op, but what the op cannot be faster than.
    order : int
        Its place in the ladder.
    summary, file : str
        Its idea in a line, and its source under kernels/.
    """

    op: str
    name: str
    needs: str
    devices: tuple[str, ...]
    sizes: tuple[int, ...]
    pads: tuple[int, ...]
    dtypes: tuple[str, ...] = field(repr=False)
    choice: bool = field(repr=False)
    ceiling: bool = field(repr=False)
    order: int = field(repr=False)
    summary: str = field(repr=False)
    file: str = field(repr=False)

    @property
    def role(self) -> str:
        """The word for it: "default" where `choice`, "ceiling" where `ceiling`, else ""."""
        return "default" if self.choice else "ceiling" if self.ceiling else ""

    @property
    def size_name(self) -> str:
        """What the operation calls the values in `sizes`: "tile" or "block_size"."""
        return "block_size" if self.op == "reduce" else "tile"

    @property
    def variants(self) -> tuple[dict[str, int], ...]:
        """The keywords of each way to launch it, the default first; a single {} where it has no options.

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
    """The kernels, in the order in which they are worth reading.

    Parameters
    ----------
    op : str, optional
        "matmul", "reduce", …; all of them if None.

    Returns
    -------
    list of KernelInfo
        Those of `op` are its ladder.

    Raises
    ------
    ValueError
        There is no such op; the message lists those that there are.

    Examples
    --------
    >>> import smemkit
    >>> [kernel.name for kernel in smemkit.kernels("reverse")]
    ['static', 'dynamic', 'carved']
    """
    rows = [KernelInfo(**row) for row in _core.kernel_rows()]
    return rows if op is None else _ladder(rows, op)


def _ladder(rows: list[KernelInfo], op: str) -> list[KernelInfo]:
    """The rows of one op."""
    ladder = [row for row in rows if row.op == op]
    if not ladder:
        raise ValueError(f"op: expected one of {', '.join(dict.fromkeys(row.op for row in rows))}; got {op!r}")
    return ladder


def source(op: str, name: str) -> str:
    """The source of a kernel, with its launcher.

    Parameters
    ----------
    op, name : str
        As `kernels` lists them.

    Returns
    -------
    str
        CUDA C++; C for the rungs that run on the host.

    Raises
    ------
    ValueError
        There is no such op, or it has no kernel of that name; the message lists those that there are.

    Examples
    --------
    >>> import smemkit
    >>> "__syncthreads()" in smemkit.source("matmul", "tiled")
    True
    """
    ladder = {row.name: row for row in _ladder(kernels(), op)}
    if renamed := _core.renamed_kernels().get((op, name)):
        warnings.warn(f"name: {name!r} is now called {renamed!r}", DeprecationWarning, stacklevel=2)
        name = renamed
    if name not in ladder:
        raise ValueError(f"name: expected one of {op}'s kernels, {', '.join(ladder)}; got {name!r}")
    return importlib.resources.files("smemkit._kernels").joinpath(ladder[name].file).read_text(encoding="utf-8")


@cache
def sources() -> dict[str, str]:
    """The texts under kernels/ that have kernels or parts of them: "transpose/40_padded.cu" → its text."""
    root = importlib.resources.files("smemkit._kernels")
    files = [file for folder in root.iterdir() if folder.is_dir() for file in folder.iterdir()]
    return {
        f"{Path(str(file)).parent.name}/{file.name}": file.read_text(encoding="utf-8")
        for file in files
        if file.name.endswith((".cu", ".cuh"))
    }


def reading_order() -> str:
    """kernels/README.md: for each op its ladder, from the bottom up, in Markdown."""
    lines = [
        "# The kernels, in reading order",
        "",
        "Generated from kernels.def by `python -m smemkit kernels --markdown`: edit that, not this.",
        "",
        "A file is one rung: the idea, the kernel, its launcher. Read a ladder from the bottom up; the difference",
        "between two rungs is the lesson. The default is what `kernel=None` takes, and the first tile,",
        "block size and pad are what it takes them with.",
    ]
    for op, ladder in groupby(kernels(), key=lambda row: row.op):
        lines += ["", f"## {op}", "", "| kernel | needs | options | idea |", "|---|---|---|---|"]
        for row in ladder:
            options = [f"{row.size_name} {_values(row.sizes)}"] if row.sizes else []
            options += [f"pad {_values(row.pads)}"] if row.pads else []
            idea = f"**{row.role}:** {row.summary}" if row.role else row.summary
            lines.append(f"| [{row.name}]({row.file}) | {_NEEDS[row.needs]} | {'; '.join(options)} | {idea} |")
    return "\n".join(lines) + "\n"


def _values(values: tuple[int, ...]) -> str:
    return ", ".join(map(str, values))
