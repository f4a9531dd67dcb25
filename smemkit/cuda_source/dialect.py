"""Rewrites CUDA C++ as C++ for the dialect's headers.

Four constructs have no counterpart in C++ and are rewritten, and so are subscripts that g++ would evaluate twice
(`subscripts.py`). Everything else stays, so that line numbers and text
are the author's:

    __shared__ T name[3];                  a reference to the block's variable in the executor's memory; for one at
                                           file scope, a reference in each function that uses it
    extern __shared__ T name[];            a pointer to the block's dynamic shared memory
    kernel<T><<<grid, block, …>>>(args)    a call of smemkit::configure(…)(args)
    asm("bar.sync %0, %1;" :: …)           a block that calls functions of the dialect

Code that needs hardware that the CPU device does not have gets an error pragma in front of it. The compiler
reports it with its line, unless an #if excludes it.

setup.py loads this file and flags.py, before smemkit is built. So they and what they import know only files of
this folder, by relative imports.
"""

import re
from collections.abc import Callable, Mapping

from .errors import error_pragma
from .lexer import DEFINE, mask, matching_open_bracket
from .shared_variables import rewrite_extern_shared, rewrite_shared
from .subscripts import rewrite_subscripts

__all__ = ["isolate_from_macros", "refused_features", "rewrite", "rewrite_asm"]

# What device code may use and the CPU device cannot run
_NEEDS_HARDWARE = {
    r"\btexture\s*<": "a texture reference, which CUDA 12 has removed, unlike texture objects,",
}
_UNSUPPORTED = {
    r"<<<": "a launch from device code (dynamic parallelism)",
    r"\bthrust\s*::": "Thrust",
    r"\bcurand_discrete4?\b": "curand_discrete, whose table a host function of cuRAND makes,",
}
_NOTHING: Mapping[str, str] = {}
_MENTIONS_ASM = re.compile(r"\b(?:asm|__asm|__asm__)\b")


def refused_features() -> dict[str, tuple[str, ...]]:
    """What device code may not use, by the reason."""
    return {
        "needs hardware that the CPU device does not have": tuple(_NEEDS_HARDWARE.values()),
        "is not supported on the CPU device": tuple(_UNSUPPORTED.values()),
    }


def rewrite(source: str, filename: str, *, host: bool = True, unsupported: Mapping[str, str] = _NOTHING) -> str:
    """Rewrites a CUDA source as C++.

    Parameters
    ----------
    source : str
        The complete CUDA C++.
    filename : str
        The file's name in messages and debug information.
    host : bool
        Whether the source also has host code, with launches.
    unsupported : mapping
        Further patterns of device code, and the errors that they get.

    Returns
    -------
    str
        C++ with the same lines, to be compiled with the dialect's headers first in the include path.

    Examples
    --------
    >>> print(rewrite("__global__ void k(int); void run() { k<<<1, 32>>>(7); }", "k.cu").splitlines()[-1])
    __global__ void k(int); void run() { smemkit::configure("k", k, 1, 32)(7); }
    """
    source, headers = rewrite_asm(rewrite_subscripts(rewrite_extern_shared(rewrite_shared(source))))
    source = _rewrite_launches(source) if host else _mark_unsupported(source, unsupported)
    included = "".join(f"#include <smemkit/ptx/{header}.h>\n" for header in sorted(headers))
    return f'#include <cuda_runtime.h>\n{included}#line 1 "{filename}"\n{source}'


def isolate_from_macros(text: str, source: str) -> str:
    """`text`, to be appended to the source, protected from the source's macros: tutorials define N."""
    names = sorted({define["name"] for define in DEFINE.finditer(mask(source))})
    away = [f'#pragma push_macro("{name}")\n#undef {name}' for name in names]
    back = [f'#pragma pop_macro("{name}")' for name in names]
    return "\n".join([*away, text, *back])


def _mark_unsupported(source: str, unsupported: Mapping[str, str]) -> str:
    masked = mask(source)
    found = [
        (match.start(), f"{what} needs hardware that the CPU device does not have")
        for pattern, what in _NEEDS_HARDWARE.items()
        for match in re.finditer(pattern, masked)
    ]
    found += [
        (match.start(), f"{what} is not supported on the CPU device")
        for pattern, what in _UNSUPPORTED.items()
        for match in re.finditer(pattern, masked)
    ]
    found += [
        (match.start(), message)
        for pattern, message in unsupported.items()
        for match in re.finditer(pattern, masked)
    ]
    for at, message in sorted(found, reverse=True):
        source = f"{source[:at]}{error_pragma(message)}{source[at:]}"
    return source


# ---- inline PTX ----


def rewrite_asm(source: str, refuse: Callable[[str], str] = error_pragma) -> tuple[str, frozenset[str]]:
    """Replaces inline PTX by C++, and what ptx.py does not know by errors. Line ends stay, and in macros their
    backslashes. Also returns the headers of the dialect that the C++ needs."""
    if not _MENTIONS_ASM.search(source):
        return source, frozenset()
    from .asm_statements import asm_statements, expand_asm_macros
    from .ptx import translate
    from .ptx_reader import PtxError

    source = expand_asm_macros(source)
    headers: set[str] = set()
    for statement in asm_statements(source):
        if not statement.text.strip() and not statement.hidden and not statement.outputs + statement.inputs:
            continue  # a compiler fence, which the host compiler accepts unchanged
        try:
            translation = translate(statement)
            new = translation.text
            headers |= translation.headers
        except PtxError as error:
            new = refuse(_unsupported_ptx(error.what, error.why))
        line_ends = "".join(re.findall(r"\\?\n", source[statement.start : statement.end]))
        source = source[: statement.start] + new + line_ends + source[statement.end + 1 :]
    return source, frozenset(headers)


def _unsupported_ptx(what: str, why: str) -> str:
    message = f"the CPU device does not support inline PTX `{what}` {why}".rstrip()
    return re.sub(r"[\"\\\n]", " ", message)


# ---- launches ----


def _rewrite_launches(source: str) -> str:
    """Rewrites launches, the last one first, so that the positions of the others stay valid."""
    end = len(source)
    while True:
        masked = mask(source)
        at = masked.rfind("<<<", 0, end)
        if at < 0:
            return source
        end = at
        close = masked.find(">>>", at)
        start = _start_of_kernel(masked, at)
        if close < 0 or start == at:
            continue
        kernel = " ".join(source[start:at].split())
        name = kernel.replace("\\", "\\\\").replace('"', '\\"')
        call = kernel
        if not _is_function(masked, kernel):
            call = f"[&](auto... smemkit_arguments) SMEMKIT_NO_HOOKS {{ {kernel}(smemkit_arguments...); }}"
        lines = "\n" * source.count("\n", start, at)
        configured = f'smemkit::configure("{name}", {call}, {source[at + 3 : close]})'
        source = source[:start] + lines + configured + source[close + 3 :]


def _is_function(masked: str, kernel: str) -> bool:
    """Whether `kernel` is one function, or a pointer to one. Its parameters' types are known, and arguments are
    converted to them. A template's arguments must be deduced, by a call in a lambda."""
    if kernel.endswith(("]", ")")):
        return True
    name = re.escape(kernel.rpartition("::")[2])
    declared = re.search(rf"([;{{}}>]|\A)(?P<words>[^;{{}}()<>]*\b__global__\b[^;{{}}()]*?)\b{name}\s*\(", masked)
    return bool(declared) and declared[1] != ">"


def _start_of_kernel(masked: str, end: int) -> int:
    """The start of the expression before `<<<`: a qualified name with template arguments or subscripts, or
    anything in parentheses."""
    at = len(masked[:end].rstrip())
    while at > 0 and masked[at - 1] in ")]>":
        bracket = masked[at - 1]
        at = matching_open_bracket(masked, at - 1)
        if bracket == ")":
            return at
        at = len(masked[:at].rstrip())
    while at > 0 and (masked[at - 1].isalnum() or masked[at - 1] in "_:"):
        at -= 1
    return at
