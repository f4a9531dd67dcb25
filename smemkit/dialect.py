"""From CUDA C++ to the C++ that the dialect headers complete.

Two constructs have no counterpart in C++ and are rewritten; everything else is left, so that line numbers
and text stay the author's:

    extern __shared__ T name[];            a pointer to the block's dynamic shared memory
    kernel<T><<<grid, block, …>>>(args)    a call of smemkit::configure(…)(args)

This file is also loaded by setup.py, before smemkit exists: it imports nothing of smemkit.
"""

import re

# What a kernel must be compiled with, and where the compiler knows it. Integers wrap around, as on a GPU; a null
# pointer is an address like another, so that its use is not optimised away; a * b + c gives the same on every
# processor; a large frame must not jump over the guard of its stack; one kernel's __shared__ must not become
# another's of the same name.
FLAGS = ("-std=c++17", "-fno-exceptions", "-fwrapv", "-fno-delete-null-pointer-checks", "-ffp-contract=off")
FLAGS_IF_KNOWN = ("-fstack-clash-protection", "-fno-gnu-unique")

# A number is matched so that the apostrophes in 1'000 do not look like a character's.
_COMMENT_OR_LITERAL = re.compile(
    r"""(?P<number>\b\d[\w.]*(?:'[\w.]+)*)|//[^\n]*|/\*.*?\*/"""
    r"""|R"([^\s()\\]{0,16})\(.*?\)\2"|"(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])+'""",
    re.DOTALL,
)
_EXTERN_SHARED = re.compile(
    r"\b(?:extern\b(?P<before>[^;{}()]*?)\b__shared__|__shared__\b(?P<between>[^;{}()]*?)\bextern)\b"
    r"(?P<after>[^;{}]*?)\b(?P<name>[A-Za-z_]\w*)\s*\[\s*\]\s*;"
)
_ALIGNMENT = re.compile(r"(?:__align__|alignas)\s*\([^()]*\)|__attribute__\s*\(\(.*?\)\)")
_CLOSING = {")": "(", "]": "[", ">": "<"}


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

    Examples
    --------
    >>> print(rewrite("void run() { k<<<1, 32>>>(x); }", "k.cu").splitlines()[-1])
    void run() { smemkit::configure("k", [&](auto... smemkit_arguments) { k(smemkit_arguments...); }, 1, 32)(x); }
    """
    source = _rewrite_launches(_rewrite_extern_shared(source))
    return f'#include <cuda_runtime.h>\n#line 1 "{filename}"\n{source}'


def _mask(source: str) -> str:
    """The source with comments, strings and characters blanked out, every other character in its place."""
    return _COMMENT_OR_LITERAL.sub(
        lambda match: match[0] if match["number"] else re.sub(r"[^\n]", " ", match[0]), source
    )


def _rewrite_extern_shared(source: str) -> str:
    masked = _mask(source)
    for match in reversed(list(_EXTERN_SHARED.finditer(masked))):
        words = f"{match['before'] or ''} {match['between'] or ''} {match['after']}"
        element = " ".join(_ALIGNMENT.sub("", words).split())
        if masked.count("{", 0, match.start()) == masked.count("}", 0, match.start()):  # for the whole file
            text = f"static const smemkit::dynamic_shared<{element}> {match['name']};"
        else:
            text = f"{element} *const {match['name']} = ({element} *)smemkit_dynamic_shared();"
        source = source[: match.start()] + text + "\n" * match[0].count("\n") + source[match.end() :]
    return source


def _rewrite_launches(source: str) -> str:
    """The last launch first, so that what is found before it stays in its place."""
    end = len(source)
    while True:
        masked = _mask(source)
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
            call = f"[&](auto... smemkit_arguments) {{ {kernel}(smemkit_arguments...); }}"
        lines = "\n" * source.count("\n", start, at)
        configured = f'smemkit::configure("{name}", {call}, {source[at + 3 : close]})'
        source = source[:start] + lines + configured + source[close + 3 :]


def _is_function(masked: str, kernel: str) -> bool:
    """Whether `kernel` is one function, or a pointer to one, whose parameters' types are known: then arguments are
    converted to them. A template's arguments must be deduced, by the call in a lambda."""
    if kernel.endswith(("]", ")")):
        return True
    name = re.escape(kernel.rpartition("::")[2])
    declared = re.search(rf"([;{{}}>]|\A)(?P<words>[^;{{}}()<>]*\b__global__\b[^;{{}}()]*?)\b{name}\s*\(", masked)
    return bool(declared) and declared[1] != ">"


def _start_of_kernel(masked: str, end: int) -> int:
    """Where the expression before `<<<` begins: a name, qualified, with template arguments or subscripts; or
    anything in parentheses."""
    at = len(masked[:end].rstrip())
    while at > 0 and masked[at - 1] in _CLOSING:
        bracket = masked[at - 1]
        at = _opening(masked, at - 1)
        if bracket == ")":
            return at
        at = len(masked[:at].rstrip())
    while at > 0 and (masked[at - 1].isalnum() or masked[at - 1] in "_:"):
        at -= 1
    return at


def _opening(masked: str, at: int) -> int:
    """The bracket that the one at `at` closes. In template arguments, comparisons stand in parentheses."""
    close, depth = masked[at], 0
    while at > 0:
        character = masked[at]
        if character == close:
            depth += 1
        elif character == _CLOSING[close]:
            depth -= 1
            if depth == 0:
                return at
        elif close == ">" and character == ")":
            at = _opening(masked, at)
        at -= 1
    return 0
