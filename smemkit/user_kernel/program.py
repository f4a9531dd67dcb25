"""A CUDA source and its compiled modules, per device."""

from __future__ import annotations

import os
import re
import threading
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from smemkit._core import CompileError
from smemkit.cuda_source.includes import expand_includes, source_location
from smemkit.cuda_source.overloads import base_name, normalised, template_name
from smemkit.cuda_source.scanner import DeviceCode, Function, scan
from smemkit.user_kernel.compiler import compile_error, is_system_header
from smemkit.user_kernel.cpu_module import CpuModule
from smemkit.user_kernel.isolation import declarations_to_leave_out, host_functions_to_keep
from smemkit.user_kernel.parameters import Parameter

__all__ = ["Program"]

_MAX_ROUNDS = 12  # compilations, each without what the one before could not compile

_OPTION = re.compile(
    r"-D[A-Za-z_]\w*(\([\w, .]*\))?(=[^\n]*)?|-U[A-Za-z_]\w*|-I[^\n]+|-std=(c|gnu)\+\+(17|20|23|2a|2b)"
)
_NAME = re.compile(r"(?:::)?[A-Za-z_][\w:]*(?:<[^;{}#\"\\\n]*>)?")


class Program:
    """A source, its kernels, and its compiled modules.

    Parameters
    ----------
    source : str or path
    options : sequence of str

    Attributes
    ----------
    text, filename : str
    code : DeviceCode
    options : tuple of str
    names : tuple of str
        The kernels.
    skipped : dict
        The kernels that are known not to compile for the CPU device: name → reason.
    constants : dict
        The bytes to which variables were set, by name. Modules compiled later start with them.
    """

    def __init__(self, source: str | os.PathLike[str], options: Sequence[str]):
        self.options = _read_options(options)
        is_path = _is_path(source)
        self.filename = os.fspath(source) if is_path else "kernel.cu"
        self.text = Path(source).read_text(encoding="utf-8-sig", errors="replace") if is_path else source
        self._sources: dict[str, str] = {}
        folders = [Path(option[2:]) for option in self.options if option.startswith("-I")]
        home = Path(source).parent if is_path else None
        self._expanded = expand_includes(self.text, self.filename, home, folders, self._sources)
        self.code = scan(self._expanded)
        if not self.code.functions and not self.code.has_macro_kernels:
            hint = "" if is_path or "\n" in source.strip() else "; a str ending in .cu or .cuh is a path"
            raise ValueError(f"source: expected a __global__ function, got none in {self.filename}{hint}")
        self.names = tuple(function.name for function in self.code.functions)
        self.constants: dict[str, bytes] = {}
        self.skipped: dict[str, CompileError] = {}
        # for the CPU device: the starts of declarations that its compiler refuses; host functions that types call
        self._left_out: frozenset[int] = frozenset()
        self._host_functions: frozenset[str] = frozenset()
        self._modules: dict[tuple[str, tuple[str, ...], bool], Any] = {}
        self._lock = threading.RLock()

    @property
    def sources(self) -> Mapping[str, str]:
        """The text by filename, of the source and of the headers of the user's that it includes."""
        return self._sources

    @property
    def notes(self) -> tuple[str, ...]:
        """Notes about code that was left out of the source."""
        left = ", ".join(f"{name} ({location})" for name, location in self.code.host.items())
        notes = [f"host code was left out: {left}"] if left else []
        skipped = [
            f"{name} does not compile: {str(error).splitlines()[0]}" for name, error in self.skipped.items()
        ]
        return (*notes, *self._missing_headers(quoted_only=True), *skipped)

    def _missing_headers(self, *, quoted_only: bool) -> tuple[str, ...]:
        """Notes about headers that are neither the user's nor the dialect's nor the system's. Host
        libraries' headers, in angle brackets, matter only if device code does not compile without them."""
        notes = []
        for at, name in self.code.includes:
            if (name[0] == '"' or not quoted_only) and "." in name and not is_system_header(name[1:-1]):
                line, file = source_location(self._expanded, at)
                notes.append(f"{file}:{line}: {name[1:-1]} not found; add -I with its folder")
        return tuple(dict.fromkeys(notes))

    # ---- names ----

    def find(self, name: str) -> tuple[Function | None, str]:
        """The function with this name, and its full name; None for a function that a macro defines."""
        if not isinstance(name, str):
            raise TypeError(f"name: expected str, got {type(name).__name__}")
        if overload := self._overload(name):
            return overload, overload.name
        base, _, arguments = name.strip().removeprefix("::").partition("<")
        base = base.strip()
        found = self._named(base)
        shared = {base_name(f.name) for f in found if base_name(f.name) != f.name}
        if len(shared) == 1 and not arguments:
            return None, shared.pop()
        found = [f for f in found if f.template] if arguments and len(found) > 1 else found
        if not _NAME.fullmatch(name.strip()) or len(found) > 1 or not (found or self.code.has_macro_kernels):
            choices = ", ".join(f.name for f in found) or ", ".join(self.names)
            raise ValueError(f"name: expected one of {self.filename}'s kernels, {choices}; got {name!r}")
        if not found:
            return None, name.strip()
        if bool(found[0].template) != bool(arguments):
            wanted = f"an instantiation such as '{base}<…>', because it is {found[0].template}"
            wanted = wanted if found[0].template else f"{base!r} alone, which is not a template"
            raise ValueError(f"name: expected {wanted}; got {name!r}")
        return found[0], found[0].name + ("<" + arguments if arguments else "")

    def _named(self, base: str) -> list[Function]:
        """The functions with this name, otherwise those that have it in a namespace."""
        functions = self.code.functions
        return [f for f in functions if base_name(f.name) == base] or [
            f for f in functions if base_name(f.name).endswith(f"::{base}")
        ]

    def _overload(self, name: str) -> Function | None:
        """The kernel that shares its name and has this signature: "scale(float *, int)"."""
        wanted = normalised(name.strip().removeprefix("::"))
        exact = [f for f in self.code.functions if f.name == wanted]
        found = exact or [f for f in self.code.functions if f.name.endswith(f"::{wanted}")]
        return found[0] if "(" in wanted and len(found) == 1 else None

    def overloads(self, name: str) -> tuple[str, ...]:
        """The kernels that share this name, with their signatures; none if it is one kernel's."""
        return tuple(f.name for f in self.code.functions if base_name(f.name) == name != f.name)

    def default(self) -> str | None:
        """The name of the only kernel, or of those that share it; None if there are several names, or if it is a
        template's."""
        functions = self.code.functions
        bases = {base_name(function.name) for function in functions}
        if len(bases) != 1 or any(f.template for f in functions) or self.code.has_macro_kernels:
            return None
        return bases.pop()

    # ---- modules ----

    def _kernels(self, expression: str | None) -> tuple[str, ...]:
        """The kernels that are compiled together: all that are not templates; an instantiation alone."""
        plain = tuple(function.name for function in self.code.functions if not function.template)
        together = expression is None or expression in plain or self.overloads(expression)
        return plain if together else (expression,)

    def can_compile(self, device: str) -> bool:
        """Whether the packages needed to compile for a device are installed."""
        return device == "cpu" or _gpu_module().is_installed()

    def module(self, device: str, expression: str | None, *, checked: bool = False) -> Any:
        """The module that has a kernel, compiled for a device on first use. Thread-safe."""
        kernels = self._kernels(expression)
        with self._lock:
            key = device, kernels, checked
            if key not in self._modules:
                self._modules[key] = self._compile(device, kernels, checked)
            self._raise_if_skipped(expression)
            return self._modules[key]

    def _raise_if_skipped(self, expression: str | None) -> None:
        error = self.skipped.get(template_name(expression or ""))
        if error:
            raise error.with_traceback(None)

    def _code(self, kernels: tuple[str, ...], *changes: frozenset) -> DeviceCode:
        """The device code of these kernels; `changes` are the last arguments of `scan`."""
        # a name that only the template arguments mention would be left out as host code: add<float, Functor>
        wanted = kernels[0] if len(kernels) == 1 and "<" in kernels[0] else ""
        return scan(self._expanded, wanted, *changes) if wanted or any(changes) else self.code

    def _compile(self, device: str, kernels: tuple[str, ...], checked: bool) -> Any:
        missing = self._missing_headers(quoted_only=False)
        explain = partial(compile_error, sources=self._sources, host=self.code.host, missing=missing)
        if device == "cpu":
            module = self._compile_separately(kernels, explain, checked)
        else:
            code = self._code(kernels)
            module = _gpu_module().GpuModule(code, self.filename, kernels, self.options, explain, device)
        for name, content in self.constants.items():
            if name in module.variables:
                module.write(name, content)
        return module

    def _compile_separately(self, kernels: tuple[str, ...], explain: Any, checked: bool) -> CpuModule:
        """The module of those kernels that compile; the others are `skipped`. Raises if none compiles: the error
        of a declaration that was left out, if that is why."""
        first: CompileError | None = None
        for _ in range(_MAX_ROUNDS):
            code = self._code(kernels, self._left_out, self._host_functions)
            wanted = tuple(name for name in kernels if template_name(name) not in self.skipped)
            try:
                return CpuModule(code, self.filename, wanted, self.options, explain, checked=checked)
            except CompileError as error:
                if more := host_functions_to_keep(code, error):
                    self._host_functions |= more
                    continue
                new = declarations_to_leave_out(code, error)
                refused = {outline.kernel: reason for outline, reason in new.items() if outline.kernel}
                bases = {template_name(name) for name in wanted}
                if not new or bases <= refused.keys() or not kernels:
                    raise (first or error) from None
                if not refused:
                    first = first or error
                self.skipped |= refused
                self._left_out |= {outline.start for outline in new}
        raise explain(f"{self.filename}:1: error: smemkit: more than {_MAX_ROUNDS} compilations fail")

    def variables_to_check(self, module: Any, expression: str) -> dict[str, bytes]:
        """The variables of a checked build before a launch: name → bytes. They are as they were set, or as the
        source initialises them; or as the plain build has them, if there is one and its kernels changed them."""
        plain = self._modules.get(("cpu", self._kernels(expression), False))
        if plain is None:
            return module.initial | {
                name: self.constants[name] for name in module.initial if name in self.constants
            }
        now = {name: plain.read(name) for name in module.initial}
        return {
            name: initial if now[name] == plain.initial[name] else now[name]
            for name, initial in module.initial.items()
        }

    def parameters(self, module: Any, function: Function | None, expression: str) -> list[Parameter]:
        """A kernel's parameters, as this module's compiler sees them."""
        signature = module.signature(expression)
        if signature is None:
            raise CompileError(f"{self.filename}: {expression} is excluded by an #if")
        declarations = function.declarations if function else ()
        names = function.parameters if function else ()
        if len(declarations) != len(signature):  # of a macro, or a pack
            declarations = names = ("",) * len(signature)
        return [
            Parameter.from_description(name or f"argument {number}", declaration, fields)
            for number, (name, declaration, fields) in enumerate(
                zip(names, declarations, signature, strict=True), 1
            )
        ]

    def set_constant(self, name: str, content: bytes) -> None:
        """Sets a variable in all modules, present and future."""
        with self._lock:
            self.constants[name] = content
            for (_, _, checked), module in self._modules.items():
                if not checked and name in module.variables:
                    module.write(name, content)


def _is_path(source: Any) -> bool:
    """Whether a source is the path of a file: a path object, or a str of one line that ends in .cu or .cuh."""
    if isinstance(source, os.PathLike):
        return True
    if not isinstance(source, str):
        raise TypeError(f"source: expected CUDA C++ as str, or the path of a file, got {type(source).__name__}")
    return source.endswith((".cu", ".cuh")) and "\n" not in source


def _gpu_module() -> Any:
    from smemkit.user_kernel import gpu_module  # late: importing cuda.core is slow, and it may not be installed

    return gpu_module


def _read_options(options: Sequence[str]) -> tuple[str, ...]:
    options = (options,) if isinstance(options, str) else tuple(options)
    for option in options:
        if not isinstance(option, str) or not _OPTION.fullmatch(option):
            raise ValueError(f"options: expected -D…, -U…, -I… or -std=c++17 and above, got {option!r}")
    return tuple(f"-I{Path(o[2:]).absolute()}" if o.startswith("-I") else o for o in options)
