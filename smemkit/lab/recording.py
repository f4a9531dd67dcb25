"""What experiments record on a GPU, as rows of the suite ``hierarchy`` of a reference file, and read back."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import wraps
from typing import Any

from smemkit.lab.experiment import Column, Experiment, Row
from smemkit.lab.running import reference_rows

__all__ = ["SUITE", "rows_to_record", "with_recorded_values"]

SUITE = "hierarchy"


def rows_to_record(experiment: Experiment) -> Iterator[dict[str, Any]]:
    """The measured numbers: "op" is the experiment, "case" its row, and either "us" or "unit" and "value"."""
    for column in experiment.columns:
        for row in experiment.rows if column.kind == "measured" else ():
            if (value := row.get(column.key)) is not None:
                number = (
                    {"us": 1e6 * value}
                    if column.format == "seconds"
                    else {"unit": unit_of(column), "value": value}
                )
                yield {"op": experiment.name, "case": case_of(experiment, row)} | number


def case_of(experiment: Experiment, row: Row) -> str:
    """What is varied in a row: "32, 1"."""
    return ", ".join(str(row[column.key]) for column in experiment.columns if column.kind == "given")


def unit_of(column: Column) -> str | None:
    """The unit of a column's numbers; None for times."""
    return None if column.format == "seconds" else column.heading


def with_recorded_values(function: Callable[..., Experiment]) -> Callable[..., Experiment]:
    """Decorates an experiment: its result has what a reference GPU recorded beside what is measured here."""

    @wraps(function)
    def run(*args: Any, **options: Any) -> Experiment:
        return _with_recorded(function(*args, **options))

    return run


def _with_recorded(experiment: Experiment) -> Experiment:
    found: dict[tuple[str, str | None], dict[str, Any]] = {}
    for row in reference_rows(suite=SUITE, op=experiment.name):
        found.setdefault((row["case"], row["unit"]), row)  # the newest comes first
    if not found:
        return experiment
    rows, columns = [dict(row) for row in experiment.rows], list(experiment.columns)
    for column in [column for column in experiment.columns if column.kind == "measured"]:
        key = _recorded_key(experiment.columns, column)
        for row in rows:
            record = found.get((case_of(experiment, row), unit_of(column)))
            if record and row.get(key) is None:
                row[key] = record["us"] / 1e6 if column.format == "seconds" else record["value"]
        if all(known.key != key for known in columns):
            columns.append(Column(key, column.heading, "recorded", column.format))
    on = next(iter(found.values()))["on"]
    where = experiment.recorded_on or f"{on['gpu']}, {on['date'][:10]}"
    return replace(experiment, rows=tuple(rows), columns=tuple(columns), recorded_on=where)


def _recorded_key(columns: Sequence[Column], measured: Column) -> str:
    """The key of the recorded column with the same heading, or a new one."""
    same = (
        c.key
        for c in columns
        if c.kind == "recorded" and (c.heading, c.format) == (measured.heading, measured.format)
    )
    return next(same, f"recorded_{measured.key}")
