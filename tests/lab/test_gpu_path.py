"""What experiments do on a GPU, on a CPU device that claims to be one: all launches, on small problems."""

from types import SimpleNamespace

import pytest

import smemkit
from smemkit import lab
from smemkit.lab import algorithms, claims, execution, global_memory, running, shared_memory

SMALL = {
    algorithms: {"ELEMENTS": 1000, "SUMMED": (1000,), "TILED": (32, 32, 32), "PRODUCT": (128, 128, 128)},
    execution: {"LARGE": (256, 4), "FUSED": 8, "PRODUCTS": 64},
    global_memory: {"TIMED": 1 << 12, "TRANSFERRED": 4096, "SUMMED": 1024, "READS": 32, "L2_FLOATS": 1 << 12},
    shared_memory: {"TRANSPOSED": (64, 64), "REUSES": 1, "BLOCKS_PER_MULTIPROCESSOR": 1},
}
TIMED = {  # the experiments' rows with measured numbers, at least
    **{
        "first_kernels": 5,
        "hierarchy": 7,
        "coalescing": 12,
        "reverse": 7,
        "barriers": 2,
        "banks": 46,
        "padding": 15,
    },
    **{
        "reduction": 8,
        "tiling": 6,
        "matmul": 7,
        "parallelism": 16,
        "carveout": 10,
        "divergence": 5,
        "precision": 3,
    },
    **{"async_copy": 3, "transfers": 3, "speedups": 6},
}


class Gpu(smemkit.Device):
    """The CPU device in the role of a GPU."""

    is_cuda = True


@pytest.fixture
def gpu(monkeypatch):
    """A fake GPU, and clocks that run each launch once."""

    def measure(call, device, **conditions):
        call(None)
        return SimpleNamespace(median=1e-3)

    ceilings = smemkit.Ceilings("a GPU", 4e12, 4.5e12, 6e13, h2d=5e10, d2h=5e10)
    for module in (algorithms, claims, execution, global_memory, shared_memory, lab.synchronisation):
        monkeypatch.setattr(module, "Device", lambda name=None: Gpu("cpu"))
        for name, value in SMALL.get(module, {}).items():
            monkeypatch.setattr(module, name, value)
    levels = [(*level[:3], min(level[3], 1 << 12), level[4]) for level in global_memory.LEVELS]
    monkeypatch.setattr(global_memory, "LEVELS", levels)
    monkeypatch.setattr(global_memory, "ceilings", lambda name: ceilings)
    monkeypatch.setattr(running, "measure", measure)
    monkeypatch.setattr(claims, "operation_seconds", lambda *args, **options: 1e-3)
    monkeypatch.setattr(execution, "resident_blocks", occupancy_of_capability)


def occupancy_of_capability(**numbers):
    numbers.pop("device", None)
    return smemkit.occupancy(**numbers | {"capability": "9.0"})


pytestmark = pytest.mark.xdist_group("lab")


@pytest.mark.slow
@pytest.mark.parametrize("name", lab.EXPERIMENTS)
def test_all_that_a_gpu_measures_is_launched(gpu, name):
    experiment = lab.EXPERIMENTS[name]()
    keys = [column.key for column in experiment.columns if column.kind == "measured"]
    timed = sum(any(row[key] is not None for key in keys) for row in experiment.rows)
    assert timed >= TIMED.get(name, 0)
    assert experiment.verdict.endswith(".")
    assert max(map(len, str(experiment).splitlines())) <= 80
    if keys:
        assert "measured: on" in str(experiment)


@pytest.mark.gpu
@pytest.mark.parametrize("name", lab.EXPERIMENTS)
@pytest.mark.parametrize("device", ["cuda:0"], indirect=True)
def test_experiments_on_a_gpu(device, name):
    experiment = lab.EXPERIMENTS[name](device)
    keys = [column.key for column in experiment.columns if column.kind == "measured"]
    timed = [row for row in experiment.rows if any(row[key] for key in keys)]
    assert len(timed) >= TIMED.get(name, 0)
    print(experiment)
