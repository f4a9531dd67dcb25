"""The ceiling kernels do the work that they report, and measured ceilings are cached."""

import json
from dataclasses import fields, replace

import numpy as np
import pytest
from cases import integers, on

import smemkit
from smemkit import _core
from smemkit.measure import ceilings as module

H200 = smemkit.Ceilings(
    "NVIDIA H200",
    copy_bandwidth=4.2e12,
    read_bandwidth=4.66e12,
    fp32=66.9e12,
    tf32=4.1e14,
    bf16=7.9e14,
    h2d=55.5e9,
)


@pytest.fixture
def cache(monkeypatch, tmp_path):
    """An empty cache folder, and no ceilings in the memory of this process."""
    monkeypatch.setenv("SMEMKIT_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(module, "_memory", {})
    return tmp_path / "cache"


# ---- the kernels ------------------------------------------------------------------------------------------------


def launch(device, kernel, dtype, x, out, blocks, in_flight=1, rounds=1):
    """Launches the kernel and returns its work and its output."""
    work = _core.ceiling(kernel, dtype, x, out, blocks, in_flight, rounds, None)
    smemkit.synchronize(device)
    return work, out.numpy()


SHAPES = [
    (blocks, in_flight, words) for blocks in (1, 3) for in_flight in (1, 2, 4) for words in (4, 4100, 30_000)
]


@pytest.mark.parametrize(("blocks", "in_flight", "words"), SHAPES)
def test_read_adds_up_every_word(device, blocks, in_flight, words):
    x = integers(words, np.uint32)
    out = on(device, np.full(256 * blocks, 77, np.uint32))
    work, sums = launch(device, "read", "uint32", on(device, x), out, blocks, in_flight)
    assert work == x.nbytes
    assert sums.sum(dtype=np.uint32) == x.sum(dtype=np.uint32)


@pytest.mark.parametrize(("blocks", "in_flight", "words"), SHAPES)
def test_copy_copies_every_word(device, blocks, in_flight, words):
    x = integers(words, np.uint32)
    out = on(device, np.full(words, 77, np.uint32))
    work, copy = launch(device, "copy", "uint32", on(device, x), out, blocks, in_flight)
    assert work == 2 * x.nbytes
    assert np.array_equal(copy, x)


def test_fma_does_the_reported_work(device):
    x = np.linspace(-0.9, 0.9, 32, dtype=np.float32)
    work, sums = launch(
        device, "fma", "float32", on(device, x), on(device, np.zeros(512, np.float32)), 2, rounds=3
    )
    assert work == 2 * 256 * (2 * 256) * 3
    start = x[2:18] + np.arange(256, dtype=np.float32)[:, None]
    term, factor = (float(x[i]) for i in (1, 0))
    steps = 256 * 3 // 16  # per chain, of 16 chains
    expected = (start * factor**steps + term * (1 - factor**steps) / (1 - factor)).sum(axis=1)
    np.testing.assert_allclose(sums, np.tile(expected, 2), rtol=1e-4)


@pytest.mark.gpu
@pytest.mark.parametrize("device", ["cuda:0"], indirect=True)
@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32"])
def test_mma_does_the_reported_work(device, dtype):
    if smemkit.Device(device).capability < (8, 0):
        pytest.skip("mma needs sm_80")
    k = 32 if dtype == "float32" else 64
    x = np.random.default_rng(0).integers(-4, 5, (128 + 256, k)).astype(np.float32)  # exact in all three dtypes
    words = (x.view(np.uint32) >> 16).astype(np.uint16) if dtype == "bfloat16" else x.astype(dtype)
    out = on(device, np.full((3, 128, 256), np.nan, np.float32))
    work, product = launch(device, "mma", dtype, on(device, words), out, 3, rounds=5)
    assert work == 2 * 128 * 256 * k * 3 * 5
    np.testing.assert_array_equal(product, np.broadcast_to(5 * (x[:128] @ x[128:].T), product.shape))


def test_mma_has_no_kernel_for_the_cpu():
    x, out = (on("cpu", np.zeros(shape, np.float32)) for shape in ((384, 32), (128, 256)))
    with pytest.raises(smemkit.Error, match="mma"):
        _core.ceiling("mma", "float32", x, out, 1, 1, 1, None)


@pytest.mark.parametrize(
    ("changed", "error", "message"),
    [
        ({0: "nope"}, ValueError, "kernel: expected a kernel of the op 'ceiling', got 'nope'"),
        ({1: "float32"}, ValueError, "dtype: expected uint32, got 'float32'"),
        (
            {2: np.zeros(64)},
            ValueError,
            r"x: expected a contiguous Array of a multiple of 16 bytes, got numpy\.ndarray",
        ),
        ({4: 0}, ValueError, "blocks: expected a positive integer, got 0"),
        ({5: 1.0}, ValueError, r"in_flight: expected a positive integer, got 1\.0"),
        ({6: 2**70}, ValueError, "rounds: expected a positive integer, got 1180591620717411303424"),
        ({4: 2}, ValueError, "out: expected 2048 bytes on cpu, got 1024 on cpu"),
        ({0: "fma", 1: "float32"}, ValueError, "x: expected 128 bytes, got 64"),
        ({5: 3}, smemkit.Error, "has no kernel for these arguments"),
    ],
    ids=lambda value: str(value) if isinstance(value, dict) else "",
)
def test_invalid_launches_are_rejected(changed, error, message):
    arguments = ["read", "uint32", *(on("cpu", np.zeros(n, np.uint32)) for n in (16, 256)), 1, 1, 1, None]
    with pytest.raises(error, match=message):
        _core.ceiling(*(changed.get(i, argument) for i, argument in enumerate(arguments)))


@pytest.mark.parametrize("x", [np.zeros(3, np.uint32), np.zeros(0, np.uint32)])
def test_buffers_must_be_whole_vectors(x):
    with pytest.raises(ValueError, match="x: expected a contiguous Array of a multiple of 16 bytes, got "):
        _core.ceiling("read", "uint32", on("cpu", x), on("cpu", np.zeros(256, np.uint32)), 1, 1, 1, None)


# ---- measured ceilings ------------------------------------------------------------------------------------------


def test_the_ceilings_of_the_cpu(cache):
    limits = smemkit.ceilings("cpu")
    assert limits.device == smemkit.Device("cpu").description
    assert 1e8 < limits.copy_bandwidth < 1e13
    assert 1e8 < limits.fp32 < 1e14
    others = [f.name for f in fields(limits) if f.name not in ("device", "copy_bandwidth", "fp32")]
    assert all(getattr(limits, name) is None for name in others)


class LikeAGpu(smemkit.Device):
    """The CPU device, reporting that it is a GPU."""

    is_cuda, capability, multiprocessors, driver_version = True, (9, 0), 2, "13.0"


def test_how_a_gpu_is_measured(cache, monkeypatch):
    launched, seconds = [], 1e-3

    def device_samples(call, device, *, cold, max_seconds):
        assert (device, cold) == ("cpu", False)
        call(None)
        return (seconds,), 1

    def launch(kernel, dtype, x, out, blocks, in_flight, rounds, stream):
        launched.append((kernel, dtype))
        if kernel == "mma":  # the CPU has no such kernel
            return 3 * rounds * x.nbytes // x.dtype.itemsize
        return _core_ceiling(kernel, dtype, x, out, blocks, in_flight, min(rounds, 2), stream)

    _core_ceiling = _core.ceiling
    monkeypatch.setattr(_core, "ceiling", launch)
    monkeypatch.setattr(
        _core, "pinned_copy_seconds", lambda device, nbytes, up: nbytes / (4e9 + up), raising=False
    )
    monkeypatch.setattr(module, "device_samples", device_samples)
    monkeypatch.setattr(module, "Device", LikeAGpu)
    monkeypatch.setattr(module, "_BYTES", 1 << 18)
    limits = smemkit.ceilings("cpu")
    assert {("mma", "float32"), ("mma", "bfloat16"), ("mma", "float16"), ("fma", "float32")} < set(launched)
    assert (limits.read_bandwidth, limits.copy_bandwidth) == ((1 << 18) / seconds, (2 << 18) / seconds)
    assert limits.fp32 == 2 * 256 * (8 * 2 * 256) * 2 / seconds
    assert limits.bf16 == limits.f16 == 2 * limits.tf32 == 3 * 4000 * 384 * 64 / seconds
    assert (limits.h2d, limits.d2h) == pytest.approx((4e9 + 1, 4e9), rel=1e-12)


@pytest.mark.gpu
@pytest.mark.parametrize("device", ["cuda:0"], indirect=True)
def test_the_ceilings_of_a_gpu_are_in_order(device, cache):
    here, limits = smemkit.Device(device), smemkit.ceilings(device)
    assert limits.device == here.description
    sheet = here.memory_bandwidth
    assert 0.7 * sheet < limits.read_bandwidth < 1.02 * sheet
    assert 0.7 * sheet < limits.copy_bandwidth < 1.02 * sheet
    lanes = {(7, 5): 64, (8, 0): 64, (9, 0): 128}.get(here.capability, 128)
    assert 0.8 < limits.fp32 / (2 * lanes * here.multiprocessors * here.clock) < 1.02
    if here.capability >= (8, 0):
        assert limits.fp32 < limits.tf32 < limits.bf16
        assert 0.7 < limits.f16 / limits.bf16 < 1.4
    assert 1e9 < limits.h2d < limits.copy_bandwidth
    assert 1e9 < limits.d2h < limits.copy_bandwidth


def test_ceilings_are_cached(cache, monkeypatch):
    measured = []

    def measure(device):
        measured.append(device)
        return replace(H200, fp32=float(len(measured)))

    monkeypatch.setattr(module, "_measure_cpu", measure)
    assert module.known("cpu") is None
    first = smemkit.ceilings("cpu")
    assert (module.known("cpu"), smemkit.ceilings("cpu"), len(measured)) == (first, first, 1)
    monkeypatch.setattr(module, "_memory", {})  # as in another process
    assert (module.known("cpu"), smemkit.ceilings("cpu"), len(measured)) == (first, first, 1)
    assert smemkit.ceilings("cpu", refresh=True).fp32 == 2
    assert (smemkit.ceilings("cpu").fp32, len(measured)) == (2, 2)
    monkeypatch.setattr(module.platform, "node", lambda: "another machine")
    assert smemkit.ceilings("cpu").fp32 == 3
    (content,) = (json.loads(path.read_text()) for path in cache.glob("*.json") if "another" in path.read_text())
    assert content["ceilings"] == smemkit.ceilings("cpu").to_dict()


OTHER_DEVICE_CACHE = json.dumps({"key": "another device", "ceilings": replace(H200, fp32=1.0).to_dict()})


@pytest.mark.parametrize(
    "text", ["", "{", "[]", '{"key": "x"}', '{"key": "x", "ceilings": {}}', OTHER_DEVICE_CACHE]
)
def test_broken_cache_files_are_replaced(cache, monkeypatch, text):
    monkeypatch.setattr(module, "_measure_cpu", lambda device: H200)
    assert smemkit.ceilings("cpu") == H200
    (path,) = cache.glob("*.json")
    path.write_text(text)
    monkeypatch.setattr(module, "_memory", {})
    assert module.known("cpu") is None
    assert smemkit.ceilings("cpu") == H200
    assert json.loads(path.read_text())["ceilings"] == H200.to_dict()


def test_unsafe_cache_folder_is_reported(cache, monkeypatch):
    cache.mkdir(mode=0o777)
    cache.chmod(0o777)
    with pytest.raises(smemkit.Error, match="others may write to it"):
        smemkit.ceilings("cpu", refresh=True)


def test_cache_key_ignores_num_threads(cache, monkeypatch):
    monkeypatch.setattr(module, "_measure_cpu", lambda device: H200)
    smemkit.ceilings("cpu")
    monkeypatch.setattr(module.Device, "multiprocessors", 77)
    assert module.known("cpu") == H200


def test_a_device_that_is_not_here():
    assert module.known("cuda:99") is None
    with pytest.raises(smemkit.NoDeviceError, match="device: 'cuda:99' is not available"):
        smemkit.ceilings("cuda:99")


def test_str_and_html():
    text = str(H200)
    assert text.startswith("NVIDIA H200, measured\n")
    for words in (
        ("copy, read and written", "4,200 GB/s"),
        ("FP32", "66.9 TFLOP/s"),
        ("TF32, tensor cores", "410"),
    ):
        assert any(all(word in line for word in words) for line in text.splitlines())
    assert " float16" not in text  # it was not measured
    html = smemkit.Ceilings("<GPU>", 1e12, None, 1e12)._repr_html_()
    assert "&lt;GPU&gt;" in html
    assert "<th>FP32</th><td>1.00 TFLOP/s</td>" in html
    assert json.loads(json.dumps(H200.to_dict())) == H200.to_dict()
    assert smemkit.Ceilings(**H200.to_dict()) == H200
