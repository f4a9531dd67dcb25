"""The grade of a submission: passed or not, and one paragraph that says why."""

from __future__ import annotations

import textwrap
from dataclasses import dataclass, field
from html import escape
from typing import Any

from smemkit.checker.report import Report

__all__ = ["Grade"]

WIDTH = 80


@dataclass(frozen=True)
class Grade:
    """The grade of a submission.

    Attributes
    ----------
    passed : bool
    message : str
        One paragraph: what is wrong, and in which line; or what was found right.
    report : Report or None
        The checker's report of the last launches; None if the source did not compile.
    exercise : str
        The exercise's name.
    next_step : str
        What to do now.
    """

    passed: bool
    message: str
    report: Report | None = field(repr=False)
    exercise: str = ""
    next_step: str = ""

    def __bool__(self) -> bool:
        return self.passed

    def __str__(self) -> str:
        paragraphs = [self.message, *([self.next_step] if self.next_step else [])]
        indent = {"initial_indent": "  ", "subsequent_indent": "  ", "break_on_hyphens": False}
        return "\n".join([self.title, *(textwrap.fill(text, WIDTH, **indent) for text in paragraphs)])

    @property
    def title(self) -> str:
        """The verdict in one line."""
        return f"✓ {self.exercise}: passed" if self.passed else f"✗ {self.exercise}: not yet"

    def _repr_pretty_(self, printer: Any, cycle: bool) -> None:
        printer.text(str(self))

    def _repr_html_(self) -> str:
        colour = "#0072b2" if self.passed else "#d55e00"  # told apart by the colour-blind, and by the sign as well
        border = "solid" if self.passed else "dashed"
        report = ""
        if self.report is not None and not self.passed:
            report = f"<details><summary>The checker's report</summary>{self.report._repr_html_()}</details>"
        following = f"<p style='margin:.3em 0'>{escape(self.next_step)}</p>" if self.next_step else ""
        return (
            f"<div style='border-left:4px {border} {colour};padding:.2em .8em;max-width:60em'>"
            f"<b>{escape(self.title)}</b><p style='margin:.3em 0'>{escape(self.message)}</p>"
            f"{following}{report}</div>"
        )
