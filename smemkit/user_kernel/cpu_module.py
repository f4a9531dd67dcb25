"""User kernels on the CPU device: compiled to a library, which this process loads."""

from __future__ import annotations

import contextlib
import ctypes
import re
import shutil
import tempfile
import threading
from collections.abc import Callable, Sequence
from functools import partial
from math import prod
from pathlib import Path
from typing import Any

from smemkit import _core
from smemkit._core import CompileError, Error, OutOfMemoryError
from smemkit.cuda_source import dialect
from smemkit.cuda_source.includes import line_marker
from smemkit.cuda_source.overloads import alias, base_name, signature, template_name
from smemkit.cuda_source.scanner import DeviceCode, have_macro
from smemkit.user_kernel import cccl
from smemkit.user_kernel.clusters import cluster_lines, require_known_cluster
from smemkit.user_kernel.compiler import CPU_PRELUDE, INCLUDE, compile_library
from smemkit.user_kernel.cpu_texture import cpu_texture
from smemkit.user_kernel.parameters import DESCRIPTION_FIELDS, Parameter
from smemkit.user_kernel.texture import Texture

__all__ = ["CpuModule"]

_executor = ctypes.CDLL(_core.__file__)
_executor.smemkit_last_message.restype = ctypes.c_char_p
_CUDA_ERROR_MEMORY_ALLOCATION, _CUDA_ERROR_UNKNOWN = 2, 999  # values of cudaError_t

# headers of the C library that are quick to compile
_C_HEADERS = {"cassert", "fenv.h", "cfenv", "float.h", "limits.h", "inttypes.h", "stdbool.h", "sys/types.h"}
# what the package's inline PTX becomes
_PTX_HEADERS = [f"smemkit/ptx/{path.name}" for path in sorted(INCLUDE.glob("smemkit/ptx/*.h"))]
_USES_CUB, _USES_CUDA_STD = r"\bcub\s*::", r"\bcuda\s*::\s*std\s*::"
_MENTIONS_CUB = re.compile(r"\bcub\s*::|\busing\s+namespace\s+cub\b")
_GRID_WORDS = frozenset({"this_grid", "grid_group"})  # its blocks may wait for each other
_MOST_IN_FLIGHT = 3  # launches of a chain that have begun and not ended
_STACKS = 64  # for blocks of each of them: SHARED_STACKS of executor/pool.c

_Fields = ctypes.c_longlong * DESCRIPTION_FIELDS
_EntryPoint = ctypes.CFUNCTYPE(
    ctypes.c_int, ctypes.c_char_p, ctypes.POINTER(ctypes.c_uint), ctypes.c_size_t, ctypes.POINTER(ctypes.c_void_p)
)


class _Variable(ctypes.Structure):
    _fields_ = (("address", ctypes.c_void_p), ("type", _Fields))


class CpuModule:
    """Device code that is compiled for the CPU device.

    Parameters
    ----------
    code : DeviceCode
    filename : str
        Its name in messages and debug information.
    kernels : sequence of str
        Expressions: "scale", "outer::scale<float>".
    options : tuple of str
    checked : bool
        Whether to make a checked build.
    explain : callable
        Makes an exception from a compiler's output.

    Attributes
    ----------
    variables : dict
        Name → `Parameter`: its type.
    initial : dict
        The bytes of variables that are not const, as the source initialises them, by name.
    path : Path
        The library in the cache.
    """

    def __init__(
        self,
        code: DeviceCode,
        filename: str,
        kernels: Sequence[str],
        options: tuple[str, ...],
        explain: Callable[[str], CompileError],
        *,
        checked: bool = False,
    ):
        self._code = code
        uses_cccl = bool(_MENTIONS_CUB.search(code.text)) or _includes_cuda_std(code)
        unit = partial(_translation_unit, code, filename, kernels, with_cccl=uses_cccl)
        options = (*options, *cccl.compile_options()) if uses_cccl else options
        build = partial(compile_library, options=options, checked=checked, explain=explain)
        try:
            path = build(unit())
        except CompileError as error:
            if "overloaded function" not in str(error):
                raise
            path = build(unit(by_signature=True))  # a header declares a function of a kernel's name, too
        try:
            self._library = _load_library(path, own_variables=not checked)
        except OSError as error:  # probably a broken file in the cache: the next call compiles it again
            path.unlink(missing_ok=True)
            raise CompileError(f"the compiled library cannot be loaded, try again: {error}") from None
        self.path = path
        self._kernel_numbers = {kernel: number for number, kernel in enumerate(kernels)}
        self._cooperative: dict[str, bool] = {}
        self._clusters: dict[str, tuple[int, int, int] | None] = {}
        self._addresses: dict[str, int] = {}
        self.variables: dict[str, Parameter] = {}
        self.initial: dict[str, bytes] = {}
        for number, variable in enumerate(code.variables):
            try:
                found = _Variable.in_dll(self._library, f"smemkit_variable_{number}")
            except ValueError:
                continue  # an #if excludes it
            self._addresses[variable.name] = found.address
            self.variables[variable.name] = known = Parameter.from_description(
                variable.name, variable.name, found.type
            )
            if checked:
                sizes = (
                    ctypes.c_size_t(known.total_bytes),
                    ctypes.c_size_t(8 if known.pointer else known.element_bytes),
                )
                address = ctypes.c_void_p(found.address)
                _executor.smemkit_checked_global(
                    variable.name.encode(), address, *sizes, ctypes.c_int(variable.constant)
                )
            if not known.is_const:
                content = self.read(variable.name)
                self.initial[variable.name] = (
                    _initial_contents.setdefault((path, variable.name), content) if checked else content
                )

    def texture_object(self, texture: Texture, address: int) -> tuple[int, Callable[[], None]]:
        """The handle of a texture of an array at an address, and what releases it."""
        made = cpu_texture(texture, address)
        return ctypes.addressof(made[0]), lambda kept=made: None

    def signature(self, kernel: str) -> list[list[int]] | None:
        """The fields of each parameter; None if an #if excludes the kernel."""
        try:
            symbol = f"smemkit_signature_{self._kernel_numbers[kernel]}"
            count = ctypes.c_longlong.in_dll(self._library, symbol).value
        except ValueError:
            return None
        fields = (ctypes.c_longlong * (1 + DESCRIPTION_FIELDS * count)).in_dll(self._library, symbol)
        return [fields[1 + DESCRIPTION_FIELDS * i : 1 + DESCRIPTION_FIELDS * (i + 1)] for i in range(count)]

    def cluster(self, kernel: str) -> tuple[int, int, int] | None:
        """The blocks of a cluster that the kernel's __cluster_dims__ names."""
        if kernel not in self._clusters:
            require_known_cluster(self._code, kernel)
            x = y = z = 0
            with contextlib.suppress(ValueError):  # it has none, or an #if excludes it
                symbol = f"smemkit_cluster_{self._kernel_numbers[kernel]}"
                x, y, z = (ctypes.c_uint * 3).in_dll(self._library, symbol)
            self._clusters[kernel] = (x, y or 1, z or 1) if x else None
        return self._clusters[kernel]

    def is_cooperative(self, kernel: str) -> bool:
        """Whether the kernel's blocks may wait for each other, so that they run together."""
        if kernel not in self._cooperative:
            self._cooperative[kernel] = self._code.reaches(template_name(kernel), _GRID_WORDS)
        return self._cooperative[kernel]

    def launch(
        self,
        kernel: str,
        grid,
        block,
        shared_bytes: int,
        arguments,
        *,
        host_cannot_write=False,
        cluster=None,
        **_ignored,
    ) -> None:
        """Runs the kernel and waits. `arguments` is a ctypes array with the address of each argument's value.
        `host_cannot_write`: the host cannot write the kernel's memory during the launch. `cluster`: the blocks of
        a cluster, or None."""
        enter = _EntryPoint((f"smemkit_enter_{self._kernel_numbers[kernel]}", self._library))
        words = host_cannot_write, self.is_cooperative(kernel), *(cluster or (0, 0, 0))
        shape = (ctypes.c_uint * 11)(*grid, *block, *words)
        try:
            error = enter(kernel.encode(), shape, shared_bytes, arguments)
        except SystemError as wrapper:  # Ctrl-C inside the launch; ctypes wraps its exception
            raise (wrapper.__cause__ or wrapper) from None
        if error == _CUDA_ERROR_UNKNOWN:
            raise KeyboardInterrupt
        if error:
            message = _executor.smemkit_last_message().decode(errors="replace")
            raise (OutOfMemoryError if error == _CUDA_ERROR_MEMORY_ALLOCATION else Error)(message)

    def launch_chain(
        self, launches: Sequence[tuple[Any, Any]], *, overlap: bool, checked: bool, **options: Any
    ) -> None:
        """Runs launches, each with the addresses of its arguments, one after the other. With `overlap` each of a
        group begins before the one before it has run; in a check, which has its own way to find that, it may do
        so."""
        del options["stream"], options["array_streams"]
        if checked or not overlap:
            for number, (ready, addresses) in enumerate(launches):
                if checked:
                    _core.chain_launch(overlap and number > 0)
                ready.launch(addresses, **options)
        else:
            for group in _groups_in_flight(launches):
                _launch_early(group, options)

    def read(self, variable: str) -> bytes:
        """The bytes of a variable."""
        return ctypes.string_at(self._addresses[variable], self.variables[variable].total_bytes)

    def write(self, variable: str, content: bytes) -> None:
        """Sets the bytes of a variable."""
        ctypes.memmove(self._addresses[variable], content, len(content))


_Earlier = ctypes.CFUNCTYPE(ctypes.c_int)


def _groups_in_flight(launches: Sequence[tuple[Any, Any]]) -> list[list[tuple[Any, Any]]]:
    """The launches in groups that are in flight together, each with stacks of its own. A grid whose blocks run
    together and need more stacks is alone."""
    groups: list[list[tuple[Any, Any]]] = []
    alone = True
    for launch in launches:
        ready = launch[0]
        was_alone, alone = alone, ready.module.is_cooperative(ready.kernel.name) and prod(ready.of.grid) > _STACKS
        if alone or was_alone or len(groups[-1]) == _MOST_IN_FLIGHT:
            groups.append([])
        groups[-1].append(launch)
    return groups


def _launch_early(launches: Sequence[tuple[Any, Any]], options: dict[str, Any]) -> None:
    """Runs the last of these launches, which begins first, and lets the executor call for those before it. If it
    fails before that, they run afterwards, unless it was interrupted."""
    *others, (last, addresses) = launches
    errors: list[BaseException] = []

    def run_others() -> int:
        before = others.copy()
        others.clear()
        try:
            _launch_early(before, options)
        except BaseException as error:
            errors.append(error)
            return _CUDA_ERROR_UNKNOWN
        return 0

    earlier = _Earlier(run_others)
    if others:
        _executor.smemkit_overtake(earlier)
    try:
        last.launch(addresses, **options)
    except BaseException as error:
        _executor.smemkit_overtake(None)
        if others and isinstance(error, Error):
            run_others()
        if errors:
            raise errors[0] from None
        raise


def _includes_cuda_std(code: DeviceCode) -> bool:
    """Whether it includes a header of cuda::std that the dialect lacks, and uses cuda::std."""
    names = [name[1:-1] for _, name in code.includes if name[1:].startswith("cuda/std/")]
    return bool(re.search(_USES_CUDA_STD, code.text)) and not all((INCLUDE / name).is_file() for name in names)


def _translation_unit(
    code: DeviceCode, filename: str, kernels: Sequence[str], *, with_cccl: bool, by_signature: bool = False
) -> str:
    """The C++ of a source and of the entry points of its kernels; `by_signature` distinguishes them from functions
    that share their names."""
    uses_std = code.mentions("std")

    def keep(include: str) -> bool | str:
        """Whether to keep an #include: of the dialect's headers, and of the C++ library's if device code uses std,
        because they are slow to compile."""
        name = include[1:-1]
        return (
            (INCLUDE / name).is_file()
            or name in _C_HEADERS
            or (with_cccl and name.startswith("cuda/std/") and "if available")
            or (uses_std and "." not in name and "/" not in name and "if available")
        )

    missing = with_cccl and cccl.find_headers() is None
    unsupported = dict.fromkeys((_USES_CUB, _USES_CUDA_STD), cccl.INSTALL_HINT) if missing else {}
    text = dialect.rewrite(
        code.assemble(keep, cluster_lines(code, kernels)), filename, host=False, unsupported=unsupported
    )
    known = {function.name: function for function in code.functions}
    entries = [dialect.isolate_from_macros("#include <smemkit/describe_half.h>", text)]
    for number, kernel in enumerate(kernels):
        line = line_marker(*known[kernel].location) if kernel in known else f'#line 1 "name={kernel}"\n'
        function = known.get(kernel) if by_signature and base_name(kernel) == kernel else None
        types = f"({signature(function.declarations, function.parameters)})" if function else ""
        before, expression = alias(kernel + types, number)
        entry = f"{line}{before}SMEMKIT_ENTRY({number}, {expression})"
        base = template_name(kernel)
        entries.append(f"#ifdef {have_macro(base)}\n{entry}\n#endif" if base in known else entry)
    for number, variable in enumerate(code.variables):
        entries.append(f"#ifdef {have_macro(variable.name)}\nSMEMKIT_VARIABLE({number}, {variable.name})\n#endif")
    constants = [
        f"#ifdef {have_macro(variable.name)}\nSMEMKIT_CONSTANT({variable.name})\n#endif"
        for variable in code.variables
        if variable.constant
    ]
    entries += ["SMEMKIT_CONSTANTS_BEGIN", *constants, "SMEMKIT_CONSTANTS_END"]
    # nvcc needs no header for assert, and accepts `using namespace nvcuda;` without any other use of nvcuda
    headers = cccl.needed_headers(code.text) if with_cccl and not missing else ()
    included = "".join(f"#include <{header}>\n" for header in [*(_PTX_HEADERS if with_cccl else ()), *headers])
    own_printf = "#undef printf\n" if any(base_name(name) == "printf" for name in known) else ""
    before = f"{CPU_PRELUDE}{own_printf}{included}namespace nvcuda {{}} namespace cub {{}}"
    return "\n".join([before, text, *entries, ""])


_initial_contents: dict[tuple[Path, str], bytes] = {}  # of libraries that are loaded once, with their variables
_loaded_paths: set[Path] = set()
_load_lock = threading.Lock()


def _load_library(path: Path, *, own_variables: bool) -> ctypes.CDLL:
    """Loads the library. A second load of one file returns the first library, with its variables. With
    `own_variables` a copy of the file is loaded instead."""
    with _load_lock:
        if not own_variables or path not in _loaded_paths:
            library = ctypes.CDLL(str(path))
            _loaded_paths.add(path)
            return library
        with tempfile.TemporaryDirectory(prefix=".new-", dir=path.parent) as folder:
            return ctypes.CDLL(shutil.copy(path, folder))
