"""smemkit's operations on `dask.array.Array`: each chunk is computed by smemkit, on the device of its worker.

`pip install 'smemkit[dask]'` brings Dask. The functions have the names and keywords of those of `smemkit`, except
`out` and `stream`: a result is a lazy array, which `compute` or `persist` computes.
"""

try:
    import dask.array  # noqa: F401
except ModuleNotFoundError as error:
    raise ImportError(f"smemkit.dask needs Dask ({error}): pip install 'smemkit[dask]'") from error

from smemkit.dask.matmul import matmul
from smemkit.dask.reductions import (
    all,
    any,
    argmax,
    argmin,
    count_nonzero,
    max,
    mean,
    min,
    prod,
    reduce,
    std,
    sum,
    var,
)
from smemkit.dask.registration import register
from smemkit.dask.transpose import transpose

register()

__all__ = [
    "all",
    "any",
    "argmax",
    "argmin",
    "count_nonzero",
    "matmul",
    "max",
    "mean",
    "min",
    "prod",
    "reduce",
    "std",
    "sum",
    "transpose",
    "var",
]
