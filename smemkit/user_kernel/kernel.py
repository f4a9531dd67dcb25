"""User kernels, on a GPU or on the CPU device."""

from __future__ import annotations

import math
import operator
import os
import threading
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from smemkit import _core
from smemkit._core import Array
from smemkit.cuda_source.overloads import base_name
from smemkit.cuda_source.reach import reached_names
from smemkit.user_kernel.array_argument import arrays_of, with_arrays
from smemkit.user_kernel.clusters import MAX_CLUSTER, cluster_of_launch
from smemkit.user_kernel.parameters import Arguments, Parameter, are_accepted, describe_value, expect_count
from smemkit.user_kernel.program import Program
from smemkit.user_kernel.static_shared import shared_variables

__all__ = [
    "BoundLaunch",
    "Kernel",
    "Launch",
    "ReadyLaunch",
    "checker_lock",
    "common_device",
    "copy_to_host",
    "owning_streams",
]

_MAX_THREADS_PER_BLOCK = 1024
_MAX_DIMENSIONS = {"grid": (2**31 - 1, 65535, 65535), "block": (1024, 1024, 64), "cluster": (MAX_CLUSTER,) * 3}
checker_lock = threading.Lock()  # a process loads a checked library once, with one set of variables
if hasattr(os, "register_at_fork"):  # the thread that holds it does not exist in the child
    os.register_at_fork(after_in_child=checker_lock._at_fork_reinit)


class Kernel:
    """A kernel from CUDA C++ source, as nvcc accepts it.

    For a GPU NVRTC compiles it (``pip install 'smemkit[cuda]'``), for the CPU device the system's C++ compiler.
    Libraries for the CPU device are cached in $SMEMKIT_CACHE, otherwise in $XDG_CACHE_HOME/smemkit, otherwise in
    ~/.cache/smemkit. Host functions, `main` and launches in the source are left out; `notes` lists them.

    Parameters
    ----------
    source : str or path
        The path of a file, or CUDA C++; a str that ends in ".cu" or ".cuh" is a path. Reports and messages name
        the file by it, its folder is searched for the headers that it includes, and its libraries are cached by it
        and its content.
    name : str, optional
        The ``__global__`` function: "scale", "outer::scale"; for a template an instantiation: "scale<float, 16>".
        Of several with one name, the arguments of a launch choose, or the signature: ``"scale(float *, int)"``.
        Not needed if the source has only one. If it has several, ``kernel["scale"]`` can select one later.
    options : sequence of str
        "-DTILE=16", "-UDEBUG", "-Ifolder", "-std=c++20".

    Raises
    ------
    CompileError
        The source does not compile. The message shows the source lines; `file`, `line` and `text` are those of the
        first error.
    ValueError
        There is no such kernel, or an option is not allowed.
    Error
        There is no compiler, or the cache is not safe; the message says what to do.

    Notes
    -----
    It runs on the device of its arrays; on the default device if they are NumPy's. Two `Kernel` objects of the
    same source do not share its variables.

    Examples
    --------
    >>> import numpy as np, smemkit
    >>> scale = smemkit.Kernel('''
    ... __global__ void scale(float *x, float factor, int n)
    ... {
    ...     int i = blockIdx.x * blockDim.x + threadIdx.x;
    ...     if (i < n)
    ...         x[i] *= factor;
    ... }
    ... ''')
    >>> x = np.arange(5, dtype=np.float32)
    >>> scale[1, 32](x, 2, x.size)
    >>> x
    array([0., 2., 4., 6., 8.], dtype=float32)
    """

    def __init__(self, source: str | os.PathLike[str], name: str | None = None, *, options: Sequence[str] = ()):
        self._read(source, name, options)
        device = _core.default_device()
        if self._program.can_compile(device):  # otherwise only check() works, and a launch raises
            self._program.module(device, self._name)

    def _read(self, source: str | os.PathLike[str], name: str | None, options: Sequence[str]) -> None:
        self._program = Program(source, options)
        self._kernels_by_name: dict[str, Kernel] = {}
        self._select(self._program.default() if name is None else name)

    @classmethod
    def _to_check(cls, source: str | os.PathLike[str], name: str | None, *, options: Sequence[str]) -> Kernel:
        """A kernel that is not compiled yet, because a check compiles another build."""
        new = object.__new__(cls)
        new._read(source, name, options)
        return new

    def _select(self, name: str | None) -> None:
        self._function, self._name = (None, None) if name is None else self._program.find(name)
        self._carveout: int | None = None
        if self._name is not None:
            self._kernels_by_name[self._name] = self

    @property
    def name(self) -> str | None:
        """The selected kernel: "scale<float, 16>"."""
        return self._name

    @property
    def names(self) -> tuple[str, ...]:
        """The kernels in the source; a template's name is without arguments."""
        return self._program.names

    @property
    def parameters(self) -> tuple[str, ...]:
        """The names of the selected kernel's parameters."""
        return self._function.parameters if self._function else ()

    @property
    def source(self) -> str:
        """The source as it was given."""
        return self._program.text

    @property
    def sources(self) -> Mapping[str, str]:
        """The source and the headers of the user's that it includes: their names in messages, and their texts."""
        return self._program.sources

    @property
    def filename(self) -> str:
        """The name of the source in messages: its path, or "kernel.cu"."""
        return self._program.filename

    @property
    def static_shared(self) -> Mapping[str, int]:
        """The bytes of the static ``__shared__`` variables of the selected kernel and of the functions it calls.

        nvcc may add a few bytes between variables, and lets those of separate scopes share memory.

        Examples
        --------
        >>> import smemkit
        >>> kernel = smemkit.Kernel("__global__ void k(int *x) { __shared__ int s[64]; s[0] = 1; *x = s[0]; }")
        >>> kernel.static_shared
        {'s': 256}
        """
        if self.name is None:
            raise ValueError(f'name: expected kernel["name"] with one of {", ".join(self.names)}')
        base = base_name(self.name).partition("<")[0].rpartition("::")[2].strip()
        reached = reached_names(self._program.code.text, base)
        found: dict[str, int] = {}
        for function, variable, size in shared_variables(self._program.module("cpu", self.name).path):
            if (function or variable) in reached:
                found[variable] = found.get(variable, 0) + size
        return found

    @property
    def notes(self) -> tuple[str, ...]:
        """The host code that was left out of the source."""
        return self._program.notes

    @property
    def skipped(self) -> dict[str, str]:
        """The kernels of the source that do not compile for the CPU device, each with the reason. The others work.

        Examples
        --------
        >>> import smemkit
        >>> a = "__global__ void a(int *x) { *x = 1; }"
        >>> b = "__global__ void b(int *x) { *x = y; }"
        >>> kernel = smemkit.Kernel("\\n".join([a, b]))
        >>> list(kernel.skipped)
        ['b']
        """
        return {name: str(error) for name, error in self._program.skipped.items()}

    @property
    def constants(self) -> Constants:
        """The source's ``__constant__`` and ``__device__`` variables, to read and to set.

        Examples
        --------
        >>> import numpy as np, smemkit
        >>> kernel = smemkit.Kernel("__constant__ float c[3]; __global__ void k(float *x) { *x = c[1]; }")
        >>> kernel.constants["c"] = np.array([1, 2, 3], dtype=np.float32)
        >>> kernel.constants["c"]
        array([1., 2., 3.], dtype=float32)
        """
        return Constants(self._program, self._name)

    @property
    def carveout(self) -> int | None:
        """The percentage of L1 to use as shared memory for this kernel, 0 to 100; None for the driver's choice.

        It has no effect on the CPU device.
        """
        return self._carveout

    @carveout.setter
    def carveout(self, percent: int | None) -> None:
        if percent is not None and not 0 <= operator.index(percent) <= 100:
            raise ValueError(f"carveout: expected a percentage from 0 to 100, or None, got {percent}")
        self._carveout = percent

    def __getitem__(self, key: Any) -> Any:
        """``kernel[grid, block, shared_bytes, stream, cluster]`` is a `Launch`, ``kernel["name"]`` another one."""
        if not isinstance(key, str):
            return Launch(self, key)
        _, name = self._program.find(key)
        if name not in self._kernels_by_name:
            other = object.__new__(Kernel)
            other._program, other._kernels_by_name = self._program, self._kernels_by_name
            other._select(name)
        return self._kernels_by_name[name]

    def __call__(self, *args: Any) -> None:
        raise TypeError(f"{self!r} is called with a grid and a block: kernel[grid, block](…)")

    def _overload_for(self, args: Sequence[Any], module: Any) -> Kernel:
        """The kernel that takes these arguments, of those that share this name; itself if it is one alone."""
        program = self._program
        names = [name for name in program.overloads(self.name) if module.signature(name) is not None]
        if not names:
            return self
        kernels = [self[name] for name in names]
        found = [
            kernel
            for kernel in kernels
            if are_accepted(program.parameters(module, kernel._function, kernel.name), args)
        ]
        if len(found) == 1:
            return found[0]
        choices = "\n".join(f"    {name}" for name in names)
        given = ", ".join(map(describe_value, args))
        if found:
            raise ValueError(
                f'{self.name}: several kernels of this name take ({given}); choose one by kernel["…"]:\n{choices}'
            )
        raise TypeError(f"{self.name}: no kernel of this name takes ({given}); there are\n{choices}")

    def _gpu_function(self, device: str) -> int:
        """The driver's handle of the kernel, compiled for a GPU."""
        return int(self._program.module(device, self.name).function(self.name))

    def __repr__(self) -> str:
        return f"<smemkit.Kernel {self._name or ', '.join(self.names) or 'of macros'} in {self.filename}>"


class Launch:
    """A kernel with its grid and block, ``kernel[grid, block, shared_bytes=0, stream=None, cluster=None]``, to be
    called.

    Arguments may be NumPy arrays, which are copied to the device and, unless the kernel's pointer is to const,
    back; `Array`, which is used in place; None for a null pointer; numbers; and for a struct an object with its
    bytes, such as a scalar of a structured dtype. A ``float4 *`` takes an array of float32.

    A view of a NumPy array, such as ``x[3:]``, is copied with its whole base array: the kernel can access x[0]
    before it, and two views share their memory. ``x[3:].copy()`` is copied alone, as is a view with gaps, which is
    packed.

    Parameters
    ----------
    kernel : Kernel
    grid, block : int or tuple of up to 3
        Blocks, and threads per block.
    shared_bytes : int
        Dynamic shared memory of a block. Above 48 KB the launch opts in automatically.
    stream : stream or int, optional
        A `Stream`, or another object that the operations accept as one; if None, the thread's current stream,
        otherwise the default stream. Ignored on the CPU device.
    cluster : int or tuple of up to 3, optional
        Blocks of a cluster, which run together and access each other's shared memory; those of the kernel's
        ``__cluster_dims__`` if it is left out. On a GPU one of compute capability 9.0 or above.

    Raises
    ------
    TypeError, ValueError
        From the call, before anything is launched: the number, type, dtype or value of an argument is wrong.
    Error
        The kernel failed; the message says where. NumPy arrays are unchanged.

    Examples
    --------
    >>> import smemkit
    >>> kernel = smemkit.Kernel("__global__ void k(int *x) { x[threadIdx.x] = blockDim.x; }")
    >>> kernel[(1, 2), 64, 1024]
    <smemkit.Launch k[(1, 2, 1), (64, 1, 1), 1024]>
    """

    def __init__(self, kernel: Kernel, configuration: Any):
        if kernel.name is None:
            functions = kernel._program.code.functions
            choices = ", ".join(f.name + ("<…>" if f.template else "") for f in functions)
            raise ValueError(f'name: expected kernel["name"] with one of {kernel.filename}\'s kernels, {choices}')
        if not isinstance(configuration, tuple) or not 2 <= len(configuration) <= 5:
            raise TypeError(
                "expected kernel[grid, block, shared_bytes=0, stream=None, cluster=None], got "
                f"kernel[{configuration!r}]"
            )
        self.kernel = kernel
        self.grid = _read_dimensions("grid", configuration[0])
        self.block = _read_dimensions("block", configuration[1])
        self.shared_bytes = _read_integer("shared_bytes", (*configuration, 0)[2], 0, 2**31 - 1)
        self.stream, cluster = (*configuration[3:], None, None)[:2]
        self.cluster = None if cluster is None else _read_dimensions("cluster", cluster)
        if math.prod(self.block) > _MAX_THREADS_PER_BLOCK:
            raise ValueError(f"block: expected at most {_MAX_THREADS_PER_BLOCK} threads, got {self.block}")

    def __call__(self, *args: Any) -> None:
        self._run(args, common_device(args), checked=False)

    def bind(self, *args: Any) -> BoundLaunch:
        """The launch with its arguments, for `smemkit.chain`."""
        return BoundLaunch(self, args)

    @property
    def kernels(self) -> tuple[Kernel, ...]:
        """Its one kernel: a `Chain` has several."""
        return (self.kernel,)

    def compile_checked(self) -> None:
        """Compiles the checked build, so that a check finds it in the cache."""
        self.kernel._program.module("cpu", self.kernel.name, checked=True)

    def _checked_call(self, *args: Any, keep_results: bool = False) -> None:
        """Runs the checked build on the CPU device, with copies of the arguments and of the variables.

        With `keep_results`, NumPy arrays receive what the kernel stored, as in a launch.
        """
        with checker_lock:
            copies = with_arrays(args, copy_to_host(arrays_of(args)))
            self._run(copies, "cpu", checked=True, keep_results=keep_results)

    def _run(self, args: Sequence[Any], device: str, *, checked: bool, keep_results: bool = True) -> None:
        ready = self._prepare(args, device, checked=checked)
        arguments = Arguments(ready.kernel.name, ready.parameters, args, device, ready.module.texture_object)
        if checked:
            ready.reset_variables()
        try:
            ready.launch(
                arguments.addresses,
                array_streams=owning_streams(args),
                host_cannot_write=arguments.host_cannot_write,
            )
        finally:
            arguments.release()
        if keep_results:
            arguments.copy_back()

    def _prepare(self, args: Sequence[Any], device: str, *, checked: bool) -> ReadyLaunch:
        """The launch with what a device needs for it: the compiled module, and the kernel that takes these
        arguments."""
        program = self.kernel._program
        module = program.module(device, self.kernel.name, checked=checked)
        kernel = self.kernel._overload_for(args, module)
        parameters = program.parameters(module, kernel._function, kernel.name)
        cluster = cluster_of_launch(self.cluster, module.cluster(kernel.name), self.grid)
        return ReadyLaunch(self, module, kernel, parameters, cluster)

    def __repr__(self) -> str:
        shared = f", {self.shared_bytes}" if self.shared_bytes else ""
        return f"<smemkit.Launch {self.kernel.name}[{self.grid}, {self.block}{shared}]>"


@dataclass(frozen=True, eq=False)
class BoundLaunch:
    """A launch and its arguments."""

    launch: Launch
    args: tuple[Any, ...]

    def __repr__(self) -> str:
        return f"{self.launch!r}.bind({', '.join(map(describe_value, self.args))})"


@dataclass(frozen=True)
class ReadyLaunch:
    """A launch on a device whose kernel is compiled, without its arguments."""

    of: Launch
    module: Any
    kernel: Kernel
    parameters: Sequence[Parameter]
    cluster: tuple[int, int, int] | None

    def expect_arguments(self, args: Sequence[Any]) -> None:
        """Raises TypeError if the kernel takes another number of arguments."""
        expect_count(self.kernel.name, self.parameters, args)

    def reset_variables(self) -> None:
        """Gives the variables of a checked build the values that they have before a launch."""
        found = self.kernel._program.variables_to_check(self.module, self.kernel.name)
        for name, content in found.items():
            self.module.write(name, content)

    def launch(self, addresses: Any, **options: Any) -> None:
        """Launches it with these addresses of arguments, and further options of the module's launch."""
        of = self.of
        self.module.launch(
            self.kernel.name,
            of.grid,
            of.block,
            of.shared_bytes,
            addresses,
            stream=of.stream,
            carveout=self.kernel.carveout,
            cluster=self.cluster,
            **options,
        )


def owning_streams(args: Sequence[Any]) -> set[int]:
    """The streams of the arrays on a GPU among the arguments."""
    return {array._owning_stream for array in arrays_of(args) if isinstance(array, Array)}


def copy_to_host(args: Sequence[Any]) -> list[Any]:
    """The arguments with copies instead of Arrays: views of one Array become views of one copy."""
    copies: dict[tuple, np.ndarray] = {}

    def copied(array: Array) -> np.ndarray:
        base = array._base
        if not array.size or not base.is_contiguous:
            base = array
        key = base.address, base.shape, base.strides, base.dtype
        if key not in copies:
            copies[key] = base.numpy()
        if base is array:
            return copies[key]
        content = copies[key].reshape(-1).view(np.uint8)
        return np.ndarray(array.shape, array.dtype, content, array.address - base.address, array.strides)

    return [copied(arg) if isinstance(arg, Array) else arg for arg in args]


class Constants(Mapping):
    """The variables of a source: ``kernel.constants["name"] = array`` sets one on every device, and
    ``kernel.constants["name"]`` is a copy of its value on the default device."""

    def __init__(self, program: Program, name: str | None):
        self._program, self._name = program, name

    def _module(self) -> Any:
        return self._program.module(_core.default_device(), self._name)

    def _variable(self, name: str) -> Parameter:
        variables = self._module().variables
        if name not in variables:
            known = ", ".join(variables) or "none"
            raise KeyError(f"{name}: expected one of the variables of {self._program.filename}, {known}")
        return variables[name]

    def __getitem__(self, name: str) -> np.ndarray:
        return self._variable(name).unpack(self._module().read(name))

    def __setitem__(self, name: str, value: Any) -> None:
        variable = self._variable(name)
        if variable.is_const:
            raise TypeError(
                f"{name}: expected a variable that is not const; {self._program.filename} declares it const"
            )
        self._program.set_constant(name, variable.pack_variable(value))

    def __iter__(self) -> Iterator[str]:
        return iter(self._module().variables)

    def __len__(self) -> int:
        return len(self._module().variables)

    def __repr__(self) -> str:
        return f"<constants {', '.join(self)} of {self._program.filename}>"


def _read_integer(name: str, value: Any, low: int, high: int) -> int:
    try:
        number = operator.index(value)
    except TypeError:
        raise TypeError(f"{name}: expected int, got {describe_value(value)}") from None
    if not low <= number <= high:
        raise ValueError(f"{name}: expected a number from {low} to {high}, got {number}")
    return number


def _read_dimensions(name: str, value: Any) -> tuple[int, int, int]:
    """A grid or block from an int or a tuple of up to three."""
    values = tuple(value) if isinstance(value, (tuple, list)) else (value,)
    if not 1 <= len(values) <= 3:
        raise ValueError(f"{name}: expected an int or a tuple of 1 to 3, got {value!r}")
    numbers = [
        _read_integer(name, value, 1, most) for value, most in zip(values, _MAX_DIMENSIONS[name], strict=False)
    ]
    return tuple([*numbers, 1, 1][:3])


def common_device(args: Sequence[Any]) -> str:
    """The device of the arrays; the default device if they are NumPy's."""
    devices = list(dict.fromkeys(array.device for array in arrays_of(args) if isinstance(array, Array)))
    if len(devices) > 1:
        raise ValueError(
            f"expected arrays on one device, got some on {' and on '.join(devices)}; .to() moves them"
        )
    return devices[0] if devices else _core.default_device()
