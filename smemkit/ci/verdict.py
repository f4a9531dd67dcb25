"""The verdict on a run of checks: what fails, what is known, and the exit status."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from smemkit.ci.baseline import Baseline
from smemkit.ci.fail_on import failing, parse_limits
from smemkit.ci.results import Finding, Outcome

__all__ = ["Judged", "Verdict", "judge"]


@dataclass(frozen=True)
class Judged:
    """An outcome, those of its findings that fail, and those that the baseline knows and that would fail."""

    outcome: Outcome
    failing: tuple[Finding, ...]
    known: tuple[Finding, ...] = ()


@dataclass(frozen=True)
class Verdict:
    """The verdict on a run of checks.

    Attributes
    ----------
    judged : tuple of Judged
    gone : int
        Findings of the baseline that were not found.
    """

    judged: tuple[Judged, ...]
    gone: int = 0

    @property
    def failing(self) -> tuple[Finding, ...]:
        """The findings that fail."""
        return tuple(finding for judged in self.judged for finding in judged.failing)

    @property
    def status(self) -> int:
        """The exit status: 0, 1 if something fails, 2 for wrong use or if nothing could be compiled."""
        outcomes = [judged.outcome for judged in self.judged]
        misused = any(outcome.problem and not outcome.compile_error for outcome in outcomes)
        if misused or all(outcome.report is None for outcome in outcomes):
            return 2
        return 1 if self.failing or any(outcome.compile_error for outcome in outcomes) else 0


def judge(outcomes: Iterable[Outcome], baseline: Baseline | None = None) -> Verdict:
    """Judges each outcome by its own limits, and against the baseline."""
    judged = []
    for outcome in outcomes:
        found = failing(outcome.findings, parse_limits(outcome.check.fail_on))
        # no baseline knows what is wrong in a file that does not compile
        others = [finding for finding in found if finding.kind != "compile"]
        new = [finding for finding in found if finding.kind == "compile"]
        new += baseline.new(others) if baseline else others
        known = tuple(finding for finding in found if not any(finding is other for other in new))
        judged.append(Judged(outcome, tuple(new), known))
    return Verdict(tuple(judged), baseline.gone if baseline else 0)
