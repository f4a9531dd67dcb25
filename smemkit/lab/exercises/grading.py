"""Grades a submission. The first thing that is wrong decides: the compiler, then for each hidden input the
launch, the checker's faults and the results, then for each input the limits."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from smemkit import _core
from smemkit.checker.faults import Fault
from smemkit.checker.launches import as_sentence
from smemkit.checker.report import Report
from smemkit.lab.exercises.cases import Case, first_difference, run, total
from smemkit.lab.exercises.limits import Limit
from smemkit.measure.formats import pluralize
from smemkit.user_kernel.kernel import Kernel

__all__ = ["grade"]

_LIMIT_MISSED = "The results are right, but a limit of the task is not kept"


class _FailedError(Exception):
    """A submission does not pass."""

    def __init__(self, message: str, report: Report | None = None):
        super().__init__(message)
        self.message, self.report = message, report


def grade(source: str, cases: Sequence[Case], limits: Sequence[Limit]) -> tuple[bool, str, Report | None]:
    """Whether a source passes, the paragraph that says why, and the last report."""
    try:
        kernel = _compile(source)
        reports = [_run(case, kernel) for case in cases]
        for case, report in zip(cases, reports, strict=True):
            for limit in limits:
                if problem := limit(case, report, source):
                    raise _FailedError(f"{_LIMIT_MISSED} ({case.label}). {problem}.", report)
    except _FailedError as failed:
        return False, failed.message, failed.report
    kept = ", and the limits are kept" if limits else ""
    inputs = pluralize(len(cases), "hidden input")
    return True, f"Right results for {inputs}, no fault found by the checker{kept}.", reports[-1]


def _compile(source: str) -> Kernel:
    if not source.strip():
        raise _FailedError("The submission is empty.")
    try:
        return Kernel._to_check(source, None, options=())
    except (ValueError, _core.Error) as error:
        raise _FailedError(f"This does not compile: {_first_line(error)}.") from error


def _run(case: Case, kernel: Kernel) -> Report:
    """The report of a case's launches, if they are right."""
    reports: list[Report] = []
    arrays: Any = case.arrays
    try:
        for report, results in run(case, kernel):
            arrays = results
            reports.append(report)
            if not report.ok:
                fault = next(fault for fault in report.faults if fault.severity == "error")
                raise _FailedError(_fault_text(case, fault), total(reports))
    except _core.CompileError as error:
        raise _FailedError(_compiler_text(error)) from error
    except (ValueError, TypeError, KeyError, _core.Error) as error:
        text = f"With {case.label} the kernel could not run: {_first_line(error)}."
        raise _FailedError(text, total(reports) if reports else None) from error
    found = total(reports)
    if difference := first_difference(case, arrays):
        raise _FailedError(
            f"With {case.label} the checker finds no fault, but the result is wrong: {difference}.", found
        )
    return found


def _compiler_text(error: Any) -> str:
    if error.line is None:
        return f"This does not compile: {_first_line(error)}."
    reason = _first_line(error).partition(": ")[2] or _first_line(error)
    return f"This does not compile. Line {error.line}, `{(error.text or '').strip()}`: {as_sentence(reason)}"


def _first_line(error: BaseException) -> str:
    return str(error.args[0] if error.args else error).partition("\n")[0].rstrip(".")


def _fault_text(case: Case, fault: Fault) -> str:
    """A fault in one paragraph: where, what, and what such a fault means."""
    where = f"line {fault.line}, `{fault.text.strip()}`" if fault.line else "the kernel"
    message = as_sentence(fault.message or fault.title)
    return " ".join(filter(None, (f"With {case.label}, {where}: {fault.title}.", message, fault.meaning)))
