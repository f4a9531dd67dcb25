"""From CUDA C++ to the C++ that the dialect headers complete.

Two constructs have no counterpart in C++ and are rewritten; everything else is left, so that line numbers
and text stay the author's:

    extern __shared__ T name[];            a pointer to the block's dynamic shared memory
    kernel<T><<<grid, block, …>>>(args)    a call of smemkit::configure(…)(args)

This file is also loaded by setup.py, before smemkit exists: it imports nothing of smemkit.
"""

import re

_COMMENT_OR_LITERAL = re.compile(
    r"""//[^\n]*|/\*.*?\*/|R"([^\s()\\]{0,16})\(.*?\)\1"|"(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])+'""", re.DOTALL
)
_EXTERN_SHARED = re.compile(
    r"\bextern\b(?P<before>[^;{}()]*?)\b__shared__\b(?P<after>[^;{}]*?)\b(?P<name>[A-Za-z_]\w*)\s*\[\s*\]\s*;"
)
_ALIGNMENT = re.compile(r"(?:__align__|alignas)\s*\([^()]*\)|__attribute__\s*\(\(.*?\)\)")
_LAUNCH = re.compile(r"<<<")


def rewrite(source: str, filename: str) -> str:
    """The C++ of a CUDA source.

    Parameters
    ----------
    source : str
        CUDA C++, whole.
    filename : str
        What messages and debug information call the file.

    Returns
    -------
    str
        C++ with the same lines, to be compiled with the dialect's headers in front of the include path.
    """
    source = _rewrite_launches(_rewrite_extern_shared(source))
    return f'#include <cuda_runtime.h>\n#line 1 "{filename}"\n{source}'


def _mask(source: str) -> str:
    """The source with comments, strings and characters blanked out, every other character in its place."""
    return _COMMENT_OR_LITERAL.sub(lambda match: re.sub(r"[^\n]", " ", match[0]), source)


def _rewrite_extern_shared(source: str) -> str:
    masked = _mask(source)
    for match in reversed(list(_EXTERN_SHARED.finditer(masked))):
        element = _ALIGNMENT.sub("", match["before"] + " " + match["after"]).strip()
        pointer = f"{element} *const {match['name']} = ({element} *)smemkit_dynamic_shared();"
        lines = "\n" * match[0].count("\n")
        source = source[: match.start()] + pointer + lines + source[match.end() :]
    return source


def _rewrite_launches(source: str) -> str:
    while True:
        masked = _mask(source)
        match = _LAUNCH.search(masked)
        if not match:
            return source
        start = _start_of_kernel(masked, match.start())
        end = masked.find(">>>", match.end())
        if end < 0:
            return source
        kernel = source[start : match.start()].strip()
        configuration = source[match.end() : end]
        name = kernel.replace("\\", "\\\\").replace('"', '\\"').replace("\n", " ")
        call = f"[&](auto... smemkit_arguments) {{ {kernel}(smemkit_arguments...); }}"
        source = f'{source[:start]}smemkit::configure("{name}", {call}, {configuration}){source[end + 3 :]}'


def _start_of_kernel(masked: str, end: int) -> int:
    """Where the expression that names the kernel begins: an identifier, qualified or with template arguments."""
    depth = 0
    at = end
    while at > 0:
        character = masked[at - 1]
        if character == ">":
            depth += 1
        elif character == "<":
            depth -= 1
        elif depth == 0 and not (character.isalnum() or character in "_:"):
            if character.isspace() and masked[at:end].strip() == "":
                at -= 1
                continue
            break
        at -= 1
    while at < end and masked[at].isspace():
        at += 1
    return at
