"""Comments in the source that accept findings."""

from dataclasses import replace

import pytest
from reports import FAULTS, RACE, Report, halo, line_of

import smemkit
from smemkit.checker.allowances import accept, read_allowances

ALLOW = "// smemkit: allow(race) known"


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        (f"x = 1; {ALLOW}", {1: {"race": "known"}}),
        (f"{ALLOW}\n\n// more\nx = 1;", {4: {"race": "known"}}),
        ("x = 1; /* smemkit: allow(hang) waits */ y = 2;", {1: {"hang": "waits"}}),
        ("x = 1; //smemkit:allow( race , conflict )", {1: {"race": "", "conflict": ""}}),
        (
            "a;\nb; // smemkit: allow(trap) t\nc; // smemkit: allow(sectors) s",
            {2: {"trap": "t"}, 3: {"sectors": "s"}},
        ),
        ("x = 1; // about smemkit", {}),
    ],
)
def test_comments(text, lines):
    assert read_allowances({"k.cu": text}) == {("k.cu", line): kinds for line, kinds in lines.items()}


@pytest.mark.parametrize("comment", ["allow(rase) typo", "allow race", "allow()"])
def test_unknown_kinds_are_refused_with_their_line(comment):
    with pytest.raises(
        ValueError, match=r"k.cu:2: expected smemkit: allow\(KIND\) reason, with a KIND out of race,"
    ):
        read_allowances({"k.cu": f"\nx = 1; // smemkit: {comment}"})


@pytest.mark.parametrize("line", [6, 10])
def test_a_race_is_accepted_at_either_line(line):
    launch = accept(halo([RACE]), {("kernel.cu", line): {"race": "known"}})
    assert launch.faults == ()
    assert launch.allowed == (replace(RACE, allowed="known"),)


@pytest.mark.parametrize("allowances", [{("kernel.cu", 11): {"race": ""}}, {("kernel.cu", 10): {"trap": ""}}])
def test_other_lines_and_kinds_are_not_accepted(allowances):
    assert accept(halo([RACE]), allowances) == halo([RACE])


def test_the_report_counts_them():
    line = line_of("kernel.cu", "y", 13, space="global", access="store", requests=1, sectors=4, ideal_sectors=4)
    report = Report([accept(halo([RACE], [line]), {("kernel.cu", 10): {"race": "known"}})], 0.1)
    assert (report.ok, report.faults, len(report.allowed)) == (True, (), 1)
    assert "; 1 fault allowed by comments; no bank conflicts" in report.headline
    assert "allowed: race (RAW) at kernel.cu:10 (known)" in " ".join(report.split())
    assert report.to_dict()["launches"][0]["allowed"][0]["allowed"] == "known"


def test_warnings_leave_a_report_ok():
    warnings = [replace(fault, severity="warning") for fault in FAULTS]
    assert Report([halo(warnings)], 0.1).ok
    assert not Report([halo([*warnings, RACE])], 0.1).ok


def test_a_kernel_and_its_header(tmp_path):
    """A fault is reported at its line in a header, where a comment can allow it."""
    header = "__device__ float left(const float *s) { return s[threadIdx.x - 1]; }"
    source = '#include "left.cuh"\n__global__ void k(float *y) { __shared__ float s[64]; s[threadIdx.x] = 1;'
    (tmp_path / "k.cu").write_text(f"{source}\n    if (threadIdx.x) y[threadIdx.x] = left(s); }}\n")
    kernel, locations = None, []
    for text in (header, f"{header}  {ALLOW}"):
        (tmp_path / "left.cuh").write_text(text)
        kernel = smemkit.Kernel(str(tmp_path / "k.cu"))
        report = smemkit.check(kernel[1, 64], smemkit.zeros(64, "float32", device="cpu"))
        locations.append([fault.location for fault in report.faults])
    assert locations == [[f"{tmp_path / 'left.cuh'}:1"], []]
    assert report.ok
    assert sorted(kernel.sources) == [str(tmp_path / "k.cu"), str(tmp_path / "left.cuh")]
