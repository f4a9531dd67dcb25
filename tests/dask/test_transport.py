"""How Arrays travel between the processes of a cluster: over UCX from GPU to GPU, otherwise pickled."""

import pickle
import sys
from types import ModuleType

import numpy as np
import pytest
from cases import run_python

pytest.importorskip("dask.array", reason="smemkit.dask needs Dask")

import smemkit
import smemkit.dask

OVER_UCX = ("cuda", "dask", "pickle", "error")


@pytest.fixture
def buffers(device, monkeypatch):
    """The buffers that a stand-in for RMM has made on the device."""
    made = []

    class DeviceBuffer:
        def __init__(self, size):
            self.memory = smemkit.empty(size, np.uint8, device=device)
            self.ptr, self.size = self.memory.address, size
            made.append(self)

        @property
        def __cuda_array_interface__(self):
            return self.memory.__cuda_array_interface__

    rmm = ModuleType("rmm")
    rmm.__spec__, rmm.DeviceBuffer = type(sys.__spec__)("rmm", None), DeviceBuffer
    monkeypatch.setitem(sys.modules, "rmm", rmm)
    return made


def sent_and_received(x):
    """What another process receives, and how it was sent."""
    protocol = pytest.importorskip("distributed.protocol", reason="serialisation is distributed's")
    header, frames = protocol.serialize(x, serializers=OVER_UCX)
    return protocol.deserialize(header, frames, deserializers=OVER_UCX), header["serializer"]


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "bool", "complex128"])
@pytest.mark.parametrize("shape", [(30, 40), (7,), (), (0, 3)])
def test_an_array_arrives_as_it_was(device, buffers, dtype, shape):
    x = smemkit.asarray(np.random.default_rng(0).integers(0, 2, shape), dtype=dtype, device=device)
    for sent in (x, x.T):
        received, way = sent_and_received(sent)
        assert (received.shape, received.dtype, received.device) == (sent.shape, sent.dtype, device)
        assert received.numpy().tobytes() == sent.numpy().tobytes()
        assert received.address != sent.address or x.size == 0
        assert way == ("cuda" if device != "cpu" and x.size else "pickle")
    assert [buffer.size for buffer in buffers] == ([x.nbytes] * 2 if device != "cpu" and x.size else [])


def test_an_array_is_pickled_without_rmm(device, monkeypatch):
    monkeypatch.setitem(sys.modules, "rmm", None)
    x = smemkit.arange(10, device=device)
    received, way = sent_and_received(x)
    assert way == "pickle"
    np.testing.assert_array_equal(received.numpy(), x.numpy())


def test_a_process_of_the_cluster_can_receive_before_it_computes():
    """Unpickling the type imports `smemkit`, and nothing more."""
    pytest.importorskip("distributed", reason="serialisation is distributed's")
    code = "import pickle; from distributed.protocol.cuda import cuda_deserialize;"
    code += f"print(cuda_deserialize.dispatch(pickle.loads({pickle.dumps(smemkit.Array)!r})).__name__)"
    assert run_python("-c", code).stdout == "deserialize\n"
