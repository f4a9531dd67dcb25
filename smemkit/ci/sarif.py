"""A verdict as SARIF 2.1.0, the format of OASIS that code scanning and editors read.

Source: https://docs.oasis-open.org/sarif/sarif/v2.1.0/sarif-v2.1.0.html. The tests validate it against its schema.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from pathlib import Path, PurePath
from typing import Any
from urllib.parse import quote

from smemkit.checker.faults import Fault, explain
from smemkit.ci.baseline import fingerprint
from smemkit.ci.results import FINDING_TITLES, Finding, Outcome
from smemkit.ci.verdict import Judged, Verdict
from smemkit.version import version

__all__ = ["sarif"]

_COST_MEANINGS = {
    "conflict": "Lanes of one request need several words of one bank of shared memory, delivered in turn.",
    "sectors": "A request touches more sectors of 32 bytes than its bytes would fill, and pays for all of them.",
    "compile": "The file does not compile for the CPU device, so its kernels were not checked.",
}


def sarif(verdict: Verdict) -> dict[str, Any]:
    """The log file: one run, with a result per finding."""
    rules = list(FINDING_TITLES)
    driver = {"name": "smemkit", "version": version(), "rules": [_rule(kind) for kind in rules]}
    results = [_result(finding, judged, rules) for judged in verdict.judged for finding in judged.outcome.findings]
    notes = [_notification(judged.outcome) for judged in verdict.judged if judged.outcome.problem]
    invocation = {"executionSuccessful": verdict.status != 2, "toolExecutionNotifications": notes}
    run = {"tool": {"driver": driver}, "invocations": [invocation], "columnKind": "unicodeCodePoints"}
    return {
        "$schema": "https://json.schemastore.org/sarif-2.1.0.json",
        "version": "2.1.0",
        "runs": [run | {"results": results}],
    }


def _rule(kind: str) -> dict[str, Any]:
    title = FINDING_TITLES[kind]
    meaning, fix = (_COST_MEANINGS[kind], "") if kind in _COST_MEANINGS else explain(Fault(kind, None))
    rule = {"id": kind, "name": title, "shortDescription": {"text": title[:1].upper() + title[1:]}}
    rule["fullDescription"] = {"text": meaning or title}
    return rule | ({"help": {"text": fix}} if fix else {})


def _result(finding: Finding, judged: Judged, rules: list[str]) -> dict[str, Any]:
    fails = any(finding is other for other in judged.failing)
    level = "warning" if finding.severity == "note" and fails else finding.severity
    digest = hashlib.sha256("\0".join(fingerprint(finding)).encode()).hexdigest()
    result = {
        "ruleId": finding.kind,
        "ruleIndex": rules.index(finding.kind),
        "level": level,
        "message": {"text": "\n".join(filter(None, (f"{finding.title}: {finding.message}", finding.fix)))},
        "partialFingerprints": {"smemkit/v1": digest[:32]},
    }
    if finding.file:
        result["locations"] = [_location(finding.file, finding.line, finding.kernel)]
    if finding.other_line:
        other = _location(finding.other_file or finding.file, finding.other_line)
        result["relatedLocations"] = [other | {"id": 1, "message": {"text": "the earlier access"}}]
    if suppressions := list(_suppressions(finding, judged)):
        result["suppressions"] = suppressions
    return result


def _suppressions(finding: Finding, judged: Judged) -> Iterator[dict[str, str]]:
    """Why a finding is suppressed: by a comment at its line, or by the baseline."""
    if finding.allowed is not None:
        yield {"kind": "inSource", "justification": finding.allowed or "no reason given"}
    if any(finding is known for known in judged.known):
        yield {"kind": "external", "justification": "in the baseline"}


def _location(file: str, line: int | None, kernel: str = "") -> dict[str, Any]:
    physical: dict[str, Any] = {"artifactLocation": {"uri": _uri(file)}}
    if line:
        physical["region"] = {"startLine": line}
    logical = {"logicalLocations": [{"name": kernel, "kind": "function"}]} if kernel else {}
    return {"physicalLocation": physical, **logical}


def _uri(file: str) -> str:
    """A path as a URI: relative, as code scanning wants it, where it is below the working directory."""
    path = Path(file)
    if path.is_absolute() and path.is_relative_to(Path.cwd()):
        path = path.relative_to(Path.cwd())
    return path.as_uri() if path.is_absolute() else quote(PurePath(path).as_posix())


def _notification(outcome: Outcome) -> dict[str, Any]:
    return {"level": "error", "message": {"text": outcome.problem}}
