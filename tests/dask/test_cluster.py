"""smemkit.dask on a cluster of this machine: threads and processes, errors of workers, a worker that is killed."""

import os
import signal
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("distributed", reason="a cluster needs Dask's distributed")

import dask.array as da
import distributed

import smemkit
import smemkit.dask as chunked

pytestmark = pytest.mark.slow  # a cluster takes seconds to start


@pytest.fixture(scope="module", params=[False, True], ids=["threads", "processes"])
def client(request):
    """A client of two workers with two threads each, or of two processes."""
    threads = 1 if request.param else 2
    with (
        distributed.LocalCluster(
            n_workers=2, threads_per_worker=threads, processes=request.param, dashboard_address=None
        ) as cluster,
        distributed.Client(cluster) as client,
    ):
        yield client


def numbers(shape, seed=0):
    return np.random.default_rng(seed).integers(-9, 10, shape).astype(np.float32)


def as_arrays(x, chunks):
    meta = smemkit.empty((0,) * x.ndim, x.dtype, device="cpu")
    return da.from_array(x, chunks=chunks).map_blocks(smemkit.asarray, device="cpu", dtype=x.dtype, meta=meta)


def test_results_of_a_cluster(client):
    x, y = numbers((90, 70)), numbers((70, 50), 1)
    a, b = da.from_array(x, chunks=(20, 30)), da.from_array(y, chunks=(25, 50))
    product = chunked.matmul(a, b, device="cpu")
    expected = x @ y
    for lazy, result in (
        (product, expected),
        (chunked.sum(product, 0, device="cpu"), expected.sum(0)),
        (chunked.argmax(product, 1, device="cpu"), expected.argmax(1)),
        (chunked.transpose(product, device="cpu"), expected.T),
    ):
        np.testing.assert_array_equal(lazy.compute(), result)
    np.testing.assert_allclose(
        chunked.std(product, device="cpu").compute(), expected.std(dtype=np.float64), rtol=2**-23
    )


def test_arrays_stay_arrays_between_workers(client):
    x = numbers((90, 70))
    a = as_arrays(x, (20, 30))
    product = chunked.matmul(a, a.T).persist()
    distributed.wait(product)
    total = chunked.sum(product * 2 - 1, 0).compute()
    assert isinstance(total, smemkit.Array)
    np.testing.assert_array_equal(total.numpy(), (x @ x.T * 2 - 1).sum(0))


def test_errors_of_workers_are_those_of_the_plain_operation(client):
    x = da.ones((4, 4), chunks=2)
    with pytest.raises(smemkit.NoDeviceError, match="cuda:99"):
        chunked.sum(x, device="cuda:99").compute()
    with pytest.raises(TypeError, match="operands: expected all NumPy arrays or all arrays on one device"):
        chunked.matmul(x, as_arrays(np.ones((4, 4)), 2)).compute()


def test_equal_bits_on_every_run(client):
    x = np.random.default_rng(3).standard_normal((300, 200)).astype(np.float32)
    lazy = da.from_array(x, chunks=(37, 41))
    results = [chunked.matmul(lazy, lazy.T, device="cpu").compute().tobytes() for _ in range(3)]
    assert len(set(results)) == 1
    variances = [chunked.var(lazy, 0, device="cpu").compute().tobytes() for _ in range(3)]
    assert len(set(variances)) == 1


def kill_once(chunk, marker, block_info=None):
    """Ends this worker's process when it computes block (1, 1) for the first time."""
    if block_info[0]["chunk-location"] == (1, 1):
        try:
            os.close(os.open(marker, os.O_CREAT | os.O_EXCL))
        except FileExistsError:
            return chunk
        os.kill(os.getpid(), signal.SIGKILL)
    return chunk


def test_a_killed_worker_loses_nothing(tmp_path):
    x = numbers((80, 60))
    marker = str(tmp_path / "killed")
    with (
        distributed.LocalCluster(
            n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None
        ) as cluster,
        distributed.Client(cluster),
    ):
        lazy = da.from_array(x, chunks=(20, 20)).map_blocks(kill_once, marker, dtype=x.dtype, meta=x[:0, :0])
        result = chunked.matmul(lazy, lazy.T, device="cpu").compute()
    assert Path(marker).exists()
    np.testing.assert_array_equal(result, x @ x.T)
