"""The least time of a product: each limit, with numbers that are computed by hand."""

import pytest

from smemkit.measure.prediction import H200, MMA, WGMMA, Gpu, ProductWork, predict

GPU = Gpu("a GPU", multiprocessors=2, clock=100.0, l2_bandwidth=1000.0, memory_bandwidth=500.0)
PRODUCT = ProductWork((8, 8, 32), 4, tile=16, requests=0, wavefronts=0)


def test_each_limit():
    work = ProductWork((8, 8, 32), 4, tile=16, requests=36, wavefronts=30)
    times = predict(work, GPU).times
    assert times["FMA"] == 8 * 8 * 32 / 32 / (2 * 4 * 100)
    assert times["issue"] == (64 + 36) / (2 * 4 * 100)
    assert times["shared"] == 30 / (2 * 100)
    assert times["L2"] == 4 * (4 + 4) * 32 * 4 / 1000  # 4 blocks read 4 rows and 4 columns each
    assert times["memory"] == (8 * 32 + 32 * 8 + 8 * 8) * 4 / 500


@pytest.mark.parametrize(
    ("change", "limit"),
    [({"requests": 10_000}, "issue"), ({"wavefronts": 10_000}, "shared"), ({"tile": 1}, "L2"), ({}, "memory")],
)
def test_the_slowest_limit_counts(change, limit):
    prediction = predict(ProductWork(**(vars(PRODUCT) | change)), GPU)
    assert prediction.limit == limit
    assert prediction.seconds == max(prediction.times.values()) == prediction.times[limit]


def test_an_h200_without_requests_reaches_its_peak():
    work = ProductWork((4096, 4096, 4096), 4, tile=128 * 128, requests=0, wavefronts=0)
    assert 2 * 4096**3 / predict(work).seconds == pytest.approx(H200.multiprocessors * 128 * 2 * H200.clock)
    assert predict(work).limit == "FMA"


@pytest.mark.parametrize(("multiplier", "per_clock", "products"), [(MMA, 1290.24, 2048), (WGMMA, 2048, 32768)])
def test_tensor_cores(multiplier, per_clock, products):
    times = predict(ProductWork(**(vars(PRODUCT) | {"multiplier": multiplier})), GPU).times
    assert times["tensor cores"] == pytest.approx(8 * 8 * 32 / (per_clock * 2 * 100))
    assert times["issue"] == pytest.approx(8 * 8 * 32 / products / (2 * 4 * 100))
    assert "FMA" not in times
