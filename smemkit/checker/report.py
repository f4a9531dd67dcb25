"""The report of a check: its data, as text, as HTML, as figures and as plain types."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from smemkit.checker.excerpts import shorten
from smemkit.checker.faults import Fault
from smemkit.checker.figures import plot
from smemkit.checker.html import html
from smemkit.checker.launches import COUNTS_NOTE, LaunchReport, headline
from smemkit.checker.lines import LineReport
from smemkit.checker.terminal import text

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["Report"]


@dataclass(frozen=True, eq=False, repr=False)
class Report(str):
    """The result of a check. It is also a str, the text that it prints, so that a failed ``assert report.ok,
    report`` shows all of it under pytest.

    Attributes
    ----------
    launches : tuple of LaunchReport
    seconds : float
        The duration of the check.
    sources : mapping of str to str
        The text of the files that lines and faults name, possibly without the library's own kernels.
    """

    launches: tuple[LaunchReport, ...]
    seconds: float
    sources: Mapping[str, str] = field(default_factory=dict)

    def __new__(
        cls, launches: Sequence[LaunchReport], seconds: float, sources: Mapping[str, str] | None = None
    ) -> Report:
        return super().__new__(cls, text(launches, seconds, sources or {}))

    def __post_init__(self) -> None:
        object.__setattr__(self, "launches", tuple(self.launches))

    def __getnewargs__(self) -> tuple[Any, ...]:  # type: ignore[override]
        return self.launches, self.seconds, dict(self.sources)

    @property
    def ok(self) -> bool:
        """Whether there is no error. Warnings and faults that a comment in the source allows leave it True, as do
        bank conflicts and wasted sectors, which cost time."""
        return all(fault.severity != "error" for fault in self.faults)

    @property
    def lines(self) -> tuple[LineReport, ...]:
        """The lines of all launches."""
        return tuple(line for launch in self.launches for line in launch.lines)

    @property
    def faults(self) -> tuple[Fault, ...]:
        """The faults of all launches."""
        return tuple(fault for launch in self.launches for fault in launch.faults)

    @property
    def allowed(self) -> tuple[Fault, ...]:
        """The faults of all launches that comments in the source allow."""
        return tuple(fault for launch in self.launches for fault in launch.allowed)

    @property
    def headline(self) -> str:
        """The report in one line."""
        return headline(self.launches)

    def __repr__(self) -> str:
        return f"<Report {shorten(self.headline, 160)}>"

    def _repr_pretty_(self, printer: Any, cycle: bool) -> None:
        printer.text(str(self))

    def _repr_html_(self) -> str:
        return html(self.launches, self.seconds, self.sources)

    def plot(self) -> Figure:
        """Wavefronts and sectors of each line against the ideal, and the bank map of the worst line.

        Returns
        -------
        matplotlib.figure.Figure

        Raises
        ------
        ImportError
            Matplotlib is not installed.
        """
        return plot(self.launches)

    def to_dict(self) -> dict[str, Any]:
        """The report in plain types, for `json.dumps`.

        Returns
        -------
        dict
            "schema" is "smemkit.report" and "version" 1. Keys may be added; none is removed or changed.
        """
        launches = []
        for launch in self.launches:
            entry = _plain(launch)
            entry["lines"] = [_plain(line) | {"advice": line.advice} for line in launch.lines]
            entry["waits"] = [_plain(wait) for wait in launch.waits]
            for name in "faults", "allowed":
                entry[name] = [_plain_fault(fault) for fault in getattr(launch, name)]
            launches.append(entry)
        faults = [_plain_fault(fault) for fault in self.faults]
        head = {"schema": "smemkit.report", "version": 1, "ok": self.ok, "headline": self.headline}
        return {
            **head,
            "as_written": COUNTS_NOTE,
            "seconds": float(self.seconds),
            "faults": faults,
            "launches": launches,
        }


def _plain_fault(fault: Fault) -> dict[str, Any]:
    """A fault, its fix and the faults folded under it as JSON's types."""
    fix = str(fault.fix)
    words = {"meaning": fault.meaning, "fix": fix, "remedy": fix, "rule": fault.rule}
    edits = {"edits": [_plain(edit) for edit in fault.fix.edits], "shared_bytes": fault.fix.shared_bytes}
    return (
        _plain(fault) | words | edits | {"knock_on": [_plain_fault(consequence) for consequence in fault.knock_on]}
    )


def _plain(data: Any) -> dict[str, Any]:
    """The fields of a dataclass as JSON's types."""

    def plain(value: Any) -> Any:
        if isinstance(value, (tuple, list)):
            return [plain(item) for item in value]
        if value is None or isinstance(value, (bool, str)):
            return value
        if hasattr(value, "__dataclass_fields__"):
            return None  # to_dict fills these in
        return int(value) if hasattr(value, "__index__") else float(value)

    return {name: plain(getattr(data, name)) for name in data.__dataclass_fields__}
