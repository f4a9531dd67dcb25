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
    for one in verdict.judged:
        lines.append(_launch_line(one))
        if one.outcome.report is not None and one.failing:
            lines += ["", *(f"  {line}".rstrip() for line in failure_text(one).split("\n")), ""]
    return "\n".join([*lines, *_baseline_lines(verdict)])


def _summary(verdict: Verdict) -> str:
    """The first line: how much was checked, and what fails."""
    files = {one.outcome.check.file for one in verdict.judged}
    checked = sum(one.outcome.report is not None for one in verdict.judged)
    failing = pluralize(len(verdict.failing), "finding that fails", "findings that fail")
    what = f"{failing if verdict.failing else 'nothing that fails'} in {pluralize(checked, 'launch', 'launches')}"
    reports = [one.outcome.report for one in verdict.judged if one.outcome.report is not None]
    blocks = sum(launch.blocks_checked for report in reports for launch in report.launches)
    rest = len(verdict.judged) - checked
    unchecked = f"; {pluralize(rest, 'launch', 'launches')} could not be checked" if rest else ""
    mark = "✓" if verdict.status == 0 else "✗"
    return f"{mark} {what} of {pluralize(len(files), 'file')}, {pluralize(blocks, 'block')} checked{unchecked}"


def _launch_line(one: Judged) -> str:
    outcome = one.outcome
    mark = "✗" if one.failing or outcome.problem else "✓"
    said = outcome.report.headline if outcome.report else outcome.problem.split("\n")[0]
    known = f"; {len(one.known)} in the baseline" if one.known else ""
    return f"{mark} {printable(outcome.check.file)}, {printable(outcome.check.title)}: {printable(said)}{known}"


def failure_text(one: Judged) -> str:
    """The report of a launch, and which of its findings fail."""
    return "\n".join([str(one.outcome.report), *_skipped_lines(one), *_failing_lines(one)])


def _skipped_lines(one: Judged) -> list[str]:
    """The file's other kernels that do not compile, if there are any."""
    lines = [printable(f"not compiled, and not needed: {kernel}") for kernel in one.outcome.skipped]
    return ["", *lines] if lines else []


def _failing_lines(one: Judged) -> list[str]:
    """The findings that fail, where the report alone does not show it."""
    limits = one.outcome.check.fail_on
    if limits == DEFAULT and not one.known:
        return []
    found = dict.fromkeys(f"✗ fails by --fail-on {limits}: {f.title} at {f.location}" for f in one.failing)
    return ["", *(map(printable, found) if found else [f"✓ nothing fails by --fail-on {limits}"])]


def _verdict_lines(only: Judged, verdict: Verdict) -> list[str]:
    lines = [*_skipped_lines(only), *_failing_lines(only)] if only.outcome.report is not None else []
    return [*lines, *_baseline_lines(verdict)]


def _baseline_lines(verdict: Verdict) -> list[str]:
    known = sum(len(one.known) for one in verdict.judged)
    lines = [f"{pluralize(known, 'finding')} known by the baseline"] if known else []
    if verdict.gone:
        gone = f"{pluralize(verdict.gone, 'finding')} of the baseline gone"
        lines.append(f"{gone}; --update-baseline removes what is no longer found")
    return ["", *lines] if lines else []


# ---- for programs ----


def json_content(verdict: Verdict) -> dict[str, Any]:
    """The report of a single launch as `Report.to_dict` gives it; of several, one of all launches, with the files
    that could not be checked in "errors"."""
    reports = [one.outcome.report for one in verdict.judged if one.outcome.report is not None]
    errors = [
        {"file": one.outcome.check.file, "launch": one.outcome.check.title, "message": one.outcome.problem}
        for one in verdict.judged
        if one.outcome.problem
    ]
    if len(verdict.judged) == 1 and reports:
        return reports[0].to_dict()
    contents = [report.to_dict() for report in reports]
    head = {"schema": "smemkit.report", "version": 1, "ok": not errors and all(c["ok"] for c in contents)}
    head |= {"headline": _summary(verdict), "seconds": sum(content["seconds"] for content in contents)}
    lists = {name: [one for content in contents for one in content[name]] for name in ("faults", "launches")}
    return head | lists | {"errors": errors}


def _json(verdict: Verdict) -> str:
    return json.dumps(json_content(verdict), indent=1)


def _sarif(verdict: Verdict) -> str:
    return json.dumps(sarif(verdict), indent=1)


# ---- GitHub Actions ----


def _github(verdict: Verdict) -> str:
    """An annotation per finding that fails and per other fault; then the text, as the log's."""
    lines = []
    for one in verdict.judged:
        for finding in one.failing:
            lines.append(_annotation("error", finding))
        for finding in one.outcome.findings:
            fault = finding.severity != "note" and finding.allowed is None
            if fault and not any(finding is other for other in (*one.failing, *one.known)):
                lines.append(_annotation("warning", finding))
        if one.outcome.problem and not one.outcome.compile_error:
            lines.append(f"::error title=smemkit::{_escape(one.outcome.problem)}")
    return "\n".join([*dict.fromkeys(lines), text(verdict)])


def _annotation(level: str, finding: Finding) -> str:
    """A workflow command, as GitHub's documentation of them says."""
    place = {"file": finding.file, "line": finding.line, "title": f"smemkit: {finding.title}"}
    properties = ",".join(f"{name}={_escape(str(value), ',:')}" for name, value in place.items() if value)
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
        "failures": sum(bool(one.failing) and not one.outcome.problem for one in judged),
        "errors": sum(bool(one.outcome.problem) for one in judged),
    }
    suite = ElementTree.SubElement(suites, "testsuite", name="smemkit", **{k: str(n) for k, n in counts.items()})
    for one in judged:
        outcome = one.outcome
        seconds = f"{outcome.report.seconds if outcome.report else 0:.3f}"
        names = {"classname": _xml(outcome.check.file), "name": _xml(outcome.check.title)}
        case = ElementTree.SubElement(suite, "testcase", **names, time=seconds)
        for tag, message, content in _junit_content(one):
            ElementTree.SubElement(case, tag, message=_xml(message)).text = _xml(content)
    ElementTree.indent(suites, " ")
    return ElementTree.tostring(suites, encoding="us-ascii", xml_declaration=True).decode()  # for any terminal


def _junit_content(one: Judged) -> Iterator[tuple[str, str, str]]:
    """Tag, message and content of a test case's failure or error, if it has one."""
    outcome = one.outcome
    if outcome.problem:
        yield "error", outcome.problem.split("\n")[0], outcome.problem
    elif one.failing:
        yield (
            "failure",
            "; ".join(dict.fromkeys(f"{f.title} at {f.location}" for f in one.failing)),
            failure_text(one),
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
