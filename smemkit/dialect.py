"""From CUDA C++ to the C++ that the dialect headers complete.

Three constructs have no counterpart in C++ and are rewritten; everything else is left, so that line numbers
and text stay the author's:

    extern __shared__ T name[];            a pointer to the block's dynamic shared memory
    kernel<T><<<grid, block, …>>>(args)    a call of smemkit::configure(…)(args)
    asm("bar.sync %0, %1;" :: …)           a call of smemkit::named_barrier(…)

What needs hardware that the CPU device has not gets an error in front of it, which the compiler reports with its
line, unless an #if hides it.

This file is also loaded by setup.py, before smemkit exists: it imports nothing of smemkit.
"""

import re
from itertools import pairwise

# What a kernel must be compiled with, and where the compiler knows it. Integers wrap around, as on a GPU; a null
# pointer is an address like another, so that its use is not optimised away; a * b + c gives the same on every
# processor; a large frame must not jump over the guard of its stack; one kernel's __shared__ must not become
# another's of the same name.
FLAGS = ("-std=c++17", "-fno-exceptions", "-fwrapv", "-fno-delete-null-pointer-checks", "-ffp-contract=off")
FLAGS_IF_KNOWN = ("-fstack-clash-protection", "-fno-gnu-unique")

# What makes a build for checking: as written, with a hook at every access and basic block, and lines that tell
# where. It is linked with csrc/cpu/hooks.c and no sanitizer's library.
CHECKED_FLAGS = (
    "-O0",
    "-g1",
    "-gdwarf-4",
    "-fsanitize=thread",
    "-fsanitize-coverage=trace-pc",
    "-DSMEMKIT_CHECKED=1",
    "-fno-elide-constructors",  # a struct's copy into or out of a call is a function then, which has hooks
)


def checked_flags(accepts) -> list[str]:
    """CHECKED_FLAGS, and what the compiler knows of the rest: `accepts(flag)` tries it."""
    if accepts("-fsanitize=array-bounds"):  # clang, which else leaves out a read before a write
        more = ["-mllvm", "-tsan-instrument-read-before-write=1", "-mllvm", "-tsan-distinguish-volatile=1"]
        return [*CHECKED_FLAGS, "-fsanitize=array-bounds", "-gdwarf-aranges", *more]
    return [*CHECKED_FLAGS, "-fsanitize=bounds", "--param=tsan-distinguish-volatile=1"]


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
_ASM = re.compile(r"\b(?:asm|__asm__|__asm)\b(?:\s+(?:volatile|__volatile__)\b)?\s*\(")
_BARRIER = re.compile(
    r"(?:bar|barrier)(?:\.cta)?\.(?P<does>sync|arrive)(?:\.aligned)?\s+"
    r"(?P<id>%?\w+)(?:\s*,\s*(?P<threads>%?\w+))?"
)

REFUSED = "smemkit: "
# What device code of a user may say and the CPU device cannot do
_NEEDS_HARDWARE = {
    r"\b(?:nvcuda\b(?!\s*;)|wmma\s*::)": "nvcuda::wmma (tensor cores)",
    r"\b(?:cp_async_bulk\w*|CUtensorMap\b|cuda\s*::\s*ptx\b)": "cp.async.bulk (the tensor memory accelerator)",
    r"\b(?:tex[123]D\w*|texCubemap\w*|surf[123]D\w*|cuda(?:Texture|Surface)Object_t)\b|\btexture\s*<": "a texture",
}
_NOT_HERE = {
    r"<<<": "a launch from device code (dynamic parallelism)",
    r"\bcurand\w*": "cuRAND",
    r"\bcub\s*::": "CUB",
    r"\bthrust\s*::": "Thrust",
}


def rewrite(source: str, filename: str, *, host: bool = True) -> str:
    """The C++ of a CUDA source.

    Parameters
    ----------
    source : str
        CUDA C++, whole.
    filename : str
        What messages and debug information call the file.
    host : bool
        Whether it holds the host's code too, and launches.

    Returns
    -------
    str
        C++ with the same lines, to be compiled with the dialect's headers in front of the include path.

    Examples
    --------
    >>> print(rewrite("__global__ void k(int); void run() { k<<<1, 32>>>(7); }", "k.cu").splitlines()[-1])
    __global__ void k(int); void run() { smemkit::configure("k", k, 1, 32)(7); }
    """
    source = _rewrite_asm(_rewrite_extern_shared(_declare_shared(source)))
    source = _rewrite_launches(source) if host else _rewrite_heap(_refuse(source))
    return f'#include <cuda_runtime.h>\n#line 1 "{filename}"\n{source}'


def shielded(text: str, source: str) -> str:
    """`text`, to be put behind the source, where no macro of the source reaches into it: tutorials define N."""
    names = sorted(set(re.findall(r"^[ \t]*#[ \t]*define[ \t]+(\w+)", mask(source), re.MULTILINE)))
    away = [f'#pragma push_macro("{name}")\n#undef {name}' for name in names]
    back = [f'#pragma pop_macro("{name}")' for name in names]
    return "\n".join([*away, text, *back])


def mask(source: str) -> str:
    """The source with comments, strings and characters blanked out, every other character in its place."""
    return _COMMENT_OR_LITERAL.sub(
        lambda match: match[0] if match["number"] else re.sub(r"[^\n]", " ", match[0]), source
    )


def _error(message: str) -> str:
    """What makes the compiler report an error, wherever it stands; smemkit/compiler.py knows the prefix."""
    return f' _Pragma("GCC error \\"{REFUSED}{message}\\"") '


def _rewrite_heap(source: str) -> str:
    """malloc and free of device code: memory of the device, whose bounds are known."""
    names = {"malloc": "smemkit_allocate", "free": "smemkit_release"}
    for match in reversed(list(re.finditer(r"(?<![\w.>])(malloc|free)(?=\s*\()", mask(source)))):
        source = source[: match.start()] + names[match[1]] + source[match.end() :]
    return source


def _refuse(source: str) -> str:
    masked = mask(source)
    found = [
        (match.start(), f"{what} needs hardware that the CPU device has not")
        for pattern, what in _NEEDS_HARDWARE.items()
        for match in re.finditer(pattern, masked)
    ]
    found += [
        (match.start(), f"{what} is not supported on the CPU device")
        for pattern, what in _NOT_HERE.items()
        for match in re.finditer(pattern, masked)
    ]
    for at, message in sorted(found, reverse=True):
        source = f"{source[:at]}{_error(message)}{source[at:]}"
    return source


def _rewrite_asm(source: str) -> str:
    """Inline PTX: barriers become calls, the rest errors. Line ends stay, and in macros their backslashes."""
    masked = mask(source)
    for match in reversed(list(_ASM.finditer(masked))):
        opening = match.end() - 1
        end = _closing(masked, opening)
        cuts = [opening, *_outside_parentheses(masked, opening + 1, end, ":"), end]
        template, *operands = [(start + 1, stop) for start, stop in pairwise(cuts)]
        ptx = "".join(re.findall(r'"((?:\\.|[^"\\])*)"', source[slice(*template)])).replace(r"\t", " ")
        statements = [one.strip() for one in re.split(r";|\\n|[{}]", ptx)]
        statements = [one for one in statements if one and not one.startswith(".")]  # without declarations
        if not statements:
            continue  # a fence for the compiler, which the host's takes as it is
        values = [value for start, stop in operands[:2] for value in _operands(source, masked, start, stop)]
        calls = [_named_barrier(statement, values) for statement in statements]
        new = f"({', '.join(map(str, calls))})"
        if None in calls:
            new = _error(_no_ptx(statements[calls.index(None)]))
        line_ends = "".join(re.findall(r"\\?\n", source[match.start() : end]))
        source = source[: match.start()] + new + line_ends + source[end + 1 :]
    return source


def _named_barrier(statement: str, operands: list[str]) -> str | None:
    """The call for a statement of PTX; None where there is none."""
    match = _BARRIER.fullmatch(statement)
    if not match:
        return None
    numbers = [match["id"], match["threads"] or "0"]
    try:
        numbers = [operands[int(word[1:])] if word[0] == "%" else str(int(word, 0)) for word in numbers]
    except (ValueError, IndexError):
        return None
    wait = "true" if match["does"] == "sync" else "false"
    return f"smemkit::named_barrier({', '.join(numbers)}, {wait}, __FILE__, __LINE__)"


def _no_ptx(statement: str) -> str:
    instruction = re.sub(r"^@!?%?\w+\s+", "", statement).split()[0].replace('"', "").replace("\\", "")
    return f"inline PTX `{instruction}` is not for the CPU device, which has bar.sync and bar.arrive alone"


def _operands(source: str, masked: str, start: int, end: int) -> list[str]:
    """The expressions of "r"(one), "r"(another)."""
    cuts = [start - 1, *_outside_parentheses(masked, start, end, ","), end]
    parts = [(a + 1, b) for a, b in pairwise(cuts) if masked[a + 1 : b].strip(" \\\n")]
    return [source[masked.find("(", *part) : masked.rfind(")", *part) + 1].replace("\\\n", " ") for part in parts]


def _outside_parentheses(masked: str, start: int, end: int, character: str) -> list[int]:
    depth, found = 0, []
    for at in range(start, end):
        depth += {"(": 1, ")": -1}.get(masked[at], 0)
        if depth == 0 and masked[at] == character:
            found.append(at)
    return found


def _closing(masked: str, opening: int) -> int:
    """The parenthesis that closes the one at `opening`, or the end."""
    depth = 0
    for at in range(opening, len(masked)):
        depth += {"(": 1, ")": -1}.get(masked[at], 0)
        if depth == 0:
            return at
    return len(masked) - 1


def _declare_shared(source: str) -> str:
    """Behind each __shared__ variable of a function, a call that tells the checker its name and shape."""
    masked = mask(source)
    for match in reversed(list(re.finditer(r"\b__shared__\b", masked))):
        end = _end_of_statement(masked, match.end())
        words = masked[max(masked.rfind(mark, 0, match.start()) for mark in ";{}") + 1 : match.start()]
        if end < 0 or re.search(r"\bextern\b", words + masked[match.end() : end]):
            continue
        if _in_function(masked, match.start()):
            names = _declared_names(masked[match.end() : end])
            calls = "".join(f' smemkit::declare_shared("{name}", {name});' for name in names)
            source = f"{source[: end + 1]}{calls}{source[end + 1 :]}"
    return source


def _end_of_statement(masked: str, start: int) -> int:
    """The semicolon that ends what stands at `start`, which may have braces; -1 where there is none."""
    depth = 0
    for at in range(start, len(masked)):
        depth += (masked[at] in "{(") - (masked[at] in "})")
        if masked[at] == ";" and depth == 0:
            return at
        if depth < 0:
            break
    return -1


def _in_function(masked: str, place: int) -> bool:
    depth = 0
    for at in range(place - 1, -1, -1):
        depth += (masked[at] == "}") - (masked[at] == "{")
        if depth < 0:
            return not re.search(r"\b(?:namespace|struct|class|union|extern)\b[^;{}()]*$", masked[:at])
    return False


def _declared_names(declaration: str) -> list[str]:
    """a and b of `float a[32][33], b`."""
    declaration = re.sub(r"\{.*\}", " ", _ALIGNMENT.sub(" ", declaration), flags=re.DOTALL)
    names, depth, start = [], 0, 0
    for at, character in enumerate(declaration + ","):
        depth += (character in "[(<") - (character in "])>")
        if character == "," and depth == 0:
            name = re.search(r"([A-Za-z_]\w*)\s*(?:\[|$)", declaration[start:at])
            names += [name[1]] if name else []
            start = at + 1
    return names


def _rewrite_extern_shared(source: str) -> str:
    masked = mask(source)
    for match in reversed(list(_EXTERN_SHARED.finditer(masked))):
        words = f"{match['before'] or ''} {match['between'] or ''} {match['after']}"
        element = " ".join(_ALIGNMENT.sub("", words).split())
        whole_file = masked.count("{", 0, match.start()) == masked.count("}", 0, match.start())
        if whole_file:
            text = f'static const smemkit::dynamic_shared<{element}> {match["name"]}{{"{match["name"]}"}};'
        else:
            text = f"{element} *const {match['name']} = ({element} *)smemkit_dynamic_shared();"
            text += f' smemkit::declare_dynamic_shared<{element}>("{match["name"]}");'
        source = source[: match.start()] + text + "\n" * match[0].count("\n") + source[match.end() :]
        if whole_file:  # an object then, which only casts in C's manner convert
            cast = rf"\breinterpret_cast\s*<([^<>;]*)>\s*\(\s*{match['name']}\s*\)"
            source = re.sub(cast, rf"((\1){match['name']})", source)
    return source


def _rewrite_launches(source: str) -> str:
    """The last launch first, so that what is found before it stays in its place."""
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
            call = f"[&](auto... smemkit_arguments) SMEMKIT_UNSEEN {{ {kernel}(smemkit_arguments...); }}"
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
