"""The result of an experiment: a question, rows of numbers, and the verdict that these rows give."""

from __future__ import annotations

import json
import textwrap
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from typing import TYPE_CHECKING, Any

from smemkit.measure.formats import format_number, format_seconds

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["KINDS", "Column", "Experiment", "Row", "known_numbers"]

Row = Mapping[str, Any]
WIDTH = 80
MISSING = "—"
# Where the numbers of a column come from
KINDS = {
    "given": "",
    "claimed": "claimed: what courses and data sheets say.",
    "predicted": "predicted: by the rule, without running anything.",
    "counted": "counted: by the checker on the CPU device, for the accesses as written in the source.",
    "computed": "computed: by the kernel on the CPU device, whose arithmetic is that of the source.",
    "measured": "measured: on {device}.",
    "mixed": "mixed: the CPU's time measured here, in plain C on one core, the GPU's recorded on {recorded_on}.",
    "recorded": "recorded: in another run, on {recorded_on}.",
}
FORMATS: dict[str, Callable[[Any], str]] = {
    "text": str,
    "count": lambda value: f"{value:,}",
    "number": lambda value: f"{value:,.0f}" if value == int(value) and value < 1e4 else format_number(value),
    "tera": lambda value: f"{value / 1e12:.3g}·10¹²",
    "exact": lambda value: f"{value:,.7g}",
    "seconds": format_seconds,
    "percent": lambda value: f"{100 * value:.3g} %",
    "ratio": lambda value: f"{format_number(value)} ×",
    "error": lambda value: f"{value:.1e}",
}


@dataclass(frozen=True)
class Column:
    """A column of an experiment's table.

    Attributes
    ----------
    key : str
        Its key in the rows.
    heading : str
    kind : str
        Where its numbers come from: one of `KINDS`.
    format : {"text", "count", "number", "exact", "seconds", "percent", "ratio", "error"}
    """

    key: str
    heading: str
    kind: str = "given"
    format: str = "text"

    def cell(self, row: Row) -> str:
        """The row's cell: "—" for what is not known."""
        value = row.get(self.key)
        return MISSING if value is None else FORMATS[self.format](value)


@dataclass(frozen=True, repr=False, eq=False)
class Experiment:
    """The result of an experiment of the laboratory.

    Attributes
    ----------
    name, title : str
        "banks", "Bank conflicts".
    question : str
        What it asks.
    rows : tuple of dict
        The numbers, by the keys of `columns`; None for what is not known.
    columns : tuple of Column
    conclude : callable
        ``conclude(rows)`` is the verdict.
    device : str
        The description of the device that it ran on.
    recorded_on : str or None
        GPU and date of the recorded numbers; None if there are none.
    source : str
        The CUDA source of its kernels, or the names of the operations' kernels that it used.
    references : tuple of str
        The sources of what it tests.
    notes : tuple of str
        Further remarks.
    draw : callable or None
        ``draw(experiment)`` is its figure.
    """

    name: str
    title: str
    question: str
    rows: tuple[dict[str, Any], ...]
    columns: tuple[Column, ...]
    conclude: Callable[[Sequence[Row]], str]
    device: str
    recorded_on: str | None = None
    source: str = ""
    references: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    draw: Callable[[Experiment], Figure] | None = None

    @property
    def verdict(self) -> str:
        """What the rows show, in one sentence that is computed from them."""
        return self.conclude(self.rows)

    @property
    def shown(self) -> tuple[Column, ...]:
        """The columns with numbers: without measured and recorded ones that are empty."""
        return tuple(
            column
            for column in self.columns
            if column.kind not in ("measured", "mixed", "recorded") or self._known(column)
        )

    def _known(self, column: Column) -> bool:
        return any(row.get(column.key) is not None for row in self.rows)

    @property
    def labels(self) -> Iterator[str]:
        """Where the numbers come from, a sentence per kind of column."""
        kinds = dict.fromkeys(column.kind for column in self.shown)
        for kind in kinds:
            if KINDS[kind]:
                yield KINDS[kind].format(device=self.device, recorded_on=self.recorded_on)
        recorded = [column for column in self.columns if column.kind == "recorded"]
        missing = [column.heading for column in recorded if not self._known(column)]
        if missing:
            yield f"{', '.join(missing)}: not recorded yet on a reference GPU."
        if any(column.cell(row) == MISSING for column in self.shown for row in self.rows):
            partly = any(c.kind == "recorded" and c.cell(r) == MISSING for c in self.shown for r in self.rows)
            yield f"{MISSING}: not known, {'not recorded, ' * partly}or does not apply."

    # ---- as text ----

    def __str__(self) -> str:
        lines = [*_wrap(f"{self.title}: {self.question}"), "", *self._table(), ""]
        lines += [*_wrap(f"→ {self.verdict}", indent="  "), ""]
        for text in (*self.labels, *self.notes):
            lines += _wrap(text)
        for text in self.references:
            lines += _wrap(f"source: {text}", indent="  ")
        return "\n".join(lines)

    def __repr__(self) -> str:
        return f"<Experiment {self.name}: {self.verdict}>"

    def _table(self) -> list[str]:
        """The table; above the headings, where each column's numbers come from. If it is too wide, it goes without
        recorded columns, the last one first."""
        columns = list(self.shown)
        while True:
            lines = _aligned(columns, self.rows)
            recorded = [column for column in columns if column.kind == "recorded"]
            if not recorded or max(map(len, lines)) <= WIDTH:
                return lines
            columns.remove(recorded[-1])

    # ---- for notebooks, pictures and programs ----

    def _repr_html_(self) -> str:
        head = "".join(
            f"<th><small>{escape(c.kind if c.kind != 'given' else '')}</small><br>{escape(c.heading)}</th>"
            for c in self.shown
        )
        body = "".join(
            "<tr>" + "".join(f"<td>{escape(column.cell(row))}</td>" for column in self.shown) + "</tr>"
            for row in self.rows
        )
        remarks = " ".join((*self.labels, *self.notes))
        sources = "".join(f"<li>{escape(text)}</li>" for text in self.references)
        return (
            f"<h4>{escape(self.title)}</h4><p>{escape(self.question)}</p><table><tr>{head}</tr>{body}</table>"
            f"<p><b>{escape(self.verdict)}</b></p><p><small>{escape(remarks)}</small></p>"
            + (f"<ul>{sources}</ul>" if sources else "")
        )

    def to_dict(self) -> dict[str, Any]:
        """Everything in plain types, for `json.dumps`: "schema" is "smemkit.experiment"."""
        names = ("name", "title", "question", "verdict", "device", "recorded_on", "references", "notes", "source")
        columns = [{"key": c.key, "heading": c.heading, "kind": c.kind} for c in self.columns]
        content = {name: getattr(self, name) for name in names}
        head = {"schema": "smemkit.experiment", "version": 1}
        return json.loads(json.dumps(head | content | {"columns": columns, "rows": self.rows}))

    def plot(self) -> Figure:
        """The experiment as a picture.

        Returns
        -------
        matplotlib.figure.Figure

        Raises
        ------
        ImportError
            Matplotlib is not installed.
        ValueError
            It has no picture.
        """
        if self.draw is None:
            raise ValueError(f"{self.name}: it has no picture")
        return self.draw(self)


def known_numbers(rows: Sequence[Row], key: str) -> tuple[list[float | None], str]:
    """The rows' measured numbers, or else the recorded ones; and the word for them."""
    measured = [row[key] for row in rows]
    if any(number is not None for number in measured):
        return measured, "measured"
    return [row.get(f"recorded_{key}", row.get("recorded")) for row in rows], "recorded"


def _aligned(columns: Sequence[Column], rows: Sequence[Row]) -> list[str]:
    kinds = [column.kind if column.kind != "given" else "" for column in columns]
    cells = [[column.cell(row) for column in columns] for row in rows]
    lines = [kinds, [column.heading for column in columns], *cells]
    widths = [max(len(line[i]) for line in lines) for i in range(len(kinds))]
    left = [column.format == "text" for column in columns]

    def line(texts: Sequence[str]) -> str:
        padded = (
            f"{text:<{width}}" if flush else f"{text:>{width}}"
            for text, width, flush in zip(texts, widths, left, strict=True)
        )
        return "  ".join(padded).rstrip()

    return [line(texts) for texts in lines]


def _wrap(text: str, indent: str = "") -> list[str]:
    return textwrap.wrap(text, WIDTH, subsequent_indent=indent, break_long_words=False) or [""]
