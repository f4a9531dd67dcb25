"""``--fail-on race,conflict>=8,sectors>2x``: which findings make a check fail."""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from smemkit.checker.allowances import COST_KINDS
from smemkit.ci.results import FINDING_TITLES, Finding

__all__ = ["DEFAULT", "GRAMMAR", "Limit", "failing", "parse_limits"]

DEFAULT = "errors"
GRAMMAR = (
    f"errors, warnings, a kind of fault ({', '.join(kind for kind in FINDING_TITLES if kind not in COST_KINDS)}), "
    "conflict, conflict>=8, sectors, sectors>2x, or none"
)
_LIMIT = re.compile(r"(?P<kind>[a-z_]+)\s*(?:(?P<operator>>=?)\s*(?P<number>\d+(?:\.\d+)?)\s*(?:x|-way)?)?")
_OPERATORS: dict[str, Callable[[float, float], bool]] = {">=": operator.ge, ">": operator.gt}
_SEVERITIES = {"errors": "error", "error": "error", "warnings": "warning", "warning": "warning"}


@dataclass(frozen=True)
class Limit:
    """One word of the list: a kind or a severity; for costs, what they are compared with."""

    kind: str
    operator: str = ">="
    number: float = 0.0

    def names(self, finding: Finding) -> bool:
        """Whether a finding is one of these."""
        if self.kind in _SEVERITIES:
            return finding.severity == _SEVERITIES[self.kind]
        return finding.kind == self.kind and _OPERATORS[self.operator](finding.value, self.number)


def parse_limits(text: str, where: str = "--fail-on") -> tuple[Limit, ...]:
    """Reads a list such as "race,conflict>=8,sectors>2x".

    Raises
    ------
    ValueError
        A word is not in the grammar, which the message states.

    Examples
    --------
    >>> parse_limits("race, sectors>2x")
    (Limit(kind='race', operator='>=', number=0.0), Limit(kind='sectors', operator='>', number=2.0))
    """
    limits = []
    for word in (word.strip() for word in text.split(",")):
        match = _LIMIT.fullmatch(word)
        known = match and (match["kind"] in FINDING_TITLES or match["kind"] in _SEVERITIES or word == "none")
        if not known or (match["operator"] and match["kind"] not in COST_KINDS):
            raise ValueError(f"{where}: expected a list of {GRAMMAR}; got {word!r}")
        if word != "none":
            limits.append(Limit(match["kind"], match["operator"] or ">=", float(match["number"] or 0)))
    return tuple(limits)


def failing(found: Iterable[Finding], limits: Iterable[Limit]) -> list[Finding]:
    """The findings that the limits name, without those that a comment in the source allows."""
    limits = tuple(limits)
    return [finding for finding in found if finding.allowed is None and any(n.names(finding) for n in limits)]
