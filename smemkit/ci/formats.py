"""A verdict as text, as JSON, as annotations of GitHub Actions, and as JUnit's XML."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from typing import Any

from smemkit.checker.excerpts import printable
from smemkit.ci.fail_on import DEFAULT
from smemkit.ci.results import Finding
from smemkit.ci.sarif import sarif
from smemkit.ci.verdict import Judged, Verdict
from smemkit.measure.formats import pluralize

__all__ = ["FORMATS", "failure_text", "json_content", "text"]

_NOT_XML = re.compile(r"[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


# ---- for a terminal ----


def text(verdict: Verdict) -> str:
    """The report of a single launch; of several a line per launch, and the report of each one that fails."""
    if len(verdict.judged) == 1:
        (only,) = verdict.judged
        return "\n".join([str(only.outcome.report or ""), *_verdict_lines(only, verdict)]).strip("\n")
    lines = [_summary(verdict), ""]
    for judged in verdict.judged:
        lines.append(_launch_line(judged))
        if judged.outcome.report is not None and judged.failing:
            lines += ["", *(f"  {line}".rstrip() for line in failure_text(judged).split("\n")), ""]
    return "\n".join([*lines, *_baseline_lines(verdict)])


def _summary(verdict: Verdict) -> str:
    """The first line: how much was checked, and what fails."""
    files = {judged.outcome.check.file for judged in verdict.judged}
    checked = sum(judged.outcome.report is not None for judged in verdict.judged)
    failing = pluralize(len(verdict.failing), "finding that fails", "findings that fail")
    what = f"{failing if verdict.failing else 'nothing that fails'} in {pluralize(checked, 'launch', 'launches')}"
    reports = [judged.outcome.report for judged in verdict.judged if judged.outcome.report is not None]
    blocks = sum(launch.blocks_checked for report in reports for launch in report.launches)
    rest = len(verdict.judged) - checked
    unchecked = f"; {pluralize(rest, 'launch', 'launches')} could not be checked" if rest else ""
    mark = "✓" if verdict.status == 0 else "✗"
    return f"{mark} {what} of {pluralize(len(files), 'file')}, {pluralize(blocks, 'block')} checked{unchecked}"


def _launch_line(judged: Judged) -> str:
    outcome = judged.outcome
    mark = "✗" if judged.failing or outcome.problem else "✓"
    headline = outcome.report.headline if outcome.report else outcome.problem.split("\n")[0]
    known = f"; {len(judged.known)} in the baseline" if judged.known else ""
    return (
        f"{mark} {printable(outcome.check.file)}, {printable(outcome.check.title)}: {printable(headline)}{known}"
    )


def failure_text(judged: Judged) -> str:
    """The report of a launch, and which of its findings fail."""
    return "\n".join([str(judged.outcome.report), *_skipped_lines(judged), *_failing_lines(judged)])


def _skipped_lines(judged: Judged) -> list[str]:
    """The file's other kernels that do not compile, if there are any."""
    lines = [printable(f"not compiled, and not needed: {kernel}") for kernel in judged.outcome.skipped]
    return ["", *lines] if lines else []


def _failing_lines(judged: Judged) -> list[str]:
    """The findings that fail, where the report alone does not show it."""
    limits = judged.outcome.check.fail_on
    if limits == DEFAULT and not judged.known:
        return []
    found = dict.fromkeys(f"✗ fails by --fail-on {limits}: {f.title} at {f.location}" for f in judged.failing)
    return ["", *(map(printable, found) if found else [f"✓ nothing fails by --fail-on {limits}"])]


def _verdict_lines(only: Judged, verdict: Verdict) -> list[str]:
    lines = [*_skipped_lines(only), *_failing_lines(only)] if only.outcome.report is not None else []
    return [*lines, *_baseline_lines(verdict)]


def _baseline_lines(verdict: Verdict) -> list[str]:
    known = sum(len(judged.known) for judged in verdict.judged)
    lines = [f"{pluralize(known, 'finding')} known by the baseline"] if known else []
    if verdict.gone:
        gone = f"{pluralize(verdict.gone, 'finding')} of the baseline gone"
        lines.append(f"{gone}; --update-baseline removes what is no longer found")
    return ["", *lines] if lines else []


# ---- for programs ----


def json_content(verdict: Verdict) -> dict[str, Any]:
    """The report of a single launch as `Report.to_dict` gives it; of several, one of all launches, with the files
    that could not be checked in "errors"."""
    reports = [judged.outcome.report for judged in verdict.judged if judged.outcome.report is not None]
    errors = [
        {
            "file": judged.outcome.check.file,
            "launch": judged.outcome.check.title,
            "message": judged.outcome.problem,
        }
        for judged in verdict.judged
        if judged.outcome.problem
    ]
    if len(verdict.judged) == 1 and reports:
        return reports[0].to_dict()
    contents = [report.to_dict() for report in reports]
    head = {"schema": "smemkit.report", "version": 1, "ok": not errors and all(c["ok"] for c in contents)}
    head |= {"headline": _summary(verdict), "seconds": sum(content["seconds"] for content in contents)}
    lists = {name: [item for content in contents for item in content[name]] for name in ("faults", "launches")}
    return head | lists | {"errors": errors}


def _json(verdict: Verdict) -> str:
    return json.dumps(json_content(verdict), indent=1)


def _sarif(verdict: Verdict) -> str:
    return json.dumps(sarif(verdict), indent=1)


# ---- GitHub Actions ----


def _github(verdict: Verdict) -> str:
    """An annotation per finding that fails and per other fault; then the text, as the log's."""
    lines = []
    for judged in verdict.judged:
        for finding in judged.failing:
            lines.append(_annotation("error", finding))
        for finding in judged.outcome.findings:
            fault = finding.severity != "note" and finding.allowed is None
            if fault and not any(finding is other for other in (*judged.failing, *judged.known)):
                lines.append(_annotation("warning", finding))
        if judged.outcome.problem and not judged.outcome.compile_error:
            lines.append(f"::error title=smemkit::{_escape(judged.outcome.problem)}")
    return "\n".join([*dict.fromkeys(lines), text(verdict)])


def _annotation(level: str, finding: Finding) -> str:
    """A workflow command, as GitHub's documentation of them says."""
    fields = {"file": finding.file, "line": finding.line, "title": f"smemkit: {finding.title}"}
    properties = ",".join(f"{name}={_escape(str(value), ',:')}" for name, value in fields.items() if value)
    return f"::{level} {properties}::{_escape(' '.join(filter(None, (_sentence(finding), finding.fix))))}"


def _sentence(finding: Finding) -> str:
    return finding.message if finding.message.endswith((".", "!", "?")) else f"{finding.message}."


def _escape(text: str, more: str = "") -> str:
    for character in f"%\r\n{more}":
        text = text.replace(character, f"%{ord(character):02X}")
    return text


# ---- JUnit ----


def _junit(verdict: Verdict) -> str:
    """A test case per launch: its failure has the report as text, and what could not be checked is an error."""
    from xml.etree import ElementTree

    suites = ElementTree.Element("testsuites", name="smemkit")
    judged = verdict.judged
    counts = {
        "tests": len(judged),
        "failures": sum(bool(check.failing) and not check.outcome.problem for check in judged),
        "errors": sum(bool(check.outcome.problem) for check in judged),
    }
    suite = ElementTree.SubElement(suites, "testsuite", name="smemkit", **{k: str(n) for k, n in counts.items()})
    for check in judged:
        outcome = check.outcome
        seconds = f"{outcome.report.seconds if outcome.report else 0:.3f}"
        names = {"classname": _xml(outcome.check.file), "name": _xml(outcome.check.title)}
        case = ElementTree.SubElement(suite, "testcase", **names, time=seconds)
        for tag, message, content in _junit_content(check):
            ElementTree.SubElement(case, tag, message=_xml(message)).text = _xml(content)
    ElementTree.indent(suites, " ")
    return ElementTree.tostring(suites, encoding="us-ascii", xml_declaration=True).decode()  # for any terminal


def _junit_content(judged: Judged) -> Iterator[tuple[str, str, str]]:
    """Tag, message and content of a test case's failure or error, if it has one."""
    outcome = judged.outcome
    if outcome.problem:
        yield "error", outcome.problem.split("\n")[0], outcome.problem
    elif judged.failing:
        yield (
            "failure",
            "; ".join(dict.fromkeys(f"{f.title} at {f.location}" for f in judged.failing)),
            failure_text(judged),
        )


def _xml(text: str) -> str:
    """The text without the characters that XML excludes."""
    return _NOT_XML.sub("�", text)


FORMATS: dict[str, Callable[[Verdict], str]] = {
    "text": text,
    "json": _json,
    "sarif": _sarif,
    "github": _github,
    "junit": _junit,
}
