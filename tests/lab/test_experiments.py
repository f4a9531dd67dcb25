"""Experiments: rows that hold what they say, verdicts that follow from the rows, and their forms."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

import smemkit
from smemkit import lab
from smemkit.lab import running
from smemkit.lab.experiment import KINDS, Column, Experiment

NAMES = list(lab.EXPERIMENTS)
CURRICULUM = {
    *("hierarchy", "reverse", "barriers", "reduction", "tiling", "banks", "padding", "coalescing", "occupancy"),
    *("carveout", "divergence", "precision", "async_copy", "transfers", "first_kernels", "speedups", "matmul"),
}
pytestmark = pytest.mark.xdist_group("lab")  # one worker runs the experiments


def test_the_curriculum_is_there():
    assert set(NAMES) >= CURRICULUM
    assert all(lab.EXPERIMENTS[name] is getattr(lab, name) for name in NAMES)
    assert set(NAMES) <= set(lab.__all__)


def test_forms(experiment):
    name = experiment.name
    assert lab.EXPERIMENTS[name] is getattr(lab, name)
    assert experiment.question.endswith("?")
    text, html = str(experiment), experiment._repr_html_()
    assert max(map(len, text.splitlines())) <= 80
    flat = " ".join(text.split())
    for part in (experiment.title, experiment.question, experiment.verdict):
        assert " ".join(part.split()) in flat
    assert experiment.title in html
    assert html.count("<tr>") == len(experiment.rows) + 1
    assert experiment.verdict in repr(experiment)
    found = json.loads(json.dumps(experiment.to_dict()))
    assert (found["schema"], found["version"], found["name"]) == ("smemkit.experiment", 1, name)
    assert found["verdict"] == experiment.verdict
    assert len(found["rows"]) == len(experiment.rows) > 2
    assert {column["kind"] for column in found["columns"]} <= set(KINDS)
    assert experiment.references


def test_without_a_gpu_nothing_is_measured(experiment):
    measured = [column.key for column in experiment.columns if column.kind == "measured"]
    assert all(row[key] is None for row in experiment.rows for key in measured)
    assert "measured: on" not in str(experiment)
    if any(column.kind == "recorded" for column in experiment.shown):
        assert "recorded: in another run, on NVIDIA H200" in " ".join(str(experiment).split())


def test_tables_with_all_columns_fit_a_terminal(experiment):
    numbers = dict.fromkeys((c.key for c in experiment.columns if c.kind in ("measured", "recorded")), 123.4)
    for known in numbers.items(), []:
        rows = tuple(row | dict(known) for row in experiment.rows)
        assert max(map(len, str(replace(experiment, rows=rows)).splitlines())) <= 80


# ---- a verdict follows from the rows ----


def changed(experiment, index, **values):
    """The verdict with other values in one row."""
    rows = [dict(row) for row in experiment.rows]
    rows[index] |= values
    return replace(experiment, rows=tuple(rows)).verdict


def row_of(experiment, **wanted):
    """The index of the row with these values."""
    return next(
        i for i, row in enumerate(experiment.rows) if all(row[key] == value for key, value in wanted.items())
    )


# experiment → the row, the values to put there, and a word that the verdict gets
PERTURBED = [
    ("first_kernels", {"how": "add one, one block"}, {"steps": 7}, "still makes 7 loads"),
    ("hierarchy", {"level": "shared memory"}, {"wavefronts": 3.0}, "3 wavefronts"),
    ("hierarchy", {"level": "host memory"}, {"recorded_gbps": 1.0}, "and the host 1 GB/s,"),
    ("hierarchy", {"level": "L2"}, {"cycles": 273.0}, "measured latencies in cycles: L2 273"),
    ("coalescing", {"access": "x[8 * i]"}, {"sectors": 40.0}, "the rule fails for x[8 * i]"),
    ("coalescing", {"access": "x[i + 1]"}, {"sectors": 6.5, "predicted": 6.5}, "at most 2.5 sectors more"),
    ("coalescing", {"access": "x[16 * i]"}, {"recorded_seconds": 1.0}, ", and x[16 * i] takes"),
    ("reverse", {"how": "carved, n = 64"}, {"faults": 1}, "carved, n = 64: wrong or faulty"),
    ("reverse", {"how": "dynamic, n = 64"}, {"wavefronts": 9}, "do not cost the same"),
    ("barriers", {"mistake": "in a loop", "version": "wrong"}, {"faults": 0}, "finds 3 of 4 mistakes"),
    ("barriers", {"mistake": "in a loop", "version": "right"}, {"faults": 2}, "wrongly accuses in a loop"),
    ("persistence", {"memory": "global memory"}, {"kept": "no"}, "global memory lose what was written"),
    ("persistence", {"memory": "shared memory"}, {"faults": 0}, "persist."),
    ("banks", {"access": "float, stride 2"}, {"wavefronts": 3}, "in all but 1 of 46 accesses (float, stride 2 …)"),
    ("banks", {"access": "float, stride 7"}, {"conflicts": 1, "predicted_conflicts": 1}, "23 are free"),
    ("padding", {"tile": 32, "pad": 1}, {"load": 5.0}, "from 32 to 5 wavefronts"),
    ("padding", {"tile": 32, "pad": 3}, {"load": 2.0}, "with tiles of 32, pads of 2 and 3 and 4 leave conflicts"),
    ("tree", {"way": "sequential", "step": 1}, {"degree": 9}, "conflicts of up to 9-way"),
    ("reduction", {"rung": "tree"}, {"lanes": 2.5}, "tree keeps only 2.5 of 32 lanes"),
    ("reduction", {"rung": "tree"}, {"conflicts": 900.0}, "tree has the most conflicts"),
    ("reduction", {"rung": "first_add"}, {"seconds": None, "recorded": 1e-9}, "first_add 1.00 ns"),
    ("tiling", {"how": "tile 8"}, {"loads": 20.0}, "2 n / tile is not what is counted: n = 64, tile 8, 20 loads"),
    ("tiling", {"how": "tile 16", "n": 64}, {"recorded": 1e-6}, "tile 16 is the fastest, 1.00 µs"),
    ("mistakes", {"how": "missing guard", "n": 13}, {"faults": 0, "wrong": 4}, "checker finds nothing"),
    ("mistakes", {"how": "right", "n": 16}, {"wrong": 3}, "reveal right at n = 16"),
    ("matmul", {"rung": "thread_tile"}, {"recorded": 5000.0}, "thread_tile 5,000 TFLOP/s"),
    ("occupancy", {"registers": 64}, {"fraction": 1}, "full up to 64 registers"),
    ("occupancy", {"kib": 200}, {"limited_by": "blocks"}, "with 200, limited by blocks"),
    ("parallelism", {"warps": 2, "chains": 2}, {"busy": 0.5}, "1 × 4 or 4 × 1 warps"),
    ("carveout", {"kib": 8, "percent": 0}, {"blocks": 3}, "holds 3 at a carve-out of 0 %"),
    ("divergence", {"how": "if (a < 50) s += a; random data"}, {"lanes": 3.0}, "leaves 3 of 32 lanes"),
    ("divergence", {"how": "s += (a < 50) * a; random data"}, {"right": "no"}, "the sums are wrong"),
    ("precision", {"type": "FP16"}, {"error": 0.01}, "FP16 is off by 1 %"),
    ("precision", {"type": "FP16, tensor cores"}, {"recorded": None}, "of the rate of FP32."),
    ("async_copy", {"how": "cp.async, 4 stages"}, {"sectors": 99.0}, "move other sectors"),
    ("async_copy", {"how": "cp.async, 2 stages"}, {"faults": 1}, "cp.async, 2 stages: the checker finds faults"),
    ("transfers", {"how": "to the host, staged"}, {"recorded": 40.0}, "to the host 0.0 times"),
    ("speedups", {"claim": "transpose: unpadded / padded"}, {"recorded": 4.1}, "padded (4.10 instead of 4.00)"),
    ("speedups", {"claim": "matmul: naive / tile 32"}, {"recorded": None}, "untested: matmul: naive / tile 32"),
]


def test_a_verdict_follows_from_the_rows(experiment):
    name = experiment.name
    cases = [case[1:] for case in PERTURBED if case[0] == name]
    assert cases
    for wanted, values, word in cases:
        assert word not in experiment.verdict
        assert word in changed(experiment, row_of(experiment, **wanted), **values), word


def test_measured_times_decide_where_there_are_some(experiment):
    name = experiment.name
    keys = [column.key for column in experiment.columns if column.kind == "measured"]
    rows = tuple(row | dict.fromkeys(keys, 10.0 + i) for i, row in enumerate(experiment.rows))
    measured = replace(experiment, rows=rows)
    if keys and name not in ("reverse", "first_kernels"):  # these say nothing of times, or only of two rows
        assert measured.verdict != experiment.verdict
    if keys:
        assert "measured: on" in str(measured)


# ---- the form of results ----

COLUMNS = (Column("a", "name"), Column("b", "time", "measured", "seconds"), Column("c", "n", "recorded", "count"))


def made(rows):
    return Experiment(
        "x", "X", "Why?", tuple(rows), COLUMNS, lambda rows: f"{len(rows)} rows.", "CPU", "GPU, 2026"
    )


def test_what_is_not_recorded_says_so():
    text = str(made([{"a": "one"}, {"a": "two"}]))
    assert "n: not recorded yet on a reference GPU." in text
    assert "time" not in text
    text = str(made([{"a": "one", "c": 4}, {"a": "two", "c": None}]))
    assert "—: not known, not recorded, or does not apply." in text
    assert "recorded: in another run, on GPU, 2026." in text
    assert "measured: on CPU." in str(made([{"a": "<b>", "b": 2e-6}]))
    assert "&lt;b&gt;" in made([{"a": "<b>", "b": 2e-6}])._repr_html_()


def test_progress_is_for_terminals_only(capsys, monkeypatch):
    assert list(running.progress([1, 2], "work")) == [1, 2]
    assert capsys.readouterr() == ("", "")
    monkeypatch.setattr("sys.stderr.isatty", lambda: True, raising=False)
    assert list(running.progress([1, 2], "work")) == [1, 2]


def test_options():
    assert smemkit.lab.occupancy("cpu", block_size=1024).rows[0]["blocks"] == 2
    with pytest.raises(ValueError, match="block_size: expected 64, 128, 256, 512 or 1024, got 100"):
        lab.tree("cpu", block_size=100)


def test_kernels_are_installed():
    folder = Path(running.__file__).with_name("kernels")
    assert len(list(folder.glob("*.cu"))) >= 10
