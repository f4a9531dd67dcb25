"""GPU shared memory: fast operations, the ladders that lead to them, and a laboratory for kernels."""

# The extension is imported first: it refuses a subinterpreter before that has imported anything else. (`datetime`,
# imported there, crashes the main interpreter of CPython 3.12 later.)
try:
    from smemkit import _core
    from smemkit._core import (
        CompileError,
        CudaError,
        Error,
        Event,
        FatalCudaError,
        NoDeviceError,
        OutOfMemoryError,
        Stream,
    )
except ModuleNotFoundError as error:
    if error.name != "smemkit._core":
        raise
    raise ImportError(
        f"smemkit's C extension is not built for this Python in {__path__[0]}, which is where Python found "
        "smemkit. In a source tree: build it with `pip install -e .`. To use a smemkit that is installed: "
        "start Python in another folder."
    ) from error

import atexit as _atexit
import sys as _sys

from smemkit.arrays import (
    Array,
    arange,
    asarray,
    asnumpy,
    empty,
    empty_like,
    from_dlpack,
    full,
    full_like,
    ones,
    ones_like,
    zeros,
    zeros_like,
)
from smemkit.checker.banks import Access, wavefronts
from smemkit.checker.check import check
from smemkit.checker.faults import Fault
from smemkit.checker.launches import LaunchReport
from smemkit.checker.lines import LineReport
from smemkit.checker.report import Report
from smemkit.devices import (
    Device,
    MemoryStats,
    devices,
    empty_cache,
    get_num_threads,
    is_available,
    launches,
    memory_stats,
    set_num_threads,
    synchronize,
)
from smemkit.ladder import Ladder, ladder
from smemkit.measure.benchmarks import Benchmark, benchmark
from smemkit.measure.ceilings import Ceilings, ceilings
from smemkit.measure.occupancy import Occupancy, occupancy
from smemkit.measure.timing import Timer, Timing, timed, timer
from smemkit.ops import (
    add_one,
    all,
    any,
    argmax,
    argmin,
    convert,
    count_nonzero,
    matmul,
    max,
    mean,
    min,
    prod,
    reduce,
    reverse,
    std,
    sum,
    transpose,
    var,
)
from smemkit.table.kernel_table import KernelInfo, kernels, source
from smemkit.table.planning import Plan, PlannedLaunch, plan
from smemkit.user_kernel.chain import Chain, chain
from smemkit.user_kernel.kernel import BoundLaunch, Kernel, Launch
from smemkit.user_kernel.tensor_map import TensorMap
from smemkit.user_kernel.texture import Texture

__version__: str
_atexit.register(_core.close)  # the threads that copy to and from a GPU end before CUDA does


def __getattr__(name: str):
    """The laboratory, the operations on arrays of Dask and the version, whose modules are imported at their first
    use."""
    if name == "__version__":
        from smemkit.version import version

        return version()
    if name in ("lab", "dask"):
        from importlib import import_module

        return import_module(f"smemkit.{name}")
    raise AttributeError(f"module 'smemkit' has no attribute {name!r}")


def load_ipython_extension(shell):
    """What ``%load_ext smemkit`` calls: the magic ``%%smemkit``."""
    from smemkit.notebook.magic import register_magic

    register_magic(shell)


def __dir__() -> list[str]:
    """The public names, without the modules that importing has added."""
    return sorted({*__all__, *(name for name in globals() if name.startswith("__") and name.endswith("__"))})


__all__ = [
    "Access",
    "Array",
    "Benchmark",
    "BoundLaunch",
    "Ceilings",
    "Chain",
    "CompileError",
    "CudaError",
    "Device",
    "Error",
    "Event",
    "FatalCudaError",
    "Fault",
    "Kernel",
    "KernelInfo",
    "Ladder",
    "Launch",
    "LaunchReport",
    "LineReport",
    "MemoryStats",
    "NoDeviceError",
    "Occupancy",
    "OutOfMemoryError",
    "Plan",
    "PlannedLaunch",
    "Report",
    "Stream",
    "TensorMap",
    "Texture",
    "Timer",
    "Timing",
    "__version__",
    "add_one",
    "all",
    "any",
    "arange",
    "argmax",
    "argmin",
    "asarray",
    "asnumpy",
    "benchmark",
    "ceilings",
    "chain",
    "check",
    "convert",
    "count_nonzero",
    "devices",
    "empty",
    "empty_cache",
    "empty_like",
    "from_dlpack",
    "full",
    "full_like",
    "get_num_threads",
    "is_available",
    "kernels",
    "lab",
    "ladder",
    "launches",
    "matmul",
    "max",
    "mean",
    "memory_stats",
    "min",
    "occupancy",
    "ones",
    "ones_like",
    "plan",
    "prod",
    "reduce",
    "reverse",
    "set_num_threads",
    "source",
    "std",
    "sum",
    "synchronize",
    "timed",
    "timer",
    "transpose",
    "var",
    "wavefronts",
    "zeros",
    "zeros_like",
]

if "distributed" in _sys.modules:  # a process of Dask's cluster may receive Arrays before it computes with them
    from smemkit import dask as _dask  # noqa: F401  registers how they travel
