"""The policies' thresholds: the choices that they make, their fit to measured times, and their tuning."""

import argparse
import dataclasses
import itertools
import json
import math
import re
import shutil

import numpy as np
import pytest
from cases import ROOT, integers, on, run_python
from numpy.testing import assert_array_equal
from tiers import times

import smemkit
from smemkit import _core
from smemkit.__main__ import main
from smemkit.bench import fit, planner, tune
from smemkit.measure import tuned

REFERENCE = ROOT / "smemkit" / "reference" / "nvidia-h200.json"  # all suites in one run; nothing is fitted to it
GRADED = ROOT / "tests" / "ops" / "graded_problems.json"  # the reference file of 2026-11-24
PRODUCTS = ROOT / "tests" / "ops" / "products-nvidia-h200.json"  # by the suite `planner`, in five runs
PROBLEMS = ROOT / "tests" / "ops" / "planner-nvidia-h200.json"  # by the same suite, in one run
HALF = fit.Attributes(90, 66, 30 << 20)  # half of an H200


@pytest.fixture(scope="module")
def graded():
    """200 graded problems, with every kernel's time."""
    return [row for row in fit.load(GRADED)[0] if row["suite"] == "planner"]


@pytest.fixture
def cache(monkeypatch, tmp_path):
    """An empty cache folder; the CPU device has its own thresholds again afterwards."""
    monkeypatch.setenv("SMEMKIT_CACHE", str(tmp_path / "cache"))
    yield tmp_path / "cache"
    _core.set_tuned_thresholds("cpu", None)


def values_with(op, attributes=fit.H200, **changed):
    rows = fit.thresholds(op, attributes)
    assert set(changed) <= {row.name for row in rows}
    return [changed.get(row.name, row.value) for row in rows]


# ---- the tables -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("op", fit.OPS)
def test_every_threshold_has_a_unit_and_an_explanation(op):
    rows = fit.thresholds(op)
    assert len({row.name for row in rows}) == len(rows) > 30
    for row in rows:
        assert row.value > 0 and row.name.islower() and len(row.unit) > 3 and len(row.why) > 10


@pytest.mark.parametrize("op", fit.OPS)
def test_thresholds_grow_with_the_gpu(op):
    """What fills a GPU is proportional to its multiprocessors; the rest is not."""
    for whole, half in zip(fit.thresholds(op), fit.thresholds(op, HALF), strict=True):
        assert half.value == (whole.value // 2 if whole.per_gpu else whole.value)
    assert fit.thresholds(op, fit.Attributes(120, 132, 0)) == fit.thresholds(op)  # the nearest column


def test_choice_on_half_a_gpu_is_that_of_half_the_problem():
    def chosen(rows, attributes):
        x = np.empty((rows, 300, 3), np.float32)
        problem = fit.Measured("transpose", "", smemkit.transpose, (x.shape,), x.dtype, {}, ((1, 0, 2),))
        return problem.choice(attributes)

    for rows in (100, 150, 200, 291, 300, 400, 600, 800, 1200, 2400):
        assert chosen(rows, fit.H200) == chosen(rows // 2, HALF), rows
    assert len({chosen(rows, fit.H200) for rows in (100, 2400)}) == 2


def test_named_thresholds_are_refused():
    with pytest.raises(ValueError, match=r"^op: expected 'transpose', 'reduce' or 'matmul', got 'convert'"):
        _core.thresholds("convert", 90, 132)
    x = np.ones((3, 4), np.float32)
    call = (smemkit.transpose, (x,), {"device": "cpu"})
    with pytest.raises(ValueError, match=r"^thresholds: expected \d+ integers for transpose, got 2"):
        _core.dry_run_as(*fit.H200, "transpose", [1, 2], *call)
    with pytest.raises(ValueError, match=r"^thresholds: expected positive integers, got 0 for one_segment_bytes"):
        _core.dry_run_as(*fit.H200, "transpose", values_with("transpose", one_segment_bytes=0), *call)
    with pytest.raises(ValueError, match=r"^multiprocessors: expected at least 1, got 0"):
        _core.dry_run_as(90, 0, 0, "transpose", None, *call)


@pytest.mark.parametrize(
    ("a", "b", "chosen"),
    [
        ((4096, 16, 16), (4096, 16, 16), "tiny"),
        ((4096, 8, 8), (4096, 8, 8), "tiny"),
        ((1000, 64, 64), (1000, 64, 64), "pipelined_batch"),
        ((4096, 32, 32), (4096, 32, 32), "pipelined_batch"),
        ((16384, 16384), (16384, 1), "matvec"),
        ((16384, 16384), (16384, 8), "matvec"),
        ((4096, 256), (256, 16), "matvec"),
        ((8, 1 << 20), (1 << 20, 8), "matvec"),
        ((8, 16384), (16384, 16384), "matvec"),
        ((12, 16384), (16384, 16384), "pipelined_small"),
        ((1, 1000), (1000, 1000), "matvec"),
    ],
    ids=str,
)
def test_an_h200_takes_the_kernel_that_was_the_fastest_there(a, b, chosen):
    call = (smemkit.matmul, (np.empty(a, np.float32), np.empty(b, np.float32)), {"device": "cpu"})
    launches = _core.dry_run_as(*fit.H200, "transpose", None, *call)
    assert [launch[1] for launch in launches if launch[0] == "matmul"] == [chosen]


@pytest.mark.parametrize(("m", "n", "k"), [(16, 33, 3), (300, 200, 16), (2000, 64, 16)])
@pytest.mark.parametrize("dtype", ["float32", "complex64", "int8"])
def test_transposed_operands_are_not_copied_for_a_rung(m, n, k, dtype):
    a, b = np.empty((k, m), dtype).T, np.empty((n, k), dtype).T
    launches = _core.dry_run_as(*fit.H200, "transpose", None, smemkit.matmul, (a, b), {"device": "cpu"})
    assert [launch[0] for launch in launches] == ["matmul"]


def test_every_product_has_a_kernel_on_a_gpu():
    shapes = [(1, 1, 1), (1, 9, 5), (9, 1, 5), (40, 33, 8200), (700, 900, 20), (33, 300, 70_000)]
    (dtypes,) = (row.dtypes for row in smemkit.kernels("matmul") if row.name == "simt")
    for capability, dtype, (m, n, k) in itertools.product((75, 80, 86, 90, 120), dtypes, shapes):
        operands = (np.empty((m, k), dtype), np.empty((k, n), dtype))
        call = (smemkit.matmul, operands, {"device": "cpu"})
        launches = _core.dry_run_as(capability, 84, 40 << 20, "matmul", None, *call)
        assert launches[-1][0] == "matmul", (capability, dtype, m, n, k)


def test_simt_is_recorded_wherever_a_production_kernel_of_matmul_is():
    """So a GPU has a kernel for each product: the others have limits, and `tiled` is chosen only without them."""
    rows = [row for row in smemkit.kernels("matmul") if row.role == "production"]
    (simt,) = (row for row in rows if row.name == "simt")
    assert set(simt.recorded_dtypes) == {dtype for row in rows for dtype in row.recorded_dtypes}


# ---- the graded problems ----------------------------------------------------------------------------------------


def test_graded_problems_have_the_recorded_choice_or_a_faster_one(graded):
    recorded = json.loads((ROOT / "tests" / "ops" / "graded_choices.json").read_text())
    assert len(graded) == len(recorded) == 200
    for index, (row, before) in enumerate(zip(graded, recorded, strict=True)):
        choice = fit._read_row(index, row).choice(fit.H200)
        assert choice == before or row["peers"].get(choice, math.inf) < row["us"], row["case"]


def test_grade_of_the_graded_problems(graded):
    recorded = json.loads((ROOT / "tests" / "ops" / "graded_choices.json").read_text())
    problems = fit.read_rows(graded)
    for problem, row, choice in zip(problems, graded, recorded, strict=True):  # `us` is the recorded choice's time
        problem.times[choice] = min(row["us"], problem.times.get(choice, row["us"]))
    result = fit.grade(problems, fit.H200)
    assert result.good == result.problems == 200
    assert result.worst < min(planner.WITHIN[op] for op in ("transpose", "reduce"))


def test_kernels_for_which_k_is_too_short_are_no_measure():
    """The accuracy that is promised rules them out, however fast they are."""
    row = {"suite": "planner", "op": "matmul", "case": "", "dtype": "float32", "precision": "highest", "us": 50}
    times = {"wgmma_split": 40, "pipelined_large": 50, "simt_large": 60}
    for k, ratio in ((511, 1), (512, 1.25)):
        (problem,) = fit.read_rows([row | {"shape": [1000, 1000, k], "peers": times}])
        assert problem.ratio("pipelined_large") == ratio
        assert planner.may_be_chosen("matmul", (1000, 1000, k), "wgmma_split") == (ratio > 1)
    assert _core.least_k_of_matmul("simt") == 0 < _core.least_k_of_matmul("mma_split")
    with pytest.raises(ValueError, match="kernel"):
        _core.least_k_of_matmul("none")


def test_grade_of_random_products():
    """Most choices are within 10 % of the fastest kernel, and none is far from it."""
    rows, attributes = fit.load(PRODUCTS)
    problems = fit.read_rows(rows)
    assert len(problems) == len(rows) > 1500 and {problem.op for problem in problems} == {"matmul"}
    timed = [problem for problem in problems if problem.choice(attributes) in problem.times]
    assert len(timed) > len(problems) - 40  # pipelined_batch became faster after most of them
    result = fit.grade(timed, attributes)
    assert result.good > 0.93 * result.problems
    assert result.worst < 3
    unseen = fit.grade([problem for problem in timed if problem.held_out], attributes)
    assert unseen.problems > 350 and unseen.good >= 0.95 * unseen.problems
    constant = fit.grade(timed, attributes, [1000] * len(fit.thresholds("matmul")))
    assert constant.good < 0.5 * result.problems  # it is the table that makes them good


DISTURBED = "32 x 16 x 28, int8"  # tiled: 21 us once, where problems of its size take 2.2


@pytest.mark.parametrize(
    ("op", "share", "worst"), [("transpose", 0.95, 2), ("reduce", 0.95, 2), ("matmul", 0.91, 3)]
)
def test_grade_of_random_problems(op, share, worst):
    rows, attributes = fit.load(PROBLEMS)
    problems = [problem for problem in fit.read_rows(rows) if problem.op == op and problem.case != DISTURBED]
    assert len(problems) > 500
    result = fit.grade(problems, attributes)
    assert result.good > share * result.problems and result.worst < worst


@pytest.mark.parametrize(("op", "slow"), [("transpose", 0), ("reduce", 2)])
def test_grade_of_problems_that_no_fit_has_seen(op, slow):
    rows, attributes = fit.load(REFERENCE)
    problems = [problem for problem in fit.read_rows(rows) if problem.op == op]
    assert len(problems) == 80
    result = fit.grade(problems, attributes)
    assert result.good >= result.problems - slow and result.worst < 2


# ---- the fit ----------------------------------------------------------------------------------------------------


def segments(count):
    """Rows of copies of 32-byte segments, of every size, which `small` or `segments` is fastest for."""
    rng = np.random.default_rng(9)
    for index in range(count):
        n, m = (int(2 ** rng.uniform(3, 9)) for _ in range(2))
        row = planner.Row("planner", "transpose", f"case {index}", shape=[n, m, 8], axes=[1, 0, 2], us=1.0)
        yield {**dataclasses.asdict(row), "peers": {"tiles": 30.0, "small": 20.0, "segments": 20.0}}


def synthetic(**true):
    """Problems on which the kernel that the true thresholds choose is twice as fast as the others."""
    truth, problems = values_with("transpose", **true), []
    for index, row in enumerate(segments(times(240, 160))):
        problem = fit._read_row(index, row)
        problem.times[problem.choice(fit.H200, truth)] = 10.0
        problems.append(problem)
    return problems


@pytest.mark.parametrize(("cost", "better"), [(0.1, False), (0.2, False), (0.05, True)])
def test_a_fit_that_grades_the_same_is_noise(cost, better):
    before = fit.thresholds("transpose")
    grades = (fit.Grade(9, 9, 1.1, 0.1), fit.Grade(9, 9, 1.1, cost))
    result = fit.Fit("transpose", before, [2 * row.value for row in before], *grades, 27)
    assert result.changed
    assert result.is_better is better


FITTED = pytest.mark.xdist_group("fitted")  # one worker makes the fixture


@pytest.fixture(scope="module")
def fitted():
    """What `fit` makes of problems whose true `copied_elements` is 1 << 13."""
    return fit.fit("transpose", synthetic(copied_elements=1 << 13))


@FITTED
def test_fit_recovers_a_known_threshold(fitted):
    result = fitted
    assert list(result.changed) == ["copied_elements"]
    assert 0.9 < result.changed["copied_elements"][1] / (1 << 13) < 1.1
    assert result.graded_before.good < 0.8 * result.graded_before.problems
    assert result.graded_after.good >= 0.97 * result.graded_after.problems
    assert result.is_better
    assert "copied_elements: 131072 →" in str(result)


def test_fit_keeps_what_is_right():
    result = fit.fit("transpose", synthetic())
    assert not result.changed and not result.is_better
    assert result.graded_after.good == result.graded_after.problems > 20


@FITTED
@pytest.mark.slow
def test_fit_does_not_see_the_problems_that_are_held_out(fitted):
    problems = synthetic(copied_elements=1 << 13)
    held_out = [problem for problem in problems if problem.held_out]
    assert 0.15 < len(held_out) / len(problems) < 0.35
    for problem in held_out:
        problem.times.update(dict.fromkeys(problem.times, 5.0), tiles=1.0)
    assert fit.fit("transpose", problems).values == fitted.values
    assert fit.fit("transpose", held_out).values == values_with("transpose")  # nothing to fit to


@FITTED
def test_fit_leaves_thresholds_of_the_work_split(fitted):
    split = [row.name for op in fit.OPS for row in fit.thresholds(op) if not row.choice]
    assert {"full_tile_elements", "max_chunk_bytes", "wide_tile"} <= set(split)
    assert not set(split) & set(fitted.changed)


def products(**true):
    """Random products whose kernels take the times that the policy predicts with some other thresholds."""
    values, problems = values_with("matmul", **true), []
    for index, row in enumerate(planner.random_products(120, 1 << 26)):
        *batch, m, n, k = row.shape
        size = (np.dtype(row.dtype), math.prod(batch), m, n, k)
        times = {}
        for info in smemkit.kernels("matmul"):
            (time,) = _core.predicted_matmul_times(132, values, info.name, [size])
            if row.dtype in info.dtypes and time is not None:
                times[info.name] = time
        problems.append(fit._read_row(index, {**dataclasses.asdict(row), "us": 1.0, "peers": times}))
    return problems


def test_predicted_times_of_few_and_of_many_blocks():
    """Between one block and many, latency and operations add up like the legs of a right triangle."""
    speeds = {"simt_launch": 1, "simt_one": 100, "simt_many": 400, "simt_start": 1, "memory_bytes": 10**12}
    values = values_with("matmul", **speeds, add_slices=10**15)  # k stays whole
    tile = 2 * 64 * 64 * (1 << 20) / 1e9  # seconds of a tile at 1 GFLOP/s
    sizes = [("float32", batches, 64, 64, 1 << 20) for batches in (1, 132, 4 * 132, 100 * 132)]
    times = _core.predicted_matmul_times(132, values, "simt", sizes)
    expected = [0.01, 0.01, math.hypot(4 / 400, math.sqrt(0.01**2 - 1 / 400**2)), 100 / 400]
    assert [time / tile / 1e6 for time in times] == pytest.approx(expected, rel=2e-3)
    slower = values_with("matmul", **speeds | {"simt_one": 500, "add_slices": 10**15})
    one, several = _core.predicted_matmul_times(132, slower, "simt", [sizes[0], sizes[2]])
    assert [one / tile / 1e6, several / tile / 1e6] == pytest.approx([1 / 500, 1 / 500 + 3 / 400], rel=2e-3)


def test_predicted_times_of_copies_of_operands():
    """wgmma_large copies rows that are no multiples of 16 bytes; those that are, not of 32, may take longer."""
    values = values_with("matmul", copied_bytes=1, copy_rows=1)  # copies take long
    slow = values_with("matmul", wgmma_large_odd_a=1000, wgmma_large_odd_b=1000, copied_bytes=10**9, copy_rows=1)
    sizes = [("float16", 1, m, m, k) for m in (1024, 4096) for k in (64, 72, 76)]
    copied = [t > 10**4 for t in _core.predicted_matmul_times(132, values, "wgmma_large", sizes)]
    assert copied == [False, False, True] * 2
    whole, amid, *_ = _core.predicted_matmul_times(132, slow, "wgmma_large", sizes)
    assert amid > 4 * whole  # the TMA reads them slowly


def test_predicted_times_of_thin_tiles():
    values = values_with("matmul", wgmma_large_one=1, wgmma_large_many=1, wgmma_large_launch=1)
    one_width = [(132, 256), (200, 256), (66, 320), (66, 384), (66, 448)]  # rows of tiles, columns of C
    two_widths = [(140, 256), (32, 4096), (38, 1008)]
    sizes = [("float16", 1, 128 * rows, n, 1024) for rows, n in one_width + two_widths]
    times = _core.predicted_matmul_times(132, values, "wgmma_large", sizes)
    thin = {columns: (columns + 35) / (256 + 35) for columns in (128, 160, 192, 224, 240)}
    expected = [1, 2, thin[160], thin[192], thin[224], 1 + thin[128], 3 + thin[240], 1 + thin[128]]
    assert [time / times[0] for time in times] == pytest.approx(expected, rel=2e-3)


def test_predicted_times_of_tiles_outside_c():
    whole_k = {"memory_bytes": 10**12, "add_slices": 10**15}
    values = values_with("matmul", mma_small_half_launch=1, mma_small_half_empty=40, **whole_k)
    sizes = [("float16", 1, m, n, 1 << 14) for m, n in ((64, 64), (16, 64), (64, 32), (16, 32), (640, 16))]
    times = _core.predicted_matmul_times(132, values, "mma_small", sizes)
    shares = [time / times[0] for time in times]
    assert shares == pytest.approx([1, 1 - 0.4 * 3 / 4, 1 - 0.4 / 2, 1 - 0.4 * 7 / 8, 1 - 0.4 * 3 / 4], rel=0.02)


def test_fit_of_matmul_recovers_speeds(monkeypatch):
    monkeypatch.setattr(fit, "ROUNDS", 2)
    monkeypatch.setattr(fit, "TRIES", 40)
    true = {"simt_many": 150, "tiny_one": 4}
    result = fit.fit("matmul", products(**true))
    assert set(true) <= set(result.changed)
    assert result.is_better
    before, fitted = ([row.value for row in fit.thresholds("matmul")], result.values)
    for kernel, timed in fit._timed_kernels(products(**true)).items():
        logs = [np.log(_core.predicted_matmul_times(132, v, kernel, timed.problems)) for v in (before, fitted)]
        away, left = (np.mean(np.abs(log - timed.logs)) for log in logs)
        assert left < 0.05, kernel
        assert (away > 0.1) == (kernel in ("simt", "tiny")), kernel


def test_predicted_times():
    values = values_with("matmul")

    def predicted(kernel, *problems, values=values):
        return _core.predicted_matmul_times(132, values, kernel, list(problems))

    small, large = predicted("simt", ("float32", 1, 64, 64, 64), ("float32", 1, 4096, 4096, 4096))
    assert 1 < small < 10 and 2000 < large < 6000
    odd = values_with("matmul", simt_large_odd_a=40, simt_large_odd_b=90)
    shapes = (4096, 4096), (4096, 4095), (4095, 4096), (4095, 4095)
    whole, odd_k, odd_n, both = predicted(
        "simt_large", *(("float32", 1, 4096, n, k) for n, k in shapes), values=odd
    )
    assert odd_k / whole == pytest.approx(1.4, rel=0.03)
    assert odd_n / whole == pytest.approx(1.9, rel=0.03)
    assert both / whole == pytest.approx(2.1, rel=0.03)  # 90 % and half of 40 %
    slow_stores = values_with("matmul", odd_store=10**3)
    shapes = (4096, 64), (4095, 64)
    before, after = (
        predicted("wgmma_large", *(("float16", 1, 4096, n, k) for n, k in shapes), values=some)
        for some in (values, slow_stores)
    )
    assert after[0] == before[0] and after[1] > 1.5 * before[1]  # only a C with odd rows
    assert (
        predicted("wgmma_large", ("float32", 1, 64, 64, 64)) == predicted("naive", ("int8", 1, 9, 9, 9)) == [None]
    )
    slow = values_with("matmul", simt_many=1, simt_one=1)
    assert predicted("simt", ("float32", 1, 512, 512, 512), values=slow)[0] > 2000
    with pytest.raises(ValueError, match="kernel: expected one of"):
        predicted("simd", ("float32", 1, 64, 64, 64))
    with pytest.raises(ValueError, match="multiprocessors: expected at least 1, got 0"):
        _core.predicted_matmul_times(0, values, "simt", [])
    with pytest.raises(TypeError, match="problems: expected tuples"):
        predicted("simt", 5)
    with pytest.raises(ValueError, match=r"^thresholds: expected \d+ integers for matmul, got 1"):
        predicted("simt", values=[1])


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"us": -1.0}, r"row 0, .*: expected positive times and lengths, got \[-1.0\]"),
        ({"us": math.nan}, "expected positive times"),
        ({"peers": {"rows": 0.0}}, "expected positive times"),
        ({"peers": {"rows": math.inf}}, "expected positive times"),
        ({"peers": None}, "row 0 is not one of the suites 'planner' and 'matmul'"),
        ({"peers": {"rows": "fast"}}, "row 0 is not one of the suites 'planner' and 'matmul'"),
        ({"shape": None}, "row 0 is not one of the suites 'planner' and 'matmul'"),
        ({"shape": [0, 3]}, "expected positive times and lengths"),
        ({"dtype": "float31"}, "row 0 is not one of the suites 'planner' and 'matmul'"),
        ({"suite": "reduce"}, "expected rows of the suite 'planner'"),
    ],
    ids=str,
)
def test_bad_data_are_refused(graded, change, message):
    with pytest.raises(ValueError, match=rf"^data: .*{message}|^data: {message}"):
        fit.read_rows([{**graded[0], **change}])


@pytest.mark.parametrize(
    "text", ["", "[]", "{}", '{"rows": 3, "environment": {}}', '{"rows": [], "environment": {}}']
)
def test_files_without_rows_are_refused(tmp_path, text):
    path = tmp_path / "data.json"
    path.write_text(text)
    with pytest.raises(ValueError, match=r"data\.json: expected "):
        fit.load(path)


def test_stored_rows_can_be_loaded(tmp_path, graded):
    products = [dataclasses.asdict(row) for row in planner.random_products(9, 1 << 20)]
    rows = [*graded[:9], *(row | {"us": 1234.56, "peers": {"simt": 0.0123456, "tiny": 3.0}} for row in products)]
    fit.store(tmp_path / "data.json", {"gpu": "a GPU", "attributes": HALF}, rows)
    loaded, attributes = fit.load(tmp_path / "data.json")
    assert attributes == HALF and len(loaded) == len(rows)
    assert loaded[-1] == {
        **{key: products[-1][key] for key in ("suite", "op", "case", "dtype", "shape")},
        **({"precision": products[-1]["precision"]} if products[-1]["precision"] else {}),
        "us": 1235.0,
        "peers": {"simt": 0.01235, "tiny": 3.0},
    }
    before, after = (fit.read_rows(some) for some in (rows, loaded))
    assert [problem.case for problem in before] == [problem.case for problem in after]
    assert [problem.choice(HALF) for problem in before] == [problem.choice(HALF) for problem in after]


@pytest.fixture
def source(tmp_path):
    """A copy of the tables."""
    for name in ("fitted_gpus.def", *(f"{op}/thresholds.def" for op in fit.OPS)):
        path = tmp_path / "csrc" / "ops" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / "csrc" / "ops" / name, path)
    return tmp_path


def result_of(op, attributes=fit.H200, **changed):
    none = fit.grade([], attributes)
    rows = fit.thresholds(op, attributes)
    return fit.Fit(op, rows, values_with(op, attributes, **changed), none, none, 0)


def test_fit_writes_the_table(source):
    names = {"transpose": "small_elements", "reduce": "max_rowwise_elements", "matmul": "wgmma_large_many"}
    for op, name in names.items():
        path = source / "csrc" / "ops" / op / "thresholds.def"
        before = path.read_text().splitlines()
        assert fit.write(result_of(op, **{name: 77}), source / "csrc", fit.H200) == path
        changed = [
            (old, new) for old, new in zip(before, path.read_text().splitlines(), strict=True) if old != new
        ]
        ((old, new),) = changed
        if op == "matmul":
            assert old.startswith("SPEED(wgmma_large, SM_90, ") and new.split(", ")[4] == "77"
        else:
            assert f"CHOICE({name}, " in old and "SM_90(77)," in new
    half = result_of("transpose", HALF, small_elements=50)  # as on the GPU of the column
    fit.write(half, source / "csrc", HALF)
    assert (
        'CHOICE(small_elements, GPU, "elements", SM_90(100),'
        in path.with_name("thresholds.def").parent.parent.joinpath("transpose/thresholds.def").read_text()
    )


def test_every_row_can_be_written(source):
    for op in fit.OPS:
        rows = fit.thresholds(op)
        fit.write(result_of(op, **{row.name: row.value + 1 for row in rows}), source / "csrc", fit.H200)
        text = (source / "csrc" / "ops" / op / "thresholds.def").read_text()
        for row in rows:
            values = ("launch", "one", "many", "start", "empty", "odd_a", "odd_b")
            speed = re.fullmatch(rf"(\w+?)_({'|'.join(values)})", row.name)
            if op == "matmul" and speed:
                found = re.search(rf"^SPEED\({speed[1]}, SM_90, (.*)\)$", text, re.MULTILINE)
                assert found[1].split(", ")[values.index(speed[2])] == str(row.value + 1)
            else:
                assert f"SM_90({row.value + 1})," in text


def test_capability_without_a_column_is_refused(source):
    with pytest.raises(ValueError, match=r"fitted_gpus\.def: expected a row for capability 120, got 90"):
        fit.write(result_of("reduce", few_rows=9), source / "csrc", fit.Attributes(120, 132, 0))


def test_products_measured_by_name():
    """The first of a kernel's times, which has the usual options; no cold ones, and none of kernel=None."""
    row = {"suite": "matmul", "op": "matmul", "dtype": "float32", "shape": [300, 64, 32], "cold": False}
    times = [("tiled", 5.0), ("tiled", 7.0), ("simt", 3.0), (None, 2.0)]
    rows = [{**row, "kernel": kernel, "us": us} for kernel, us in times]
    rows += [
        {**row, "kernel": "naive", "us": 9.0, "cold": True},
        {**row, "kernel": "naive", "us": 1.0, "suite": "call"},
    ]
    (problem,) = fit.read_rows(rows)
    assert problem.times == {"tiled": 5.0, "simt": 3.0} and problem.shapes == ((300, 32), (32, 64))
    assert problem.partly_measured and not problem.held_out
    for index in range(40):
        assert not dataclasses.replace(problem, case=f"case {index}").held_out
    with pytest.raises(ValueError, match=r"row 1, .*: expected positive times and lengths"):
        fit.read_rows([rows[0], {**rows[2], "shape": None}])


def test_several_files_are_of_one_gpu(capsys, tmp_path):
    rows = [row for row in fit.load(PROBLEMS)[0] if row["op"] == "transpose"]
    paths = [tmp_path / f"{name}.json" for name in ("first", "second", "third")]
    gpus = fit.H200, fit.H200, HALF
    for path, attributes, part in zip(paths, gpus, (rows[:30], rows[30:40], rows[:9]), strict=True):
        fit.store(path, {"gpu": "some", "attributes": attributes}, part)
    assert main(["bench", "planner", "--fit", "--data", *map(str, paths[:2])]) == 0
    found = re.search(r"transpose: fitted to (\d+) problems.*?of (\d+) ", capsys.readouterr().out, re.DOTALL)
    assert sum(map(int, found.groups())) == 40
    assert main(["bench", "planner", "--fit", "--data", *map(str, paths)]) == 2
    assert "--data: expected files of one GPU" in capsys.readouterr().err


def test_a_failed_measurement_keeps_the_problems_before_it(monkeypatch, tmp_path):
    class Gpu:
        is_cuda, description, capability, multiprocessors, l2_bytes = True, "some GPU", (9, 0), 132, 60 << 20

    def grade(row, device):
        if len(measured) == 2:
            raise ArithmeticError("wrong")
        measured.append(dataclasses.replace(row, us=2.0, peers={"rows": 2.0, "rowwise": 3.0}))
        return measured[-1]

    measured, path = [], tmp_path / "fit.json"
    monkeypatch.setattr(fit, "Device", lambda name: Gpu)
    monkeypatch.setattr(planner, "grade", grade)
    arguments = argparse.Namespace(device="cuda:0", problems=12, json=path)
    with pytest.raises(ArithmeticError, match="wrong"):
        fit._measure(arguments)
    rows, attributes = fit.load(path)
    assert [row["case"] for row in rows] == [row.case for row in measured] and attributes == fit.H200
    path.unlink()
    with pytest.raises(ArithmeticError, match="wrong"):
        fit._measure(arguments)
    assert not path.exists()  # nothing was measured


def test_fit_on_the_command_line(source, capsys, tmp_path, graded):
    content = json.loads(GRADED.read_text(encoding="utf-8"))
    content["rows"] = [row for row in content["rows"] if row["suite"] == "planner"][:: times(1, 3)]
    data = tmp_path / "planner.json"
    data.write_text(json.dumps(content), encoding="utf-8")
    assert main(["bench", "planner", "--fit", "--data", str(data), "--source", str(source)]) == 0
    out = capsys.readouterr().out
    for op in fit.OPS:
        assert f"{op}: " in out
    assert out.count("before: ") == out.count("after: ") == 2
    assert "matmul: not fitted: the data have no problems of it" in out
    assert main(["bench", "planner", "--fit", "--data", str(GRADED), "--source", str(tmp_path / "x")]) == 2
    assert "--source: expected smemkit's source folder" in capsys.readouterr().err
    for wrong in (["bench", "reduce", "--fit"], ["bench", "--data", str(GRADED)]):
        with pytest.raises(SystemExit):
            main(wrong)
    content = {"environment": {"attributes": list(HALF)}, "rows": graded[:50]}
    path = tmp_path / "half.json"
    path.write_text(json.dumps(content))
    assert fit.load(path)[1] == HALF


# ---- tuning -----------------------------------------------------------------------------------------------------


@pytest.mark.skipif(smemkit.is_available(), reason="there is a GPU")
def test_fit_and_tune_need_a_gpu(capsys, monkeypatch):
    for words in (["tune"], ["tune", "--forget"], ["tune", "--json"], ["bench", "planner", "--fit"]):
        assert main([*words, "--device", "cpu"]) == main(words) == 2
        out, err = capsys.readouterr()
        assert "it needs a CUDA device" in err and not out


def test_tuned_thresholds_choose_and_keep_the_bits(device, cache):
    for x, axes in ((integers((300, 200), "float32"), None), (integers((90, 40, 7), "uint8"), (2, 0, 1))):
        array, expected = on(device, x), x.transpose(axes)
        before = smemkit.plan("transpose", array, axes).kernels
        out = on(device, np.full(expected.shape, 99, x.dtype))
        smemkit.transpose(array, axes, out=out)
        for value in (1, 1 << 40):
            tiny = {row.name: value for row in fit.thresholds("transpose") if row.choice}
            _core.set_tuned_thresholds(device, values_with("transpose", **tiny))
            assert_array_equal(smemkit.transpose(array, axes).numpy(), expected)
            out = on(device, np.full(expected.shape, 99, x.dtype))
            smemkit.transpose(array, axes, out=out)
            assert_array_equal(out.numpy(), expected)
        _core.set_tuned_thresholds(device, None)
        assert smemkit.plan("transpose", array, axes).kernels == before


def test_launch_cache_forgets_the_choice_of_former_thresholds(cache):
    """After the change, a call like an earlier one takes another kernel."""
    assert smemkit.check(smemkit.transpose, np.ones((2, 3))).ok  # loads the checked kernels
    x, taken = smemkit.asarray(integers((300, 200), "float32"), device="cpu"), []
    out = smemkit.empty((200, 300), "float32", device="cpu")
    small = values_with("transpose", tiled_elements=1, wide_tiled_elements=1, small_elements=1 << 40)
    for values in (None, small, None):
        _core.set_tuned_thresholds("cpu", values)
        for _ in range(2):
            (launch,) = _core.checked(lambda: smemkit.transpose(x, out=out), 1 << 20, 0, 0, None, 1)
            taken.append(launch["kernel"])
            assert_array_equal(out.numpy(), x.numpy().T)
    assert taken[0] == taken[1] == taken[4] == taken[5]
    assert taken[2] == taken[3] != taken[0]


def test_tuned_thresholds_are_stored_and_loaded_before_the_first_transpose(cache):
    device = smemkit.Device("cpu")
    values = {row.name: row.value for row in fit.thresholds("transpose")} | {"small_elements": 1 << 40}
    values |= {"tiled_elements": 1, "wide_tiled_elements": 1}
    path = tuned.store(device, values)
    assert path.parent == cache and tuned.in_use("cpu")
    code = "import numpy as np, smemkit, sys; before = 'smemkit.measure.tuned' in sys.modules; "
    code += "x = np.ones((300, 200), np.float32); "
    code += "print(before, smemkit.plan('transpose', x, device='cpu').kernels)"
    assert run_python("-c", code).stdout.strip() == "False ('small',)"
    content = json.loads(path.read_text())
    wrong = [json.dumps({**content, "transpose": {**values, "small_elements": -1}})]
    wrong += [json.dumps({**content, "transpose": {"a": 1}}), "", "{}", json.dumps({**content, "key": "x"})]
    for bad in times(wrong, wrong[:1]):
        path.write_text(bad)
        assert run_python("-c", code).stdout.strip() == "False ('tiles',)"
    assert tuned.forget(device) and not tuned.forget(device)
    assert not path.exists() and not tuned.in_use("cpu")


def test_info_says_when_thresholds_are_tuned(cache, capsys):
    assert main(["info"]) == 0
    assert "tuned transposes" not in capsys.readouterr().out
    _core.set_tuned_thresholds("cpu", values_with("transpose"))
    assert main(["info"]) == 0
    assert "tuned transposes" in capsys.readouterr().out


def test_tune_measures_fits_and_stores(cache, monkeypatch):
    """On the CPU device, as on a GPU on which `small` is faster than any other kernel."""
    device = smemkit.Device("cpu")
    monkeypatch.setattr(tune, "PROBLEMS", times(60, 30))
    monkeypatch.setattr(tune, "MAX_BYTES", 1 << 16)
    monkeypatch.setattr(fit, "attributes_of", lambda _: fit.H200)

    def seconds(problem, out, kernel, _):
        problem.call(out=out, kernel=kernel)()
        return 1e-6 if kernel == "small" else 2e-6

    monkeypatch.setattr(planner, "measured_time", seconds)
    result = tune.tune(device, tune.Console(quiet=True))
    assert result.changed and tuned.in_use("cpu")
    assert tuple(result.values) == _core.tuned_thresholds("cpu")
    assert result.graded_after.cost < result.graded_before.cost


def test_thresholds_are_listed(capsys):
    assert main(["kernels", "--thresholds"]) == 0
    out = capsys.readouterr().out
    for op in fit.OPS:
        for row in fit.thresholds(op):
            assert row.name in out
    assert main(["kernels", "convert", "--thresholds"]) == 2
