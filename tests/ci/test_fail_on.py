"""What `--fail-on` and a baseline make of findings."""

import json
from dataclasses import replace

import pytest
from reports import FAULTS, halo, report, unpadded

from smemkit.ci.baseline import Baseline
from smemkit.ci.fail_on import failing, parse_limits
from smemkit.ci.results import Check, Outcome, findings
from smemkit.ci.verdict import judge

WARNING = replace(FAULTS[3], severity="warning")
FOUND = [*findings(report(unpadded(), halo([*FAULTS[:3], WARNING, FAULTS[9]])))]
SECTORS = replace(FOUND[0], kind="sectors", value=2.0)


@pytest.mark.parametrize(
    ("limits", "kinds"),
    [
        ("errors", ["race", "race", "race", "trap"]),
        ("warnings", ["race"]),
        ("trap", ["trap"]),
        ("race", ["race"] * 4),
        ("trap, conflict", ["conflict", "trap"]),
        ("conflict>=32", ["conflict"]),
        ("conflict>=32-way", ["conflict"]),
        ("conflict>32", []),
        ("sectors>2x", []),
        ("sectors>=2x", ["sectors"]),
        ("sectors > 1.9", ["sectors"]),
        ("none", []),
    ],
)
def test_limits_name_findings(limits, kinds):
    assert sorted(finding.kind for finding in failing([*FOUND, SECTORS], parse_limits(limits))) == sorted(kinds)


@pytest.mark.parametrize(
    "limits", ["", "rase", "race>2", "conflict>=", "conflict=8", "sectors>2y", "race;trap", "none>1"]
)
def test_other_words_are_refused(limits):
    with pytest.raises(
        ValueError, match=r"here: expected a list of errors, warnings, a kind of fault \(race, .*; got"
    ):
        parse_limits(limits, "here")


def test_allowed_findings_never_fail():
    found = [replace(finding, allowed="known") for finding in FOUND]
    assert failing(found, parse_limits("errors,warnings,conflict")) == []


# ---- the exit status ----

CHECK = Check("k.cu", grid="4", block="256")
CLEAN, FAULTY = (Outcome(CHECK, r, findings=tuple(findings(r))) for r in (report(), report(halo())))
UNCOMPILED = Outcome(
    CHECK, None, "k.cu:3: no", True, ("k.cu", 3), (replace(FOUND[0], kind="compile", severity="error"),)
)
MISUSED = Outcome(CHECK, None, "--grid: expected")


@pytest.mark.parametrize(
    ("outcomes", "status"),
    [
        ([CLEAN], 0),
        ([FAULTY], 1),
        ([CLEAN, FAULTY], 1),
        ([UNCOMPILED], 2),
        ([CLEAN, UNCOMPILED], 1),
        ([UNCOMPILED, UNCOMPILED], 2),
        ([MISUSED], 2),
        ([CLEAN, FAULTY, MISUSED], 2),
    ],
)
def test_the_exit_status(outcomes, status):
    assert judge(outcomes).status == status


def test_limits_are_those_of_the_check():
    conflicts = replace(CLEAN, check=replace(CHECK, fail_on="conflict>=8"))
    assert judge([conflicts]).status == 1
    assert judge([replace(FAULTY, check=replace(CHECK, fail_on="conflict>=8"))]).status == 0


# ---- baselines ----


@pytest.fixture
def baseline(tmp_path):
    """Writes findings as known, and reads them again."""

    def write(found):
        path = tmp_path / "known.json"
        assert Baseline.write(path, found) == len(found)
        return Baseline(path)

    return write


def test_known_findings_are_not_new(baseline):
    known = baseline(FOUND)
    assert known.new(FOUND) == []
    assert known.gone == 0


def test_a_line_may_move(baseline):
    assert baseline(FOUND).new([replace(finding, line=99) for finding in FOUND]) == []


@pytest.mark.parametrize(
    "change", [{"kind": "hang"}, {"file": "other.cu"}, {"kernel": "k"}, {"text": "x = 2;"}, {"variable": "z[1]"}]
)
def test_other_findings_are_new(baseline, change):
    known = baseline(FOUND[:1])
    new = [replace(FOUND[0], **change)]
    assert known.new(new) == new
    assert known.gone == 1


def test_an_entry_stands_for_one_finding(baseline):
    assert baseline(FOUND[:1]).new([FOUND[0], FOUND[0]]) == [FOUND[0]]


def test_worse_costs_are_new(baseline):
    assert baseline([SECTORS]).new([replace(SECTORS, value=1.5)]) == []
    worse = [replace(SECTORS, value=2.5)]
    assert baseline([SECTORS]).new(worse) == worse


@pytest.mark.parametrize(
    "content", ["", "[]", "{}", '{"schema": "smemkit.baseline", "version": 2, "findings": []}']
)
def test_other_files_are_refused(tmp_path, content):
    path = tmp_path / "known.json"
    path.write_text(content)
    with pytest.raises(ValueError, match=r"known.json: expected a baseline that smemkit check has written"):
        Baseline(path)


def test_what_is_known_and_what_is_gone(baseline):
    one, _, gone = FOUND[:3]
    assert json.loads(baseline([one]).path.read_text())["findings"][0]["file"].endswith("unpadded.cu")
    verdict = judge([FAULTY], baseline([*FAULTY.findings, gone]))
    assert (verdict.status, verdict.failing, verdict.gone) == (0, (), 1)
    assert len(verdict.judged[0].known) == len(FAULTY.findings)
