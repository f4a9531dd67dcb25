"""Several launches on one stream, each of which may begin before the one before it has ended."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from smemkit.user_kernel.array_argument import arrays_of, with_arrays
from smemkit.user_kernel.kernel import (
    BoundLaunch,
    Kernel,
    ReadyLaunch,
    checker_lock,
    common_device,
    copy_to_host,
    owning_streams,
)
from smemkit.user_kernel.parameters import Arguments, Parameter

__all__ = ["Chain", "chain"]


def chain(*launches: BoundLaunch, pdl: bool = True) -> Chain:
    """Launches to run one after the other on one stream, as often as the result is called.

    With `pdl`, programmatic dependent launch, each is launched with programmatic stream serialisation: its blocks
    may begin before the launch before it has ended, and it must wait for that one, with
    ``cudaGridDependencySynchronize()`` or PTX's ``griddepcontrol.wait``, before it uses what that one writes. On
    the CPU device it begins as early as it can: its first blocks run up to that wait before the launch before it
    begins. There at most three launches are in flight: the fourth, the seventh and so on begin after the end of
    the one before, and so do a cooperative grid of more than 64 blocks and the launch after it.

    Parameters
    ----------
    *launches : BoundLaunch
        ``kernel[grid, block].bind(*args)``, all for one device and one stream. NumPy arrays are copied to the
        device before the first launch, and back after the last one; an array that several launches take is one
        array.
    pdl : bool
        If it is false, each launch begins after the end of the one before it.

    Returns
    -------
    Chain
        To be called; `smemkit.check` takes it.

    Raises
    ------
    TypeError, ValueError
        There is none, one is no bound launch, or their streams differ. From the call, before anything is launched:
        an argument is wrong.
    Error
        From the call: a kernel failed. NumPy arrays are unchanged.

    Notes
    -----
    Programmatic Dependent Launch in the CUDA C++ Programming Guide; PTX ISA, griddepcontrol.

    Examples
    --------
    >>> import numpy as np, smemkit
    >>> kernels = smemkit.Kernel('''
    ... __global__ void first(int *a) { a[threadIdx.x] = threadIdx.x; cudaTriggerProgrammaticLaunchCompletion(); }
    ... __global__ void second(const int *a, int *b)
    ... {
    ...     cudaGridDependencySynchronize();
    ...     b[threadIdx.x] = 2 * a[threadIdx.x];
    ... }''')
    >>> a, b = np.zeros(4, np.int32), np.zeros(4, np.int32)
    >>> both = smemkit.chain(kernels["first"][1, 4].bind(a), kernels["second"][1, 4].bind(a, b))
    >>> both()
    >>> b
    array([0, 2, 4, 6], dtype=int32)
    >>> smemkit.check(both).ok
    True
    """
    return Chain(launches, pdl=pdl)


class Chain:
    """Several launches on one stream: see `chain`.

    Attributes
    ----------
    launches : tuple of BoundLaunch
    pdl : bool
        Whether each may begin before the end of the one before it.
    """

    def __init__(self, launches: Sequence[BoundLaunch], *, pdl: bool):
        self.launches, self.pdl = tuple(launches), bool(pdl)
        for number, bound in enumerate(self.launches):
            if not isinstance(bound, BoundLaunch):
                raise TypeError(
                    f"launch {number}: expected kernel[grid, block].bind(…), got {type(bound).__name__}"
                )
        if not self.launches:
            raise ValueError("launches: expected at least one kernel[grid, block].bind(…), got none")
        stream = self.launches[0].launch.stream
        for number, bound in enumerate(self.launches):
            if bound.launch.stream is not stream and bound.launch.stream != stream:
                raise ValueError(
                    f"launch {number}: expected the stream of the first, {stream!r}, got {bound.launch.stream!r}"
                )

    @property
    def kernels(self) -> tuple[Kernel, ...]:
        """The kernel of each launch."""
        return tuple(bound.launch.kernel for bound in self.launches)

    def compile_checked(self) -> None:
        """Compiles the checked builds, so that a check finds them in the cache."""
        for bound in self.launches:
            bound.launch.compile_checked()

    def __call__(self) -> None:
        args = [arg for bound in self.launches for arg in bound.args]
        self._run(args, common_device(args), checked=False)

    def _checked_call(self) -> None:
        """Runs the checked builds on the CPU device, one after the other, with copies of the arguments and of the
        variables. The checker knows which of them may overlap."""
        args = [arg for bound in self.launches for arg in bound.args]
        with checker_lock:
            self._run(with_arrays(args, copy_to_host(arrays_of(args))), "cpu", checked=True)

    def _run(self, args: Sequence[Any], device: str, *, checked: bool) -> None:
        ready = []
        for number, bound in enumerate(self.launches):
            mine = _own(args, self.launches, number)
            ready.append(bound.launch._prepare(mine, device, checked=checked))
            ready[-1].expect_arguments(mine)
        arguments = _arguments(ready, args, device)
        modules = list({id(launch.module): launch for launch in ready}.values())
        if checked:
            for launch in modules:
                launch.reset_variables()
        addresses = [_own_addresses(arguments.addresses, self.launches, n) for n in range(len(ready))]
        try:
            modules[0].module.launch_chain(
                list(zip(ready, addresses, strict=True)),
                overlap=self.pdl,
                checked=checked,
                stream=self.launches[0].launch.stream,
                array_streams=owning_streams(args),
                host_cannot_write=arguments.host_cannot_write,
            )
        finally:
            arguments.release()
        if not checked:
            arguments.copy_back()

    def __repr__(self) -> str:
        return f"<smemkit.Chain of {', '.join(map(repr, self.launches))}>"


def _extent(launches: Sequence[BoundLaunch], number: int) -> slice:
    """Where the arguments of a launch are among those of all."""
    first = sum(len(bound.args) for bound in launches[:number])
    return slice(first, first + len(launches[number].args))


def _own(args: Sequence[Any], launches: Sequence[BoundLaunch], number: int) -> list[Any]:
    return list(args[_extent(launches, number)])


def _own_addresses(addresses: Any, launches: Sequence[BoundLaunch], number: int) -> Any:
    """The addresses of the arguments of one launch, as a ctypes array."""
    own = addresses[_extent(launches, number)]
    return (type(addresses)._type_ * len(own))(*own)


def _arguments(ready: Sequence[ReadyLaunch], args: Sequence[Any], device: str) -> Arguments:
    """The arguments of all launches together, so that an array of several is copied once."""
    parameters: list[Parameter] = [
        replace(parameter, name=f"{launch.kernel.name}, launch {number}: {parameter.name}")
        for number, launch in enumerate(ready)
        for parameter in launch.parameters
    ]
    return Arguments("chain", parameters, args, device, ready[0].module.texture_object)
