"""Uses of smemkit for mypy and pyright: `assert_type` says what they must infer. test_typing.py runs mypy."""

from typing import Any

import numpy as np
from numpy.typing import NDArray
from typing_extensions import assert_type

import smemkit

host = np.ones((2, 3), np.float32)
array = smemkit.asarray(host, device="cpu")
out = smemkit.empty((2, 2), device="cpu")

assert_type(array, smemkit.Array)
assert_type(smemkit.matmul(host, host.T), NDArray[Any])
assert_type(smemkit.matmul(array, array.T), smemkit.Array)
assert_type(smemkit.matmul(host, host.T, out=out), smemkit.Array)
assert_type(smemkit.matmul([[1.0]], [[2.0]], tile=16), NDArray[Any])
assert_type(smemkit.transpose(host), NDArray[Any])
assert_type(smemkit.transpose(array, (1, 0), kernel="tiles"), smemkit.Array)
assert_type(smemkit.convert(array, "int8"), smemkit.Array)
assert_type(smemkit.add_one(host), NDArray[Any])
assert_type(smemkit.reverse(array), smemkit.Array)

assert_type(smemkit.sum(host), np.generic)
assert_type(smemkit.sum(host, keepdims=True), NDArray[Any])
assert_type(smemkit.sum(array, axis=0, dtype=np.float64), smemkit.Array)
assert_type(smemkit.var(array, (0, 1), ddof=1), smemkit.Array)
assert_type(smemkit.argmax(array, 1, keepdims=True), smemkit.Array)
assert_type(smemkit.reduce(array, "max", axis=1), smemkit.Array)

assert_type(array + 1, smemkit.Array)
assert_type(1 / array, smemkit.Array)
assert_type(-array, smemkit.Array)
assert_type(array < array, smemkit.Array)
assert_type(array == 3, smemkit.Array)
assert_type(array @ array.T, smemkit.Array)
assert_type(array[0, ::2], smemkit.Array)
assert_type(array.sum(axis=0).mean(), smemkit.Array)
assert_type(array.transpose(1, 0).reshape(3, 2).squeeze(), smemkit.Array)
assert_type(smemkit.zeros_like(host, device="cpu"), smemkit.Array)
assert_type(smemkit.arange(3), smemkit.Array)
assert_type(array.to("cpu").device, str)
assert_type(float(array.sum()), float)
assert_type(array.shape, tuple[int, ...])
for row in array:
    assert_type(row, smemkit.Array)
with smemkit.Stream(device="cpu") as stream:
    smemkit.sum(array, stream=stream)
