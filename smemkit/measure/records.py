"""Results recorded on GPUs: the reference files of ``smemkit bench --save``, and their only lookup.

A recorded number belongs to a problem (operation, shape, dtype, warm or cold L2) and a kernel, with the kernel's
default options unless others are named.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from smemkit import _core
from smemkit.measure.ceilings import Ceilings
from smemkit.table.kernel_table import kernels

__all__ = ["REFERENCE", "Records", "all_reports", "newest", "recorded", "reference_reports", "select"]

REFERENCE = Path(__file__).parents[1] / "reference"
NOTABLE_SPEEDUP = 1.1  # options that are this much faster than the defaults are shown, too


@dataclass(frozen=True)
class Records:
    """The rows of one problem in a reference file.

    Attributes
    ----------
    environment : dict
        The hardware, software and date of the measurements.
    op : str
        "matmul", "reduce" or "transpose".
    shape : tuple of int
        The problem's shape, as in the rows.
    rows : tuple of dict
        The fields of `smemkit.bench.rows.Row`: a row per kernel and options, and one for kernel=None.
    """

    environment: dict[str, Any]
    op: str
    shape: tuple[int, ...]
    rows: tuple[dict[str, Any], ...]

    @property
    def where(self) -> str:
        """The GPU and the date."""
        return f"{self.environment['gpu']}, {self.environment['date'][:10]}"

    @property
    def date(self) -> str:
        """The time of the measurement in ISO 8601."""
        return self.environment["date"]

    @property
    def limits(self) -> Ceilings | None:
        """The GPU's ceilings, if they were measured."""
        limits = self.environment.get("ceilings")
        return Ceilings(**limits) if limits else None

    def row(self, kernel: str | None, **options: int) -> dict[str, Any] | None:
        """The row of a kernel, or of kernel=None; None if it was not measured."""
        wanted = default_options(self.op, kernel) | options
        rows = (row for row in self._of(kernel) if default_options(self.op, kernel) | options_of(row) == wanted)
        return next(rows, None)

    def faster(self, kernel: str) -> tuple[str, dict[str, Any]] | None:
        """The options, such as "tile 16", with which the kernel is much faster than with the default ones, and
        their row; None if there are none."""
        default, best = self.row(kernel), max(self._of(kernel), key=lambda row: row["value"], default=None)
        if not default or best["value"] <= NOTABLE_SPEEDUP * default["value"]:
            return None
        return ", ".join(f"{name} {value}" for name, value in options_of(best).items()), best

    def _of(self, kernel: str | None) -> list[dict[str, Any]]:
        return [row for row in self.rows if row["kernel"] == kernel]


def options_of(row: dict[str, Any]) -> dict[str, int]:
    """The options in a row's case, such as "8192 x 8192, tile 32, pad 1"."""
    named = re.findall(r"\b(tile|pad|block_size) (\d+)", row.get("case", ""))
    return {name: int(value) for name, value in named}


def default_options(op: str, kernel: str | None) -> dict[str, int]:
    """A kernel's default options; {} for kernel=None."""
    return next((dict(info.variants[0]) for info in kernels(op) if info.name == kernel), {})


def select(
    report: dict[str, Any], op: str, shape: tuple[int, ...], *, dtype: str = "float32", cold: bool = False
) -> Records:
    """The rows of a problem in a reference file's content, with warm L2, or `cold` (overwritten before each
    launch); for matmul only those in full precision.
    """
    wanted = (op, op, dtype, list(shape), None, cold)
    fields = ("suite", "op", "dtype", "shape", "axis", "cold")
    renamed = _core.renamed_kernels()
    rows = (
        row | {"kernel": renamed.get((op, row["kernel"]), row["kernel"])}
        for row in report["rows"]
        if tuple(row[name] for name in fields) == wanted and row.get("precision") in (None, "highest")
    )
    return Records(report["environment"], op, tuple(shape), tuple(rows))


def newest(reports: Iterable[dict[str, Any]], op: str, shape: tuple[int, ...], **problem: Any) -> list[Records]:
    """The records of a problem in reference files' contents: for each GPU the newest run that measured kernels by
    name and kernel=None. `problem`: as for `select`."""
    found: dict[str, Records] = {}
    for report in reports:
        records = select(report, op, shape, **problem)
        before = found.get(records.environment["gpu"])
        if not (records.row(None) and any(row["kernel"] for row in records.rows)) or (
            before and before.date >= records.date
        ):
            continue
        found[records.environment["gpu"]] = records
    return list(found.values())


def all_reports() -> list[dict[str, Any]]:
    """The contents of all reference files, sorted by name."""
    return [json.loads(path.read_text(encoding="utf-8")) for path in sorted(REFERENCE.glob("*.json"))]


def reference_reports() -> list[dict[str, Any]]:
    """The contents of the reference files of one GPU, the one with the most rows: numbers that are shown together
    come from one GPU.
    """
    reports = all_reports()
    rows: Counter[str] = Counter()
    for report in reports:
        rows[report["environment"]["gpu"]] += len(report["rows"])
    most = max(rows, key=rows.__getitem__, default=None)
    return [report for report in reports if report["environment"]["gpu"] == most]


def recorded(op: str, shape: tuple[int, ...], *, dtype: str = "float32", cold: bool = False) -> list[Records]:
    """The records of a problem on the GPU of `reference_reports`, those of the newest run.

    Examples
    --------
    >>> from smemkit.measure.records import recorded
    >>> [records.environment["gpu"] for records in recorded("transpose", (8192, 8192))]
    ['NVIDIA H200']
    """
    return newest(reference_reports(), op, shape, dtype=dtype, cold=cold)
