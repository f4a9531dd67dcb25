"""`smemkit.array_api`, and what the array API's test suite uses besides, to make and compare arrays.

smemkit does not have those functions: NumPy computes them, and `array_api.py` runs no test of them.
"""

import numpy as np

from smemkit import Array, array_api
from smemkit.array_api import *  # noqa: F403  the functions under test
from smemkit.array_api import __array_api_version__, __array_namespace_info__, asarray  # noqa: F401

BY_NUMPY = (
    *("abs", "copysign", "floor", "imag", "isinf", "pow", "real", "remainder", "round", "sign", "sqrt", "conj"),
    *(
        "logical_and",
        "logical_not",
        "logical_or",
        "where",
        "nonzero",
        "take",
        "concat",
        "stack",
        "linspace",
        "eye",
    ),
    *("eye", "broadcast_arrays", "broadcast_to", "expand_dims", "flip", "moveaxis"),
)


def _by_numpy(name):
    function = getattr(np, name)

    def compute(*args, **keywords):
        result = function(*(_to_numpy(arg) for arg in args), **keywords)
        return tuple(map(asarray, result)) if isinstance(result, tuple | list) else asarray(result)

    return compute


def _to_numpy(value):
    if isinstance(value, Array):
        return value.numpy()
    return type(value)(map(_to_numpy, value)) if isinstance(value, tuple | list) else value


for _name in BY_NUMPY:
    if _name not in array_api.__all__:
        globals()[_name] = _by_numpy(_name)
