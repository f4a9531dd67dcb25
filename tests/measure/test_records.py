"""Results recorded on GPUs: one function looks them up; demo, ladders, README and notebooks show the same."""

import json
import re

import pytest
from cases import ROOT

from smemkit import demo
from smemkit.ladder import BIG
from smemkit.measure import records
from smemkit.measure.formats import format_number

DEMO_FACTORS = {"matmul": 1000, "reduce": 1, "transpose": 1}  # factor from recorded values to the demo's


def row(kernel, value, case="8192 x 8192", **changes):
    return {
        **{"suite": "transpose", "op": "transpose", "case": case, "dtype": "float32", "shape": [8192, 8192]},
        **{"axis": None, "cold": False, "kernel": kernel, "us": 1.0, "value": value, "ceiling_fraction": 0.5},
    } | changes


REPORT = {
    "environment": {"gpu": "NVIDIA H200", "date": "2026-11-22T01:02:03"},
    "rows": [
        row("unpadded", 9.0, dtype="complex128"),
        row("unpadded", 9.0, shape=[4096, 4096]),
        row("unpadded", 9.0, cold=True),
        row("unpadded", 9.0, suite="call"),
        row("unpadded", 3.0, "8192 x 8192, tile 16"),
        row("unpadded", 2.0, "8192 x 8192, tile 32"),
        row("padded", 4.0, "8192 x 8192, tile 32, pad 1"),
        row("padded", 1.0, "8192 x 8192, tile 32, pad 0"),
        row("padded", 4.1, "8192 x 8192, tile 16, pad 2"),
        row("naive", 0.5),
        row(None, 5.0),
    ],
}


def test_select_by_problem_and_options():
    found = records.select(REPORT, "transpose", (8192, 8192))
    values = {
        name: found.row(name)["value"] for name in ("unpadded", "padded", "naive", None)
    }  # default options, not the first row or the largest value
    assert values == {"unpadded": 2.0, "padded": 4.0, "naive": 0.5, None: 5.0}
    assert found.row("unpadded", tile=16)["value"] == 3.0
    assert found.row("padded", pad=0)["value"] == 1.0
    assert found.row("padded", tile=16, pad=2)["value"] == 4.1
    assert found.row("padded", tile=16) is found.row("swizzled") is None
    assert records.select(REPORT, "transpose", (8192, 8192), dtype="complex128").row("unpadded")["value"] == 9.0
    assert records.select(REPORT, "transpose", (8192, 8192), cold=True).row("unpadded")["value"] == 9.0


def test_faster_options_are_reported():
    found = records.select(REPORT, "transpose", (8192, 8192))
    options, faster = found.faster("unpadded")
    assert (options, faster["value"]) == ("tile 16", 3.0)
    assert found.faster("padded") is None  # 4.1 is not enough above 4.0
    assert found.faster("naive") is found.faster("swizzled") is None


def test_the_newest_run_of_each_gpu_counts():
    def run(gpu, date, value, kernel="naive"):
        return {"environment": {"gpu": gpu, "date": date}, "rows": [row(kernel, value), row(None, value)]}

    runs = [run("a", "2026-01-02", 1.0), run("a", "2026-01-03", 2.0), run("b", "2026-01-01", 3.0)]
    runs += [
        run("a", "2026-01-01", 4.0),
        run("b", "2026-01-04", 5.0, kernel=None),
    ]  # none by name
    found = records.newest(runs, "transpose", (8192, 8192))
    assert [(r.environment["gpu"], r.row("naive")["value"]) for r in found] == [("a", 2.0), ("b", 3.0)]
    assert records.newest(runs, "transpose", (1, 1)) == []


@pytest.mark.parametrize("op", BIG)
def test_demo_ladder_and_readme_show_the_same_numbers(cpu_ladders, op):
    (reference,) = records.recorded(op, BIG[op])
    (shown,) = (ladder for ladder in demo.recorded() if ladder.op == op)
    cpu_ladder = cpu_ladders[op]
    (line,) = re.findall(rf"^\| {op} .*`.*$", (ROOT / "README.md").read_text(), re.MULTILINE)
    in_readme = dict(re.findall(r"`(\w+)` ([\d.,]+\d)", line))
    assert in_readme
    for rung in cpu_ladder.rungs:
        record = reference.row(rung.name)
        assert (rung.recorded is None) == (record is None)
        if not record:
            continue
        (speed,) = (r.speed for r in shown.rungs if r.label == rung.name)
        assert rung.recorded.value == record["value"] == pytest.approx(speed / DEMO_FACTORS[op])
        assert in_readme.get(rung.name, format_number(record["value"])) == format_number(record["value"])
        others = [r for r in shown.rungs if r.info.name == rung.name and r.options]
        if faster := reference.faster(rung.name):
            options, best = faster
            assert [(r.options, r.speed / DEMO_FACTORS[op]) for r in others] == [
                (options, pytest.approx(best["value"]))
            ]
            number = format_number(best["value"])
            assert f"with {options}, {rung.name} is recorded at {number} {cpu_ladder.unit}." in cpu_ladder.notes
            assert rung.name not in in_readme or f"({options}: {number})" in line
        else:
            assert not others


def test_notebooks_look_up_recorded_numbers():
    for path in sorted((ROOT / "notebooks").glob("*.ipynb")):
        cells = json.loads(path.read_text())["cells"]
        code = "\n".join("".join(cell["source"]) for cell in cells if cell["cell_type"] == "code")
        assert "json" not in code and "REFERENCE" not in code, path
        assert "recorded()" not in code or "rung.label" in code, path


def test_padding_speeds_in_the_notebook_are_the_recorded_ones():
    (reference,) = records.recorded("transpose", BIG["transpose"])
    text = (ROOT / "notebooks" / "07_transpose.ipynb").read_text()
    unpadded, padded = reference.row("unpadded")["value"], reference.row("padded")["value"]
    narrow = reference.row("unpadded", tile=16)["value"]
    for words in (
        f"`unpadded` moves {format_number(unpadded)} GB/s with tile 32",
        f"and {format_number(narrow)} with tile 16",
        f"`padded` moves {format_number(padded)}. So padding gains",
        f"{padded / unpadded:.1f} times over the one and {padded / narrow:.1f} times over the other",
    ):
        assert words in text
