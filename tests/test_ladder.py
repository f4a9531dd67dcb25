"""smemkit.ladder: the measured and recorded times of every rung of the table, and the checker's counts."""

import importlib
import json
import math
from dataclasses import replace
from html import escape

import pytest

import smemkit
from smemkit import ladder
from smemkit.measure import records
from smemkit.measure.benchmarks import Benchmark
from smemkit.table.kernel_table import ladder_of

module = importlib.import_module("smemkit.ladder")  # smemkit.ladder is the function


def flat(measured):
    """The text in one line."""
    return " ".join(str(measured).split())


SHAPES = {"matmul": (40, 20, 30), "reduce": (3000,), "transpose": (64, 96)}
H200 = {"device": "NVIDIA H200", "copy_bandwidth": 4e12, "read_bandwidth": 5e12, "fp32": 6e13}


@pytest.fixture(autouse=True)
def quick(monkeypatch):
    monkeypatch.setattr(module, "SECONDS", 0.001)
    monkeypatch.setattr(module, "SMALL", {"matmul": (32, 32, 32), "reduce": (5000,), "transpose": (64, 64)})


@pytest.fixture
def reference(monkeypatch, tmp_path):
    """A reference file of a GPU, with each rung of reduce twice as fast as the previous one."""
    names = [row.name for row in ladder_of("reduce") if row.needs != "host"]
    rows = [
        {
            **{"suite": "reduce", "op": "reduce", "dtype": "float32", "shape": shape, "axis": None, "cold": cold},
            **{"kernel": name, "us": 1e3 / 2**i, "value": value * 2**i, "ceiling_fraction": value * 2**i / 5e3},
        }
        for shape, cold, value in (([16_777_216], True, 7), ([16_777_216], False, 1), ([3000], False, 2))
        for i, name in enumerate(names)
    ]
    rows += [row | {"kernel": None, "value": 9e9} for row in rows] + [row | {"value": 9e9} for row in rows]
    environment = {"gpu": "NVIDIA H200", "date": "2026-11-22T01:02:03", "ceilings": H200}
    (tmp_path / "gpu.json").write_text(json.dumps({"environment": environment, "rows": rows}))
    monkeypatch.setattr(records, "REFERENCE", tmp_path)
    return names


@pytest.mark.parametrize("op", SHAPES)
def test_every_rung_is_measured(cpu_ladders, op):
    measured = cpu_ladders[op]
    rows = ladder_of(op, "float32")
    assert [(rung.name, rung.idea) for rung in measured.rungs] == [(row.name, row.summary) for row in rows]
    assert (measured.shape, measured.ceiling, measured.unit) == (
        SHAPES[op],
        None,
        "TFLOP/s" if op == "matmul" else "GB/s",
    )
    work = {"matmul": 2 * 40 * 20 * 30 / 1e12, "reduce": 12e-6, "transpose": 2 * 4 * 64 * 96 / 1e9}[op]
    previous = None
    for rung, row in zip(measured.rungs, rows, strict=True):
        assert rung.default == row.default
        assert (rung.counts is None) == (row.needs == "host" or "cpu" not in row.devices)
        if rung.here:
            assert (rung.here.shape, rung.here.fraction) == (SHAPES[op], None)
            assert rung.here.value == pytest.approx(work / rung.here.seconds)
            if not rung.ceiling:
                assert rung.here.speedup == (previous and pytest.approx(rung.here.value / previous))
                previous = rung.here.value
            else:
                assert rung.here.speedup is None
    assert all(rung.here for rung in measured.rungs) or "cannot launch" in flat(measured)


def test_checker_counts_of_rungs():
    counts = {rung.name: rung.counts for rung in ladder("transpose", (64, 64), device="cpu").rungs}
    assert counts["sequential"] is None
    naive, unpadded, padded = counts["naive"], counts["unpadded"], counts["padded"]
    assert (naive.wavefronts, naive.sectors, naive.ideal_sectors, naive.lanes) == (0, 4 + 32, 8, 32)
    assert (unpadded.wavefronts, unpadded.conflicts, unpadded.sectors) == (33, 31, 8)
    assert (padded.wavefronts, padded.conflicts, padded.sectors, padded.shape) == (2, 0, 8, (64, 64))
    counts = {rung.name: rung.counts for rung in ladder("reduce", 10_000, device="cpu").rungs}
    assert counts["divergent"].lanes < 10 < counts["conflicting"].lanes
    assert counts["conflicting"].wavefronts > 3 * counts["tree"].wavefronts
    assert counts["conflicting"].conflicts > counts["divergent"].conflicts == counts["tree"].conflicts == 0


@pytest.fixture(scope="module")
def products():
    """The first rungs of matmul, counted in products of 64 x 64 x 64."""
    names = ("sequential", "naive", "tiled", "thread_row", "pipelined")
    rows = [row for row in smemkit.kernels("matmul") if row.name in names]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "SECONDS", 0.001)
        patch.setattr(module, "kernels", lambda op: rows)
        patch.setitem(module.COUNTED, "matmul", (64, 64, 64))
        return ladder("matmul", 64, device="cpu")


def test_counts_of_products(products):
    counts = {rung.name: rung.counts for rung in products.rungs}
    naive, tiled, row = counts["naive"], counts["tiled"], counts["thread_row"]
    # bytes per 32 multiplications: an element of a's row, in one sector, and 32 of b's; 4096 of c, after 64 each
    assert naive.global_bytes == 32 + 128 + 128 / 64
    assert (naive.shared_bytes, naive.fmas_per_shared_byte, naive.wavefronts) == (0, None, 0)
    # a thread of `tiled` loads 2 elements for each of 32 multiplications, after it has stored one in each tile
    assert (tiled.wavefronts, tiled.conflicts, tiled.lanes) == (2 + 2 / 32, 0, 32)
    assert tiled.fmas_per_shared_byte == 1 / (2 * 4 + 2 * 4 / 32)
    assert tiled.global_bytes == 2 * 128 / 32 + 128 / 64
    # a thread of `thread_row` loads 1 + 8 elements for 8 multiplications, and stores 2 for 8 times as many
    assert row.fmas_per_shared_byte == 8 * 8 / (8 * (1 + 8) * 4 + 2 * 4)
    # a quarter of the tile of `pipelined` counts; copies write 2 * 128 elements for 64 * 64 multiplications
    per_byte = 1 / (4 * (8 + 8) * 4 / (8 * 8) + 2 * 128 * 4 / (64 * 64))
    assert counts["pipelined"].fmas_per_shared_byte == pytest.approx(per_byte)


def test_prediction_of_products(products):
    rungs = {rung.name: rung for rung in products.rungs}
    tiled, clock = rungs["tiled"], 132 * 1.98e9
    assert tiled.predicted.shape == tiled.recorded.shape == (4096, 4096, 4096)
    # passes of a warp for 32 multiplications of its threads: 66 of shared memory, and two loads of 128 bytes; and
    # a store for 4096
    passes = (66 + 2) / 32 + 1 / 4096
    assert tiled.predicted.seconds == pytest.approx(passes * 4096**3 / 32 / clock)
    assert tiled.predicted.value == pytest.approx(2 * 4096**3 / tiled.predicted.seconds / 1e12)
    assert [rungs[name].limited_by for name in ("sequential", "naive", "tiled")] == [None, "shared", "shared"]
    assert rungs["sequential"].predicted is None
    content = products.to_dict()["rungs"][2]
    assert content["predicted"]["seconds"] == tiled.predicted.seconds
    assert content["counts"]["fmas_per_shared_byte"] == tiled.counts.fmas_per_shared_byte


def test_columns_of_products(products):
    columns = products.columns
    assert list(columns)[6:] == [
        *("predicted", "limit", "wavefronts", "conflicts", "bytes", "ideal", "lanes", "FMA/byte", "in flight")
    ]
    assert (columns["bytes"][2], columns["FMA/byte"][:3]) == ("10", ["", "", "0.121"])
    assert columns["in flight"][-1] == "32,768"  # two of the three stages of `pipelined`
    assert "predicted: what an NVIDIA H200 could reach" in flat(products)
    assert max(map(len, str(products).splitlines())) <= 80


def test_other_dtypes_and_operations_are_not_predicted(cpu_ladders):
    for op in SHAPES:  # the shape of matmul is small
        assert all(rung.predicted is rung.limited_by is None for rung in cpu_ladders[op].rungs)
        assert "predicted" not in cpu_ladders[op].columns
    assert "FMA/byte" not in cpu_ladders["reduce"].columns


def test_sampled_counts_are_extrapolated(monkeypatch):
    monkeypatch.setattr(module, "SECONDS", 0.001)
    whole = {rung.name: rung.counts for rung in ladder("transpose", (512, 512), device="cpu").rungs}
    monkeypatch.setattr(module, "check", lambda *args, **kw: smemkit.check(*args, **kw, blocks=3))
    for rung in ladder("transpose", (2000, 700), device="cpu").rungs:
        if rung.name != "narrow":  # its last blocks have less work
            assert rung.counts == whole[rung.name]


def test_recorded_and_measured_times_are_shown(reference):
    measured = ladder("reduce", device="cpu")
    assert measured.shape == (5000,)
    assert measured.recorded_on == "NVIDIA H200, 2026-11-22, n = 16,777,216"
    assert measured.recorded_ceiling == 5000
    first, *rungs = measured.rungs
    assert first.recorded is None
    assert [rung.name for rung in rungs] == reference
    assert [rung.recorded.value for rung in rungs] == [2**i for i in range(len(rungs))]
    assert [rung.recorded.speedup for rung in rungs] == [None] + [2.0] * (len(rungs) - 1)
    assert rungs[2].recorded.fraction == 4 / 5e3
    assert "not measured here, but recorded on NVIDIA H200, 2026-11-22, n = 16,777,216." in flat(measured)
    assert "recorded" in measured.columns and "executor's times, which say nothing about a GPU" in measured.title


@pytest.mark.slow
def test_recorded_times_for_the_requested_shape(reference):
    assert ladder("reduce", 3000, device="cpu").rungs[1].recorded.value == 2
    assert ladder("reduce", 2999, device="cpu").rungs[1].recorded.value == 1
    measured = ladder("reduce", 3000, dtype="int32", device="cpu")
    assert measured.recorded_on is measured.recorded_ceiling is measured.rungs[1].recorded is None
    assert "recorded" not in flat(measured)


class FakeGpu(smemkit.Device):
    """The CPU device, with the attributes of a GPU."""

    is_cuda = True
    l2_bytes = 1000


@pytest.fixture
def gpu(monkeypatch):
    """A fake GPU, on which each call takes a millisecond."""
    rows = [
        replace(row, devices=("cuda", "cpu")) if row.needs != "host" and row.name != "naive" else row
        for row in smemkit.kernels()
    ]

    def one_millisecond(call, device, *, cold, max_seconds, **work):
        call(None)
        return Benchmark((1e-3,), "device", cold, 1, device, **work)

    for name, value in {
        "Device": lambda name: FakeGpu("cpu"),
        "ceilings": lambda device: smemkit.Ceilings(**H200),
        "kernels": lambda op: [row for row in rows if row.op == op],
        "measure": one_millisecond,
        "SMALL": {"matmul": (8, 8, 8), "reduce": (100,), "transpose": (8, 8)},
    }.items():
        monkeypatch.setattr(module, name, value)


@pytest.mark.parametrize(("op", "ceiling", "work"), [("reduce", 5e3, 0.012), ("matmul", 60, 4.8e-5)])
def test_gpu_rungs_are_compared_with_the_ceiling(gpu, op, ceiling, work):
    measured = ladder(op, SHAPES[op])
    assert (measured.ceiling, measured.recorded_on) == (ceiling, None)
    assert measured.clock == "device clock, warm caches"
    first, *rungs = measured.rungs
    assert first.here.shape == tuple(map(min, SHAPES[op], module.SMALL[op]))
    assert first.here.fraction is None
    assert f"sequential is measured on n = {module.SMALL[op][0]}." in flat(measured)
    rungs = [rung for rung in rungs if rung.here]
    for rung in rungs:
        assert rung.here.value == pytest.approx(work)
        assert rung.here.fraction == pytest.approx(work / ceiling)
    assert [rung.here.speedup for rung in rungs[1:]] == [1.0] * (len(rungs) - 1)


def test_shapes_within_l2_have_no_ceiling(gpu, monkeypatch):
    monkeypatch.setattr(FakeGpu, "l2_bytes", 12_000)
    assert all(rung.here.fraction is None for rung in ladder("reduce", 3000).rungs)
    assert all(rung.here.fraction for rung in ladder("reduce", 3001).rungs[1:])


def test_the_ceiling_of_transpose_has_no_speedup(gpu, monkeypatch):
    rungs = {rung.name: rung for rung in ladder("transpose", 64).rungs}
    assert rungs["copy"].ceiling and rungs["copy"].here.speedup is None
    assert rungs["unpadded"].here.speedup == pytest.approx(
        rungs["unpadded"].here.value / rungs["sequential"].here.value
    )
    assert rungs["naive"].here is rungs["naive"].recorded is None  # this build has it only for the CPU


def test_rungs_without_the_dtype_are_skipped_and_reported(monkeypatch):
    rows = [replace(row, dtypes=("float32",)) if row.name == "tree" else row for row in smemkit.kernels("reduce")]
    monkeypatch.setattr(module, "kernels", lambda op: rows)
    measured = ladder("reduce", 100, dtype="int8", device="cpu")
    assert "tree" not in [rung.name for rung in measured.rungs]
    assert "without tree, which do not support int8." in flat(measured)


def test_ladder_str(cpu_ladders):
    measured = cpu_ladders["transpose"]
    lines = str(measured).splitlines()
    assert flat(measured).startswith(measured.title)
    assert max(map(len, lines)) <= 80
    first, second = (i for i, line in enumerate(lines) if line.split()[:1] in (["time"], ["wavefronts"]))
    for rung in measured.rungs:
        at, again = (
            i for i, line in enumerate(lines[: lines.index("", second)]) if f"{line} ".startswith(f"{rung.name} ")
        )
        assert first < at < second < again
        assert (
            " ".join(" ".join(lines[at + 1 : at + 3]).split()).removeprefix("the ceiling: ").startswith(rung.idea)
        )
    assert "    the ceiling: moves every byte once" in str(measured)
    (best,) = (row.name for row in smemkit.kernels("transpose") if row.default)
    assert f"{best} *" in flat(measured)
    assert repr(measured) == f"<Ladder {measured.title}: {len(measured.rungs)} rungs>"


def test_ladder_html(cpu_ladders):
    measured = cpu_ladders["reduce"]
    html = measured._repr_html_()
    assert html.count("<tr>") == 1 + len(measured.rows)
    assert all(f"<td>{escape(rung.idea)}</td>" in html for rung in measured.rows)


def test_ladder_to_dict(reference):
    measured = ladder("reduce", 100, device="cpu")
    content = json.loads(json.dumps(measured.to_dict(), allow_nan=False))
    assert (content["schema"], content["version"]) == ("smemkit.ladder", 1)
    assert content["shape"] == [100]
    assert [rung["name"] for rung in content["rungs"]] == [rung.name for rung in measured.rungs]
    assert content["rungs"][1]["recorded"]["value"] == 1
    assert content["rungs"][1]["counts"]["lanes"] == measured.rungs[1].counts.lanes


def test_ladder_plot(gpu):
    pytest.importorskip("matplotlib")
    measured = ladder("transpose", 64)
    (axes,) = measured.plot().axes
    shown = [rung for rung in measured.rows if rung.here]
    assert [bar.get_width() for bar in axes.patches] == [rung.here.value for rung in shown]
    assert [label.get_text() for label in axes.get_yticklabels()] == [rung.name for rung in shown]
    assert axes.lines[0].get_xdata()[0] == measured.ceiling == 4000
    assert measured.plot()._repr_png_().startswith(b"\x89PNG")


def test_ladder_plot_of_recorded_times(reference):
    pytest.importorskip("matplotlib")
    figure = ladder("reduce", 100, device="cpu").plot()
    assert [bar.get_width() for bar in figure.axes[0].patches] == [2**i for i in range(len(reference))]
    assert "recorded on NVIDIA H200" in figure.get_suptitle()
    assert figure.axes[0].lines[0].get_xdata()[0] == 5000


def test_plot_without_matplotlib_says_how_to_install_it(monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "matplotlib.figure", None)
    with pytest.raises(ImportError, match=r"ladder.plot\(\) draws with matplotlib: pip install 'smemkit\[plot\]'"):
        ladder("reduce", 100, device="cpu").plot()


@pytest.mark.parametrize(
    ("arguments", "options", "error", "message"),
    [
        (("reverse",), {}, ValueError, "op: expected one of matmul, reduce, transpose; got 'reverse'"),
        (("reduce", 0), {}, ValueError, "shape: expected a positive integer, got 0"),
        (("reduce", (3, 4)), {}, ValueError, r"shape: expected a positive integer, got \(3, 4\)"),
        (("matmul", (3, 4)), {}, ValueError, r"shape: expected a positive integer or 3 of them, got \(3, 4\)"),
        (
            ("transpose", (3, 4.0)),
            {},
            ValueError,
            r"shape: expected a positive integer or 2 of them, got \(3, 4.0\)",
        ),
        (("reduce",), {"dtype": "longdouble"}, ValueError, "dtype: expected one of bool, .*got '"),
        (("reduce",), {"dtype": "nope"}, TypeError, "data type 'nope' not understood"),
        (("reduce",), {"device": "cuda:99"}, smemkit.NoDeviceError, "device: 'cuda:99' is not available"),
    ],
)
def test_ladder_rejects_invalid_arguments(arguments, options, error, message):
    with pytest.raises(error, match=message):
        ladder(*arguments, **options)


@pytest.mark.gpu
@pytest.mark.parametrize("device", ["cuda:0"], indirect=True)
@pytest.mark.parametrize("op", SHAPES)
def test_on_a_real_gpu(device, op):
    measured = ladder(op, device=device)
    for rung in measured.rungs:
        assert rung.here is None or (rung.here.seconds > 0 and math.isfinite(rung.here.value))
    best = max(rung.here.fraction or 0 for rung in measured.rungs if rung.here)
    assert 0.05 < best < 1.1
