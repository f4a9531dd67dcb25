"""One exercise: what the reader sees of it, and its grading."""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from html import escape
from importlib.resources import files
from typing import Any

from smemkit.lab.exercises.cases import Case
from smemkit.lab.exercises.grade import WIDTH, Grade
from smemkit.lab.exercises.grading import grade
from smemkit.lab.exercises.limits import Limit

__all__ = ["Exercise"]


@dataclass
class _Progress:
    """What the reader has done with an exercise in this session."""

    submitted: int = 0
    hints: int = 0


@dataclass(frozen=True)
class Exercise:
    """An exercise in CUDA.

    Attributes
    ----------
    name : str
        "barrier-in-the-tree"
    topic : str
        The lesson that it belongs to, such as "reduction".
    task : str
        What to do, in a paragraph.
    hints : tuple of str
        From a nudge to nearly the answer; `hint` gives them one at a time.
    cases : callable
        Makes the hidden inputs.
    limits : tuple of callable
        What a right kernel must keep as well; see limits.py.

    Examples
    --------
    >>> import smemkit.lab
    >>> exercise = smemkit.lab.exercise("barrier-in-the-tree")
    >>> exercise.submit(exercise.template).passed
    False
    """

    name: str
    topic: str
    task: str
    hints: tuple[str, ...] = field(repr=False)
    cases: Callable[[], Iterable[Case]] = field(repr=False)
    limits: tuple[Limit, ...] = field(repr=False, default=())
    _progress: _Progress = field(repr=False, compare=False, default_factory=_Progress)

    @property
    def template(self) -> str:
        """The source to start from."""
        return _read("templates", self.name)

    def submit(self, source: str) -> Grade:
        """Compiles a source, runs it on the hidden inputs, checks it, and compares it with the limits.

        Parameters
        ----------
        source : str
            CUDA C++, with the kernel of the template.

        Returns
        -------
        Grade
            Errors of the compiler and of the kernel are failed grades, not exceptions.
        """
        if not isinstance(source, str):
            raise TypeError(f"source: expected CUDA C++ as str, got {type(source).__name__}")
        self._progress.submitted += 1
        passed, message, report = grade(source, tuple(self.cases()), self.limits)
        return Grade(passed, message, report, self.name, "" if passed else self._next_step())

    def hint(self) -> str:
        """The next hint; after the last one, the last one again."""
        number = min(self._progress.hints, len(self.hints) - 1)
        self._progress.hints = number + 1
        return f"Hint {number + 1} of {len(self.hints)}: {self.hints[number]}"

    def solution(self) -> str:
        """One source that passes. It asks for a submission first.

        Raises
        ------
        RuntimeError
            Nothing was submitted yet.
        """
        if not self._progress.submitted:
            raise RuntimeError(f"{self.name}: submit an attempt first; the template will do")
        return _read("solutions", self.name)

    def _next_step(self) -> str:
        call = f'lab.exercise("{self.name}")'
        if self._progress.hints < len(self.hints):
            return f"{call}.hint() gives hint {self._progress.hints + 1} of {len(self.hints)}."
        return f"{call}.solution() shows a kernel that passes."

    def __str__(self) -> str:
        task = textwrap.fill(self.task, WIDTH, break_on_hyphens=False)
        return f"Exercise {self.name} ({self.topic})\n\n{task}\n\n{self.template}"

    def _repr_pretty_(self, printer: Any, cycle: bool) -> None:
        printer.text(str(self))

    def _repr_html_(self) -> str:
        return (
            f"<b>Exercise {escape(self.name)}</b><p style='max-width:60em'>{escape(self.task)}</p>"
            f"<pre>{escape(self.template)}</pre>"
        )


def _read(folder: str, name: str) -> str:
    return (files("smemkit.lab.exercises") / folder / f"{name}.cu").read_text(encoding="utf-8")
