"""Rewrites CUDA C++ as C++ for the dialect's headers.

Four constructs have no counterpart in C++ and are rewritten. Everything else stays, so that line numbers and text
are the author's:

    __shared__ T name[3];                  a reference to the block's variable in the executor's memory; for one at
                                           file scope, a reference in each function that uses it
    extern __shared__ T name[];            a pointer to the block's dynamic shared memory
    kernel<T><<<grid, block, …>>>(args)    a call of smemkit::configure(…)(args)
    asm("bar.sync %0, %1;" :: …)           a call of smemkit::named_barrier(…)

Code that needs hardware that the CPU device does not have gets an error pragma in front of it. The compiler
reports it with its line, unless an #if excludes it.

setup.py also loads this file, before smemkit is built, so it imports nothing of smemkit.
"""

import re
from collections.abc import Callable, Sequence
from itertools import pairwise

# The flags of every kernel. CUDA and the hardware define behaviour that C++ leaves open, and host compilers
# exploit that. With these flags, memory has no type (a float may be read as an int, two halves as a half2);
# integers and addresses wrap around; a null pointer is an address like any other, so that its use faults; an
# endless loop does not end; a function without its return does not run into the next one; a char is signed; each
# operation rounds once, to its own type. nvcc fuses a * b + c where it chooses, which differs between releases;
# here only fma fuses, on every processor. Other flags keep variables of the same name in different kernels apart,
# keep a large frame from skipping the guard of its stack, and find a local array that was written past its end
# when its function returns.
_SEMANTIC_FLAGS = (
    *("-std=c++17", "-fno-exceptions", "-fno-strict-aliasing", "-fwrapv", "-fno-strict-overflow"),
    *("-fno-delete-null-pointer-checks", "-fsigned-char", "-ffp-contract=off"),
    "-fstack-protector-strong",
)
_OPTIONAL_FLAGS = ("-fno-finite-loops", "-fstack-clash-protection", "-fno-gnu-unique")

# The flags of a checked build: not optimised, with a hook at every access and basic block, and with line tables.
# It is linked with csrc/checker/hooks.c instead of a sanitizer's runtime library.
_CHECKED_FLAGS = (
    "-O0",
    "-g1",
    "-gdwarf-4",
    "-fsanitize=thread",
    "-fsanitize-coverage=trace-pc",
    "-DSMEMKIT_CHECKED=1",
    "-fno-elide-constructors",  # then a function, with hooks, copies a struct into or out of a call
    *("-fno-builtin-memcpy", "-fno-builtin-memmove", "-fno-builtin-memset"),  # calls, which hooks.c implements
)


def compile_flags(
    accepts: Callable[[str], bool], *, checked: bool = False, extra_flags: Sequence[str] = ()
) -> list[str]:
    """The flags that compile kernels, for setup.py and for `smemkit.Kernel`.

    Parameters
    ----------
    accepts : callable
        Whether the compiler accepts a flag.
    checked : bool
        Whether to make a checked build.
    extra_flags : sequence of str
        The caller's further flags. If they enable a whole sanitizer, it reports its findings instead of trapping.
    """
    clang = accepts("-fsanitize=array-bounds")
    flags = ["-O2", "-fsanitize=return"]
    if accepts("-fsanitize-trap=return"):
        flags.append("-fsanitize-trap=return")
    elif not any(flag.startswith("-fsanitize=") and "undefined" in flag for flag in extra_flags):
        flags.append(
            "-fsanitize-undefined-trap-on-error"
        )  # older gcc: applies to everything that the sanitizer checks
    if checked and clang:  # which otherwise does not instrument a read before a write
        tsan = ["-mllvm", "-tsan-instrument-read-before-write=1", "-mllvm", "-tsan-distinguish-volatile=1"]
        flags = [*_CHECKED_FLAGS, "-fsanitize=array-bounds,return", "-gdwarf-aranges", *tsan]
    elif checked:
        flags = [*_CHECKED_FLAGS, "-fsanitize=bounds-strict,return", "--param=tsan-distinguish-volatile=1"]
    return [*flags, *_SEMANTIC_FLAGS, *filter(accepts, _OPTIONAL_FLAGS)]


# A number is matched so that the apostrophes in 1'000 do not start a character literal.
_COMMENT_OR_LITERAL = re.compile(
    r"""(?P<number>\b\d[\w.]*(?:'[\w.]+)*)|//[^\n]*|/\*.*?\*/"""
    r"""|R"([^\s()\\]{0,16})\(.*?\)\2"|"(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])+'""",
    re.DOTALL,
)
_EXTERN_SHARED = re.compile(
    r"\b(?:extern\b(?P<before>[^;{}()]*?)\b__shared__|__shared__\b(?P<between>[^;{}()]*?)\bextern)\b"
    r"(?P<after>[^;{}]*?)\b(?P<name>[A-Za-z_]\w*)\s*\[\s*\]\s*;"
)
_ALIGNMENT_SPECIFIER = re.compile(r"(?:__align__|alignas)\s*\([^()]*\)|__attribute__\s*\(\(.*?\)\)")
_DIRECTIVE = re.compile(r"^[ \t]*#(?:\\\r?\n|[^\n])*", re.MULTILINE)
_DEFINE = re.compile(
    r"^[ \t]*#[ \t]*define[ \t]+(?P<name>\w+)(?:\((?P<parameters>[^)]*)\))?(?P<body>(?:\\\r?\n|[^\n])*)",
    re.MULTILINE,
)
_LABEL = re.compile(r"\b(?:case\b[^:;{}]*(?:::[^:;{}]*)*|([A-Za-z_]\w*)\s*):(?!:)")
_TYPE_HEAD = re.compile(r"\b(namespace|extern|struct|class|union)\b[^;{}()]*$")
_SPECIFIERS = re.compile(rf"(?:(?:\b(?:static|volatile|const)\b|{_ALIGNMENT_SPECIFIER.pattern})\s*)*$")
_SHARED_MACRO = re.compile(
    rf"^[ \t]*#[ \t]*define[ \t]+(?P<name>\w+)[ \t]+"
    rf"(?P<body>(?:(?:\b(?:static|volatile|__shared__)\b|{_ALIGNMENT_SPECIFIER.pattern})[ \t]*)+)$",
    re.MULTILINE,
)
_DECLARATOR = re.compile(r"\(\s*\*\s*([A-Za-z_]\w*)\s*\)|([A-Za-z_]\w*)\s*(?:\[|$)")
_LAMBDA = re.compile(
    r"(?<!\[)\[(?!\[)(?P<captures>(?:[^\[\]]|\[[^\[\]]*\])*)\]"
    r"(?=\s*(?:[({<]|\[\[|(?:mutable|constexpr|noexcept|__\w+__)\b|->))"
)
_BEFORE_LAMBDA = re.compile(r"(?:\b(?:return|else|do|and|or|not)|[^\s\w)\]\"'])\s*$")  # otherwise a subscript
_CLOSING = {")": "(", "]": "[", ">": "<"}
_ASM = re.compile(r"\b(?:asm|__asm__|__asm)\b(?:\s+(?:volatile|__volatile__)\b)?\s*\(")
_BARRIER = re.compile(
    r"(?:bar|barrier)(?:\.cta)?\.(?P<does>sync|arrive)(?:\.aligned)?\s+"
    r"(?P<id>%?\w+)(?:\s*,\s*(?P<threads>%?\w+))?"
)

ERROR_PREFIX = "smemkit: "
# What device code may use and the CPU device cannot run
_NEEDS_HARDWARE = {
    r"\b(?:nvcuda\b(?!\s*;)|wmma\s*::)": "nvcuda::wmma (tensor cores)",
    r"\b(?:cp_async_bulk\w*|CUtensorMap\b|cuda\s*::\s*ptx\b)": "cp.async.bulk (the tensor memory accelerator)",
    r"\b(?:tex[123]D\w*|texCubemap\w*|surf[123]D\w*|cuda(?:Texture|Surface)Object_t)\b|\btexture\s*<": "a texture",
}
_UNSUPPORTED = {
    r"<<<": "a launch from device code (dynamic parallelism)",
    r"\bcurand\w*": "cuRAND",
    r"\bcub\s*::": "CUB",
    r"\bthrust\s*::": "Thrust",
}


def rewrite(source: str, filename: str, *, host: bool = True) -> str:
    """Rewrites a CUDA source as C++.

    Parameters
    ----------
    source : str
        The complete CUDA C++.
    filename : str
        The file's name in messages and debug information.
    host : bool
        Whether the source also has host code, with launches.

    Returns
    -------
    str
        C++ with the same lines, to be compiled with the dialect's headers first in the include path.

    Examples
    --------
    >>> print(rewrite("__global__ void k(int); void run() { k<<<1, 32>>>(7); }", "k.cu").splitlines()[-1])
    __global__ void k(int); void run() { smemkit::configure("k", k, 1, 32)(7); }
    """
    source = _rewrite_asm(_rewrite_extern_shared(_rewrite_shared(source)))
    source = _rewrite_launches(source) if host else _rewrite_malloc(_mark_unsupported(source))
    return f'#include <cuda_runtime.h>\n#line 1 "{filename}"\n{source}'


def isolate_from_macros(text: str, source: str) -> str:
    """`text`, to be appended to the source, protected from the source's macros: tutorials define N."""
    names = sorted(set(re.findall(r"^[ \t]*#[ \t]*define[ \t]+(\w+)", mask(source), re.MULTILINE)))
    away = [f'#pragma push_macro("{name}")\n#undef {name}' for name in names]
    back = [f'#pragma pop_macro("{name}")' for name in names]
    return "\n".join([*away, text, *back])


def mask(source: str) -> str:
    """The source with comments, strings and character literals blanked; positions stay the same."""
    return _COMMENT_OR_LITERAL.sub(
        lambda match: match[0] if match["number"] else re.sub(r"[^\n]", " ", match[0]), source
    )


def _error_pragma(message: str) -> str:
    """A pragma that makes the compiler report an error at any position; smemkit/compiler.py knows the prefix."""
    return f' _Pragma("GCC error \\"{ERROR_PREFIX}{message}\\"") '


def _rewrite_malloc(source: str) -> str:
    """Replaces malloc and free in device code, so that they use device memory, whose bounds are known."""
    names = {"malloc": "smemkit_allocate", "free": "smemkit_release"}
    for match in reversed(list(re.finditer(r"(?<![\w.>])(malloc|free)(?=\s*\()", mask(source)))):
        source = source[: match.start()] + names[match[1]] + source[match.end() :]
    return source


def _mark_unsupported(source: str) -> str:
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
    for at, message in sorted(found, reverse=True):
        source = f"{source[:at]}{_error_pragma(message)}{source[at:]}"
    return source


def _rewrite_asm(source: str) -> str:
    """Replaces inline PTX: barriers by calls, the rest by errors. Line ends stay, and in macros their
    backslashes."""
    masked = mask(source)
    for match in reversed(list(_ASM.finditer(masked))):
        opening = match.end() - 1
        end = _matching_parenthesis(masked, opening)
        separators = [opening, *_find_at_top_level(masked, opening + 1, end, ":"), end]
        template, *operands = [(start + 1, stop) for start, stop in pairwise(separators)]
        ptx = "".join(re.findall(r'"((?:\\.|[^"\\])*)"', source[slice(*template)])).replace(r"\t", " ")
        statements = [one.strip() for one in re.split(r";|\\n|[{}]", ptx)]
        statements = [one for one in statements if one and not one.startswith(".")]  # without declarations
        if not statements:
            continue  # a compiler fence, which the host compiler accepts unchanged
        values = [value for start, stop in operands[:2] for value in _asm_operands(source, masked, start, stop)]
        calls = [_named_barrier(statement, values) for statement in statements]
        new = f"({', '.join(map(str, calls))})"
        if None in calls:
            new = _error_pragma(_unsupported_ptx(statements[calls.index(None)]))
        line_ends = "".join(re.findall(r"\\?\n", source[match.start() : end]))
        source = source[: match.start()] + new + line_ends + source[end + 1 :]
    return source


def _named_barrier(statement: str, operands: list[str]) -> str | None:
    """The call that replaces a PTX statement; None if it is not a named barrier."""
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


def _unsupported_ptx(statement: str) -> str:
    instruction = re.sub(r"^@!?%?\w+\s+", "", statement).split()[0].replace('"', "").replace("\\", "")
    return f"the CPU device does not support inline PTX `{instruction}`, only bar.sync and bar.arrive"


def _asm_operands(source: str, masked: str, start: int, end: int) -> list[str]:
    """The operand expressions of "r"(one), "r"(another)."""
    separators = [start - 1, *_find_at_top_level(masked, start, end, ","), end]
    parts = [(a + 1, b) for a, b in pairwise(separators) if masked[a + 1 : b].strip(" \\\n")]
    return [source[masked.find("(", *part) : masked.rfind(")", *part) + 1].replace("\\\n", " ") for part in parts]


def _find_at_top_level(masked: str, start: int, end: int, character: str) -> list[int]:
    depth, found = 0, []
    for at in range(start, end):
        depth += {"(": 1, ")": -1}.get(masked[at], 0)
        if depth == 0 and masked[at] == character:
            found.append(at)
    return found


def _matching_parenthesis(masked: str, opening: int) -> int:
    """The parenthesis that closes the one at `opening`, or the last character."""
    depth = 0
    for at in range(opening, len(masked)):
        depth += {"(": 1, ")": -1}.get(masked[at], 0)
        if depth == 0:
            return at
    return len(masked) - 1


def _rewrite_shared(source: str) -> str:
    """Rewrites static __shared__ variables: a declaration becomes a typedef, followed by references to the block's
    memory. The last declaration is rewritten first, so that the positions of the others stay valid."""
    source = _add_references_after_macros(_expand_shared_macros(source))
    masked = mask(source)
    for match in reversed(list(re.finditer(r"\b__shared__\b", masked))):
        directive = _enclosing_directive(masked, match.start())
        start, end = _shared_declaration(masked, match, directive)
        scope = "function" if directive else _scope_kind(masked, match.start())
        found = _declarators(masked[start:end]) if end > 0 else []
        if scope == "class" or not found or re.search(r"\bextern\b", masked[start:end]):
            continue
        names = [name for name, _ in found]
        macro = "SMEMKIT_SHARED"
        if scope == "file":
            macro = "SMEMKIT_SHARED_VARIABLE"
            source = _add_references_in_functions(source, end, names)
        elif not directive:
            source = _add_references_in_lambdas(source, end, _end_of_block(masked, end), names)
            source, jumped = _add_references_after_labels(source, end, names)
            macro = "SMEMKIT_SHARED_VARIABLE" if jumped else macro
        source = source[:start] + _reference_declarations(source[start:end], found, macro) + source[end:]
        masked = mask(source)
    return source


def _enclosing_directive(masked: str, at: int) -> re.Match[str] | None:
    return next((one for one in _DIRECTIVE.finditer(masked) if one.start() <= at < one.end()), None)


def _expand_shared_macros(source: str) -> str:
    """Expands macros that consist of __shared__ and other specifiers, such as `#define SMEM __shared__`."""
    for define in _SHARED_MACRO.finditer(mask(source)):
        head, tail = source[: define.end()], source[define.end() :]
        uses = list(re.finditer(rf"\b{define['name']}\b", mask(tail)))
        for use in reversed(uses):
            tail = tail[: use.start()] + define["body"] + tail[use.end() :]
        source = head + tail
    return source


def _shared_declaration(masked: str, match: re.Match[str], directive: re.Match[str] | None) -> tuple[int, int]:
    """The start of a __shared__ variable's declaration, and its semicolon or the end of its macro's line."""
    if directive:
        end = _end_of_statement(masked[: directive.end()], match.end())
        return _SPECIFIERS.search(masked, directive.start(), match.start()).start(), max(end, directive.end())
    start = max(masked.rfind(mark, 0, match.start()) for mark in ";{}") + 1
    for before in _DIRECTIVE.finditer(masked, start, match.start()):
        start = before.end()
    label = re.compile(r"\s*(?:case\b[^:;]*|\w+)\s*:(?!:)").match(masked, start, match.start())
    return (label.end() if label else start), _end_of_statement(masked, match.end())


def _reference_declarations(declaration: str, names: list[tuple[str, int]], macro: str) -> str:
    """A declaration as a typedef, followed by the macro's call for each of its names, given with their
    positions."""
    masked = mask(declaration)
    outside = re.sub(r"\{.*\}", lambda body: " " * len(body[0]), masked, flags=re.DOTALL)
    alignments = [declaration[slice(*found.span())] for found in _ALIGNMENT_SPECIFIER.finditer(outside)]
    edits = [(at, at + len(name), f"SMEMKIT_SHARED_TYPE({name})") for name, at in names]
    for found in re.finditer(rf"{_ALIGNMENT_SPECIFIER.pattern}|\b(?:__shared__|static)\b", outside):
        edits.append((*found.span(), re.sub(r"[^\n\\]", "", found[0])))
    for start, end, new in sorted(edits, reverse=True):
        declaration = declaration[:start] + new + declaration[end:]
    first = len(declaration) - len(declaration.lstrip())
    text = f"{declaration[:first]}typedef {declaration[first:]};"
    alignment = "0"
    if alignments:
        aligned_type = f"smemkit_alignment_of_{names[0][0]}"
        text += f" struct {' '.join(alignments)} {aligned_type} {{ }};"
        alignment = f"alignof({aligned_type})"
    return text + ";".join(f" {macro}({name}, {alignment})" for name, _ in names)


def _add_references_in_lambdas(source: str, start: int, end: int, names: list[str]) -> str:
    """Adds references in the lambdas of a range in which shared variables are visible. CUDA's lambdas use these
    without capturing them, and a captured copy would copy the array, so each lambda gets references of its own.
    Also makes decltype give the variable's type."""
    masked = mask(source)
    edits, hidden_until = [], dict.fromkeys(names, 0)  # name → end of the lambda that hides it
    for lam in _LAMBDA.finditer(masked, start, end):
        if not _BEFORE_LAMBDA.search(source, 0, lam.start()) or (opening := _lambda_body(masked, lam.end())) < 0:
            continue
        closing = _end_of_block(masked, opening + 1)
        by_reference = re.match(r"\s*&\s*(?:,|$)", lam["captures"])
        for name in names:
            if _has_parameter(masked[lam.end() : opening], name) or _captures(lam["captures"], name):
                hidden_until[name] = max(hidden_until[name], closing)
            elif not by_reference and hidden_until[name] < opening and _is_used(masked, opening, closing, name):
                edits += [(opening + 1, f" SMEMKIT_SHARED_AGAIN({name}); {{"), (closing, "}")]
    edited = _insert(source, edits)
    end += len(edited) - len(source)
    asked = rf"\bdecltype\s*\(\s*({'|'.join(names)})\s*\)"
    return edited[:start] + re.sub(asked, r"SMEMKIT_SHARED_TYPE(\1)", edited[start:end]) + edited[end:]


def _add_references_in_functions(source: str, start: int, names: list[str]) -> str:
    """Adds references to a variable at file scope in each later function that uses it."""
    for name in names:
        masked, edits, done = mask(source), [], start
        space, end = _enclosing_namespace(masked, start)
        for use in _find_uses(masked, start, end, name):
            opening = _enclosing_function(masked, use.start()) if use.start() >= done else -1
            if opening < 0:
                continue
            done = _end_of_block(masked, opening + 1)
            if not _has_parameter(_text_before_brace(masked, opening), name):
                edits.append((opening, done))
        for opening, closing in reversed(edits):
            source = _add_references_in_lambdas(source, opening, closing, [name])
            closing = _end_of_block(mask(source), opening + 1)
            reference = f" SMEMKIT_SHARED_REFERENCE({name}); {{"
            source = _insert(source, [(opening + 1, reference), (closing, "}")])
        qualified = rf"(?<![\w>:])(?P<space>(?:\w+\s*::\s*)*{space}\s*::\s*){name}\b"
        for use in reversed(list(re.compile(qualified).finditer(mask(source), start))):
            variable = f"SMEMKIT_SHARED_IN({use['space']}, {name})"
            source = source[: use.start()] + variable + source[use.end() :]
    return source


def _add_references_after_labels(source: str, start: int, names: list[str]) -> tuple[str, bool]:
    """Adds references after the labels of a block. In CUDA a `case` or a `goto` may jump over the declaration of a
    shared variable, in C++ not over that of a reference. So each section from label to label gets references of
    its own. Also returns whether there are such labels."""
    masked = mask(source)
    end = _end_of_block(masked, start)
    labels = [
        label
        for label in _LABEL.finditer(masked, start, end)
        if _end_of_block(masked, label.start()) == end and _is_jump_target(masked, label, start)
    ]
    if not labels:
        return source, False
    edits = []
    starts, ends = [start + 1, *(label.end() for label in labels)], [*(label.start() for label in labels), end]
    for first, last in zip(starts, ends, strict=True):
        used = [name for name in names if _is_used(masked, first, last, name)]
        if used:
            references = "".join(f" SMEMKIT_SHARED_REFERENCE({name});" for name in used)
            edits += [(first, f" {{{references}"), (last, "} ")]
    return _insert(source, edits), True


def _is_jump_target(masked: str, label: re.Match[str], start: int) -> bool:
    """Whether a jump to a label may come from before `start`."""
    name = label[1]
    return name in (None, "default") or bool(re.search(rf"\bgoto\s+{name}\b", masked[:start]))


def _add_references_after_macros(source: str) -> str:
    """Adds references after macros that declare shared variables. With `#define TILE(T, n) __shared__ T n[32]`
    these are for lambdas after TILE(float, s) that use s."""
    masked, declaring = mask(source), {}
    for define in _DEFINE.finditer(masked):
        if names := _shared_variables_of_macro(masked, define, declaring):
            declaring[define["name"]] = ((define["parameters"] or "").replace(" ", "").split(","), names)
    uses = re.finditer(rf"\b(?:{'|'.join(declaring)})\b", masked) if declaring else ()
    for use in reversed(list(uses)):
        if _enclosing_directive(masked, use.start()):
            continue
        names, end = _shared_variables_of_use(mask(source), use, declaring)
        if _scope_kind(masked, use.start()) == "function":
            source = _add_references_in_lambdas(source, end, _end_of_block(mask(source), end), names)
        else:
            message = f"{use[0]} declares a shared variable outside of functions: write it without the macro"
            source = _insert(source, [(use.start(), _error_pragma(message))])
    return source


def _shared_variables_of_macro(masked: str, define: re.Match[str], declaring: dict) -> list[str]:
    """The shared variables that a macro declares, directly or by other macros; some may be its parameters."""
    names = []
    for word in re.compile(r"\b\w+\b").finditer(masked, define.start("body"), define.end("body")):
        if word[0] in declaring:
            names += _shared_variables_of_use(masked, word, declaring)[0]
        elif word[0] == "__shared__" and not re.search(r"\bextern\b", define["body"]):
            start, end = _shared_declaration(masked, word, define)
            names += [name for name, _ in _declarators(masked[start:end])]
    return names


def _shared_variables_of_use(masked: str, use: re.Match[str], declaring: dict) -> tuple[list[str], int]:
    """The shared variables that this use of a macro declares, and the position of its end."""
    parameters, names = declaring[use[0]]
    if parameters == [""]:
        return names, use.end()
    opening = masked.find("(", use.end())
    end = _matching_parenthesis(masked, opening)
    separators = [opening, *_find_at_top_level(masked, opening + 1, end, ","), end]
    arguments = [masked[a + 1 : b].strip() for a, b in pairwise(separators)]
    values = dict(zip(parameters, arguments, strict=False))
    return [values.get(name, name) for name in names], end


def _insert(source: str, edits: list[tuple[int, str]]) -> str:
    """The source with these texts inserted at their positions."""
    for at, text in sorted(edits, reverse=True):
        source = source[:at] + text + source[at:]
    return source


def _find_uses(masked: str, start: int, end: int, name: str) -> list[re.Match[str]]:
    """The uses of a variable, or of a macro that mentions it, without members and qualified names."""
    words, defines = [name], list(_DEFINE.finditer(masked))
    for word in words:  # the loop appends to it
        mention = re.compile(rf"\b{word}\b")
        words += [one["name"] for one in defines if one["name"] not in words and mention.search(one["body"])]
    found = re.compile(rf"(?<![\w.])(?<!->)(?<!::)(?:{'|'.join(words)})\b").finditer(masked, start, end)
    return [use for use in found if not _enclosing_directive(masked, use.start())]


def _is_used(masked: str, start: int, end: int, name: str) -> bool:
    return bool(_find_uses(masked, start, end, name))


def _has_parameter(head: str, name: str) -> bool:
    """Whether the head of a function or a lambda has a parameter of this name."""
    plain = re.sub(r"\b(?:decltype|sizeof)\s*\([^()]*\)", "", head)
    return bool(re.search(rf"[\w>&*)]\s*\b{name}\s*(?:[,)=]|\[|$)", plain[plain.find("(") + 1 :]))


def _captures(captures: str, name: str) -> bool:
    """Whether a lambda captures something under this name."""
    separators = [-1, *_find_at_top_level(captures, 0, len(captures), ","), len(captures)]
    return any(re.match(rf"\s*&?\s*{name}\b", captures[a + 1 : b]) for a, b in pairwise(separators))


def _lambda_body(masked: str, at: int) -> int:
    """The brace that opens the body of a lambda whose captures end at `at`; -1 if there is none."""
    brace, parameters = masked.find("{", at), masked.find("(", at)
    return masked.find("{", _matching_parenthesis(masked, parameters)) if 0 <= parameters < brace else brace


def _enclosing_braces(masked: str, position: int) -> list[tuple[int, str]]:
    """The braces around a position, innermost first, each with the text before it, which may tell its kind."""
    depth, found = 0, []
    for at in range(position - 1, -1, -1):
        depth += (masked[at] == "}") - (masked[at] == "{")
        if depth < 0:
            found.append((at, _text_before_brace(masked, at)))
            depth = 0
    return found


def _text_before_brace(masked: str, opening: int) -> str:
    """The text before a brace, back to the end of the previous statement or directive."""
    start = max(masked.rfind(mark, 0, opening) for mark in ";{}") + 1
    for before in _DIRECTIVE.finditer(masked, start, opening):
        start = before.end()
    return masked[start:opening]


def _enclosing_function(masked: str, position: int) -> int:
    """The brace that opens the outermost function around a position; -1 if there is none."""
    functions = [
        at for at, head in _enclosing_braces(masked, position) if "(" in head and not _TYPE_HEAD.search(head)
    ]
    return functions[-1] if functions else -1


def _enclosing_namespace(masked: str, position: int) -> tuple[str, int]:
    """The name of the innermost namespace around a position, and its end; "" at file scope."""
    for at, head in _enclosing_braces(masked, position):
        if name := re.search(r"\bnamespace\s+(?:\w+\s*::\s*)*(\w+)\s*$", head):
            return name[1], _end_of_block(masked, at + 1)
    return "", len(masked)


def _end_of_block(masked: str, start: int) -> int:
    """The brace that closes the block around `start`."""
    depth = 0
    for at in range(start, len(masked)):
        depth += (masked[at] == "{") - (masked[at] == "}")
        if depth < 0:
            return at
    return len(masked)


def _end_of_statement(masked: str, start: int) -> int:
    """The semicolon that ends the statement at `start`, which may have braces; -1 if there is none."""
    depth = 0
    for at in range(start, len(masked)):
        depth += (masked[at] in "{(") - (masked[at] in "})")
        if masked[at] == ";" and depth == 0:
            return at
        if depth < 0:
            break
    return -1


def _scope_kind(masked: str, position: int) -> str:
    """The kind of scope around a position: "function", "class" or "file"."""
    depth = 0
    for at in range(position - 1, -1, -1):
        depth += (masked[at] == "}") - (masked[at] == "{")
        if depth < 0:
            head = _TYPE_HEAD.search(masked[:at])
            if not head:
                return "function"
            if head[1] in ("struct", "class", "union"):
                return "class"
            depth = 0
    return "file"


def _declarators(declaration: str) -> list[tuple[str, int]]:
    """The names and positions of a and b in `__shared__ float a[32][33], b`."""
    text = re.sub(
        rf"{_ALIGNMENT_SPECIFIER.pattern}|\{{.*\}}",
        lambda found: " " * len(found[0]),
        declaration,
        flags=re.DOTALL,
    )
    names, start, angles, brackets = [], 0, 0, 0
    for at, character in enumerate(text + ","):
        brackets += (character in "([") - (character in ")]")
        if not brackets:
            angles += (character == "<") - (character == ">")
        if character == "," and not angles and not brackets:
            name = _DECLARATOR.search(text, start, at)
            names += [(name[name.lastindex], name.start(name.lastindex))] if name else []
            start = at + 1
    return [name for name in names if name[0] != "__shared__"]


def _rewrite_extern_shared(source: str) -> str:
    masked = mask(source)
    for match in reversed(list(_EXTERN_SHARED.finditer(masked))):
        words = f"{match['before'] or ''} {match['between'] or ''} {match['after']}"
        element = " ".join(_ALIGNMENT_SPECIFIER.sub("", words).split())
        whole_file = masked.count("{", 0, match.start()) == masked.count("}", 0, match.start())
        if whole_file:
            text = f'static const smemkit::dynamic_shared<{element}> {match["name"]}{{"{match["name"]}"}};'
        else:
            text = f"{element} *const {match['name']} = ({element} *)smemkit_dynamic_shared();"
            text += f' smemkit::declare_dynamic_shared<{element}>("{match["name"]}");'
        source = source[: match.start()] + text + "\n" * match[0].count("\n") + source[match.end() :]
        if whole_file:  # then an object, which only C-style casts convert
            cast = rf"\breinterpret_cast\s*<([^<>;]*)>\s*\(\s*{match['name']}\s*\)"
            source = re.sub(cast, rf"((\1){match['name']})", source)
    return source


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
            call = f"[&](auto... smemkit_arguments) SMEMKIT_UNSEEN {{ {kernel}(smemkit_arguments...); }}"
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
    while at > 0 and masked[at - 1] in _CLOSING:
        bracket = masked[at - 1]
        at = _matching_open_bracket(masked, at - 1)
        if bracket == ")":
            return at
        at = len(masked[:at].rstrip())
    while at > 0 and (masked[at - 1].isalnum() or masked[at - 1] in "_:"):
        at -= 1
    return at


def _matching_open_bracket(masked: str, at: int) -> int:
    """The bracket that the one at `at` closes. Comparisons in template arguments are in parentheses."""
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
            at = _matching_open_bracket(masked, at)
        at -= 1
    return 0
