"""What a GPU records of the experiments, and what is read back."""

import json
from dataclasses import replace

import pytest

from smemkit import lab
from smemkit.lab import recording
from smemkit.lab.recording import reference_rows, rows_to_record
from smemkit.measure import records

pytestmark = pytest.mark.xdist_group("lab")
ROW = {"suite": "hierarchy", "us": None, "unit": None, "value": None, "kernel": None}


@pytest.fixture
def reference(monkeypatch, tmp_path):
    """Writes reference files with these rows, by date."""

    def write(**rows_by_date):
        for date, rows in rows_by_date.items():
            environment = {"gpu": "NVIDIA H200", "date": f"2026-{date[1:3]}-{date[3:]}T00:00:00"}
            content = {"environment": environment, "rows": [ROW | row for row in rows]}
            (tmp_path / f"{date}.json").write_text(json.dumps(content))

    monkeypatch.setattr(records, "REFERENCE", tmp_path)
    return write


def test_what_is_measured_is_recorded_and_read_back(reference):
    experiment = lab.carveout("cpu")
    assert list(rows_to_record(experiment)) == []
    measured = replace(
        experiment, rows=tuple(row | {"seconds": 1e-6 * (i + 1)} for i, row in enumerate(experiment.rows))
    )
    rows = list(rows_to_record(measured))
    assert rows[1] == {"op": "carveout", "case": "8, 25", "us": pytest.approx(2.0)}
    reference(d1224=rows, d1223=[row | {"us": 99.0} for row in rows])
    again = lab.carveout("cpu")
    assert [row["recorded_seconds"] for row in again.rows] == pytest.approx([1e-6 * (i + 1) for i in range(10)])
    assert again.recorded_on == "NVIDIA H200, 2026-12-24"
    assert "recorded: in another run, on NVIDIA H200, 2026-12-24." in str(again)
    assert all(row["seconds"] is None for row in again.rows)


def test_numbers_with_units_are_recorded(reference):
    reference(
        d0101=[
            {"op": "hierarchy", "case": "L2", "unit": "cycles", "value": 273.0},
            {"op": "hierarchy", "case": "L2", "unit": "GB/s", "value": 5500.0},
            {"op": "barriers", "case": "one barrier, ", "us": 0.01},
            {"op": "barriers", "case": "one launch, ", "us": 2.0},
        ]
    )
    level = next(row for row in lab.hierarchy("cpu").rows if row["level"] == "L2")
    assert (level["recorded_cycles"], level["recorded_gbps"], level["cycles"]) == (273.0, 5500.0, None)
    assert "recorded latencies in cycles: L2 273" in lab.hierarchy("cpu").verdict
    assert "recorded, a barrier takes 10.0 ns and a launch 200 times as long" in lab.barriers("cpu").verdict


@pytest.mark.covering(1, most=8)
def test_a_verdict_says_what_is_recorded_where_nothing_is_measured(reference, experiment):
    """The same numbers, measured or recorded, give the same verdict but for that word."""
    keys = [column.key for column in experiment.columns if column.kind == "measured"]
    if experiment.name in ("speedups", "reverse", "transfers") or not keys:  # of ratios, of none, of all or none
        return
    numbers = [dict.fromkeys(keys, 1.5 + (i * 7 % 5) + 0.25 * i) for i in range(len(experiment.rows))]
    rows = tuple(row | more for row, more in zip(experiment.rows, numbers, strict=True))
    measured = replace(experiment, rows=rows)
    reference(d0102=list(rows_to_record(measured)))
    reference_free = replace(experiment, rows=tuple(blank_recorded(experiment)), recorded_on=None)
    again = recording._with_recorded(reference_free)
    assert "measured" in measured.verdict
    if experiment.name == "padding":  # it says so in brackets
        assert again.verdict == measured.verdict.replace("measured", "recorded")
        return
    known = measured.verdict.replace("measured", "recorded").split("; recorded, ")[1]
    assert known.split(";")[0].rstrip(".") in again.verdict.replace("Recorded", "recorded")


def blank_recorded(experiment):
    """The rows without what they have recorded."""
    recorded = [column.key for column in experiment.columns if column.kind == "recorded"]
    return [row | dict.fromkeys((*recorded, "fraction")) for row in experiment.rows]


def test_every_case_of_an_experiment_has_a_name_of_its_own(experiment):
    cases = [recording.case_of(experiment, row) for row in experiment.rows]
    assert len(set(cases)) == len(cases)


def test_every_number_that_is_recorded_has_its_place(experiment):
    """In a row and a column: a heading is the unit of what is recorded."""
    measured = [column for column in experiment.columns if column.kind == "measured"]
    cases = [recording.case_of(experiment, row) for row in experiment.rows]
    places = {(case, recording.unit_of(column)) for case in cases for column in measured}
    rows = reference_rows(suite=recording.SUITE, op=experiment.name)
    assert {(row["case"], row["unit"]) for row in rows} <= places
