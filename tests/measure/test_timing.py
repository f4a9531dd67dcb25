"""timer, timed and benchmark say what they measured, and keep every sample."""

import json
import sys
import time

import numpy as np
import pytest
from cases import expect_launches, integers, on

import smemkit
from smemkit import _core
from smemkit.measure import benchmarks

X = integers(100_003, np.float32)


# ---- timer ------------------------------------------------------------------------------------------------------


def test_timer(device):
    with smemkit.Device(device), smemkit.timer() as t:
        smemkit.sum(X)
        time.sleep(0.02)
    assert t.device > 0
    assert 0.02 <= t.host < 10
    assert repr(t).startswith("<Timer host ")


def test_device_time_is_within_host_time(device):
    x = on(device, X)
    with smemkit.Device(device), smemkit.timer() as t:
        smemkit.sum(x)
    assert 0 < t.device < 1.1 * t.host + 1e-4


def test_a_timer_that_has_not_ended_has_no_times(device):
    with pytest.raises(KeyError), smemkit.Device(device), smemkit.timer() as t:
        raise KeyError
    assert (t.host, t.device, repr(t)) == (None, None, "<Timer, not ended>")


# ---- timed ------------------------------------------------------------------------------------------------------


def test_timed_separates_upload_kernel_and_download(device):
    with expect_launches(1):
        result, timing = smemkit.timed(smemkit.sum, X, device=device)
    parts = timing.upload, timing.kernel, timing.download
    assert result == X.sum()
    assert min(parts) > 0
    assert sum(parts) <= 1.1 * timing.total + 1e-4
    assert timing.kernel == max(parts) or device != "cpu"


def test_timed_adds_up_the_calls_of_a_function(device):
    def twice(x):
        time.sleep(0.02)
        return smemkit.add_one(smemkit.add_one(x, device=device), device=device)

    result, timing = smemkit.timed(twice, X)
    assert np.array_equal(result, X + 2)
    assert timing.total > timing.upload + timing.kernel + timing.download + 0.015


def test_timed_without_an_operation():
    result, timing = smemkit.timed(lambda: 7)
    assert (result, timing.upload, timing.kernel, timing.download) == (7, 0, 0, 0)
    assert timing.total > 0


def test_timed_within_timed_ends_with_the_inner(device):
    def nested():
        smemkit.timed(smemkit.sum, X, device=device)

    _, timing = smemkit.timed(nested)
    assert timing.kernel == 0
    _, timing = smemkit.timed(smemkit.sum, X, device=device)
    assert timing.kernel > 0


def test_timed_raises_what_the_function_raises():
    with pytest.raises(ZeroDivisionError):
        smemkit.timed(lambda: 1 / 0)
    with pytest.raises(TypeError, match="x: expected dtype"):
        smemkit.timed(smemkit.sum, "text")


def test_timing_str():
    timing = smemkit.Timing(upload=1e-6, kernel=2.5e-3, download=12e-9, total=3)
    assert str(timing) == "3.00 s: upload 1.00 µs, kernel 2.50 ms, download 12.0 ns"
    assert "2.50 ms" in timing._repr_html_()


def test_overlapping_parts_may_add_up_to_more_than_the_total():
    timing = smemkit.Timing(upload=3e-3, kernel=4e-3, download=2e-3, total=5e-3)
    assert timing.overlap == pytest.approx(4e-3)
    assert str(timing).endswith("download 2.00 ms, 4.00 ms overlapped")
    assert smemkit.Timing(upload=1, kernel=1, download=1, total=4).overlap == 0


# ---- benchmark --------------------------------------------------------------------------------------------------


def test_numpy_operands_are_measured_by_the_hosts_clock(device):
    result = smemkit.benchmark(smemkit.sum, X, device=device, repeat=5)
    assert (result.clock, result.cold, result.inner, result.device) == ("host", None, 1, device)


def test_arrays_are_measured_by_their_devices_clock(device):
    result = smemkit.benchmark(smemkit.sum, on(device, X), repeat=5)
    expected = ("host", None) if device == "cpu" else ("device", True)
    assert (result.clock, result.cold, result.device) == (*expected, device)


@pytest.mark.gpu
@pytest.mark.parametrize("device", ["cuda:0"], indirect=True)
def test_a_warm_cache_is_reported_as_warm(device):
    result = smemkit.benchmark(smemkit.sum, on(device, X), repeat=5, flush_l2=False)
    assert (result.clock, result.cold) == ("device", False)
    assert result.inner > 1  # because the call is so short
    assert "device clock, warm L2, 5 samples of" in str(result)


@pytest.mark.gpu
@pytest.mark.parametrize("device", ["cuda:0"], indirect=True)
def test_a_cold_cache_is_slower(device):
    x = on(device, np.ones(smemkit.Device(device).l2_bytes // 8, np.float32))  # half of L2
    cold, warm = (smemkit.benchmark(smemkit.sum, x, repeat=50, flush_l2=flush) for flush in (True, False))
    assert cold.median > warm.median


@pytest.mark.gpu
@pytest.mark.parametrize("device", ["cuda:0"], indirect=True)
def test_a_captured_benchmark_takes_no_stream(device):
    with pytest.raises(TypeError, match="stream: expected None, because benchmark"):
        smemkit.benchmark(smemkit.sum, on(device, X), stream=0)


def test_another_function_is_measured_by_the_hosts_clock():
    calls = []
    result = smemkit.benchmark(lambda: (calls.append(1), time.sleep(0.01)), warmup=2, repeat=3)
    assert (result.clock, result.cold, len(calls), len(result.samples)) == ("host", None, 5, 3)
    assert 0.01 <= result.best <= result.median
    assert (result.gbps, result.tflops, result.rate) == (None, None, "")


@pytest.mark.parametrize(("limits", "samples"), [({"repeat": 7}, 7), ({"repeat": 7, "max_seconds": 0}, 1)])
def test_every_sample_is_kept(device, limits, samples):
    for x in (X[:100], on(device, X[:100])):
        result = smemkit.benchmark(smemkit.sum, x, device=device, **limits)
        assert len(result.samples) == samples
        assert min(result.samples) > 0
        assert f"{samples} samples" in result.conditions


def test_without_repeat_there_are_at_least_three_samples():
    result = smemkit.benchmark(time.sleep, 0.01, max_seconds=0)
    assert len(result.samples) == 3
    assert sum(smemkit.benchmark(time.sleep, 0.01, max_seconds=0.1).samples) < 0.2


def test_statistics():
    result = smemkit.Benchmark((4e-3, 1e-3, 2e-3, 3e-3, 5e-3), "host", None, 1, "cpu", bytes=3_000_000)
    assert (result.median, result.best) == (3e-3, 1e-3)
    assert result.spread == pytest.approx(2e-3)
    assert result.gbps == pytest.approx(1)
    assert str(result) == "3.00 ms ± 1.00, 1.00 GB/s (host clock, 5 samples)"
    assert repr(result) == f"<Benchmark {result}>"
    assert "host clock, 5 samples" in result._repr_html_()


def test_quantiles():
    result = smemkit.Benchmark((4.0, 1.0, 2.0, 3.0, 5.0), "host", None, 1, "cpu")
    assert result.quantiles == (1, 2, 3, 4, 5)
    assert result.quantile(0.125) == 1.5


LIMITS = smemkit.Ceilings("a GPU", copy_bandwidth=4e9, read_bandwidth=5e9, fp32=2e12)


@pytest.fixture
def limits(monkeypatch):
    """Replaces the measured ceilings by fixed ones; returns the list of devices for which they are measured."""
    asked = []
    monkeypatch.setattr(benchmarks, "ceilings", lambda device: asked.append(device) or LIMITS)
    monkeypatch.setattr(benchmarks, "known", lambda device: LIMITS)
    return asked


@pytest.mark.parametrize(
    ("work", "fraction"),
    [
        ({"bytes": 10**6, "ceiling": "copy_bandwidth"}, 0.25),
        ({"bytes": 10**6, "ceiling": "read_bandwidth"}, 0.2),
        ({"flops": 10**9, "ceiling": "fp32"}, 0.5),
        ({"flops": 10**9, "ceiling": "tf32"}, None),
        ({"bytes": 10**6}, None),
        ({"ceiling": "fp32"}, None),
    ],
)
def test_the_fraction_of_a_ceiling(limits, work, fraction):
    result = smemkit.Benchmark((1e-3,), "device", False, 1, "cuda:0", **work)
    assert result.ceiling_fraction == (None if fraction is None else pytest.approx(fraction))
    assert limits == (["cuda:0"] if "ceiling" in work else [])
    assert (f", {fraction or 0:.0%} of the ceiling (device clock" in str(result)) == bool(fraction)
    assert ("of the ceiling" in result._repr_html_()) == bool(fraction)


def test_str_does_not_measure(limits, monkeypatch):
    monkeypatch.setattr(benchmarks, "known", lambda device: None)
    result = smemkit.Benchmark((1e-3,), "device", False, 1, "cuda:0", bytes=10**6, ceiling="copy_bandwidth")
    assert "ceiling" not in str(result) + result._repr_html_()
    assert limits == []


def test_a_benchmark_of_another_machine_can_be_printed():
    result = smemkit.Benchmark((1e-3,), "device", False, 1, "cuda:99", bytes=10**6, ceiling="copy_bandwidth")
    assert str(result) == "1.00 ms ± 0, 1.00 GB/s (device clock, warm L2, 1 samples)"


def test_ceiling_of_an_operation(device):
    assert smemkit.benchmark(smemkit.sum, on(device, X), repeat=1).ceiling == "read_bandwidth"
    with_transfer = smemkit.benchmark(smemkit.sum, X, device=device, repeat=1)
    assert with_transfer.ceiling == ("read_bandwidth" if device == "cpu" else None)
    assert smemkit.benchmark(lambda: None, repeat=1).ceiling is None


def test_to_dict_is_json(limits):
    result = smemkit.Benchmark(
        (4e-3, 1e-3, 2e-3), "device", True, 2, "cuda:0", bytes=4_000_000, ceiling="copy_bandwidth"
    )
    content = json.loads(json.dumps(result.to_dict(), allow_nan=False))
    assert content.pop("samples") == [4e-3, 1e-3, 2e-3]
    assert content.pop("quantiles") == pytest.approx([1e-3, 1.5e-3, 2e-3, 3e-3, 4e-3])
    assert content == {
        "device": "cuda:0",
        "clock": "device",
        "cold": True,
        "inner": 2,
        "bytes": 4_000_000,
        "flops": None,
        "median": 2e-3,
        "unit": "GB/s",
        "value": pytest.approx(2),
        "ceiling": "copy_bandwidth",
        "ceiling_fraction": pytest.approx(0.5),
    }
    assert smemkit.Benchmark((1.0,), "host", None, 1, "cpu").to_dict()["unit"] is None


def test_plot(monkeypatch):
    pyplot = pytest.importorskip("matplotlib.pyplot")
    pyplot.switch_backend("agg")
    result = smemkit.Benchmark((4e-3, 1e-3, 2e-3, 3e-3, 5e-3), "host", None, 1, "cpu")
    ax = result.plot()
    (samples,) = (line for line in ax.lines if len(line.get_xdata()) == 5)
    np.testing.assert_allclose(samples.get_xydata(), [(1, 4), (2, 1), (3, 2), (4, 3), (5, 5)])
    assert (ax.get_xlabel(), ax.get_ylabel(), ax.get_title()) == ("sample", "time a call [ms]", str(result))
    legend = [text.get_text() for text in ax.get_legend().get_texts()]
    assert legend == ["quartiles", "median 3.00 ms"]
    (histogram,) = ax.child_axes
    assert sum(bar.get_width() for bar in histogram.patches if bar.get_label() != "quartiles") == 5
    for axes in (ax, histogram):
        (band,) = (patch for patch in axes.patches if patch.get_label() == "quartiles")
        low, high = band.get_extents().transformed(axes.transData.inverted()).intervaly
        assert (low, high) == pytest.approx((2, 4))
        assert any(np.allclose(line.get_ydata(), 3) for line in axes.lines)
    _, own = pyplot.subplots()
    assert smemkit.Benchmark((1e-6,) * 3, "host", None, 1, "cpu").plot(own) is own
    assert own.get_ylabel() == "time a call [µs]"
    pyplot.close("all")


def test_a_plot_without_matplotlib_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(ImportError, match=r"plot: matplotlib is not installed; pip install 'smemkit\[plot\]'"):
        smemkit.Benchmark((1.0,), "host", None, 1, "cpu").plot()


@pytest.mark.parametrize(
    ("op", "operands", "work"),
    [
        ("matmul", (integers((3, 5), np.float32), integers((5, 7), np.float32)), {"flops": 2 * 3 * 5 * 7}),
        ("matmul", (integers((2, 3, 5), np.float32), integers((4, 1, 5, 7), np.float32)), {"flops": 8 * 2 * 105}),
        ("matmul", (integers(5, np.float32), integers((5, 7), np.float32)), {"flops": 2 * 5 * 7}),
        ("matmul", (integers((3, 5), np.float32), integers(5, np.float32)), {"flops": 2 * 5 * 3}),
        ("sum", (X,), {"bytes": X.nbytes}),
        ("argmax", (X,), {"bytes": X.nbytes}),
        ("transpose", (X[None],), {"bytes": 2 * X.nbytes}),
        ("reverse", (X,), {"bytes": 2 * X.nbytes}),
        ("add_one", (X,), {"bytes": 2 * X.nbytes}),
    ],
)
def test_the_work_of_an_operation(device, op, operands, work):
    for given in (operands, [on(device, x) for x in operands]):
        result = smemkit.benchmark(getattr(smemkit, op), *given, device=device, repeat=1)
        assert {"flops": result.flops, "bytes": result.bytes} == {"flops": None, "bytes": None} | work


def test_benchmark_raises_what_the_function_raises():
    with pytest.raises(ZeroDivisionError):
        smemkit.benchmark(lambda: 1 / 0)
    with pytest.raises(ValueError, match="repeat: expected at least 1, got 0"):
        smemkit.benchmark(smemkit.sum, X, repeat=0)


# ---- events and graphs ------------------------------------------------------------------------------------------


def test_events_are_in_order(device):
    earlier = _core.mark(device)
    smemkit.sum(on(device, X))
    later = _core.mark(device)
    assert later.seconds_since(earlier) > 0
    with pytest.raises(TypeError, match=f"earlier: expected an Event of {device}, got 3"):
        later.seconds_since(3)


def test_the_cpu_has_no_graphs():
    with pytest.raises(ValueError, match="device: expected a CUDA device, the CPU device has no graphs"):
        _core.Graph(lambda stream: None, "cpu")


@pytest.mark.gpu
@pytest.mark.parametrize("device", ["cuda:0"], indirect=True)
def test_a_graph_launches_what_it_captured(device):
    x, out = on(device, X), on(device, np.full(X.shape, np.nan, np.float32))
    graph = _core.Graph(lambda stream: smemkit.add_one(x, out=out, stream=stream), device)
    assert graph.replay() > 0
    assert np.array_equal(out.numpy(), X + 1)
