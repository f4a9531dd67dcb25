"""From CUDA C++ to the C++ that the dialect headers complete.

Four constructs have no counterpart in C++ and are rewritten; everything else is left, so that line numbers
and text stay the author's:

    __shared__ T name[3];                  a reference to where the executor has the block's variable; one in each
                                           function that uses it, where it is declared for a whole file
    extern __shared__ T name[];            a pointer to the block's dynamic shared memory
    kernel<T><<<grid, block, …>>>(args)    a call of smemkit::configure(…)(args)
    asm("bar.sync %0, %1;" :: …)           a call of smemkit::named_barrier(…)

What needs hardware that the CPU device has not gets an error in front of it, which the compiler reports with its
line, unless an #if hides it.

This file is also loaded by setup.py, before smemkit exists: it imports nothing of smemkit.
"""

import re
from collections.abc import Callable, Sequence
from itertools import pairwise

# What every kernel is compiled with. C++ leaves to the compiler what CUDA and the hardware settle, and a compiler
# for the host makes use of that. Here memory has no type (a float is read as an int, two halves as a half2);
# integers and addresses wrap around; a null pointer is an address like another, so that its use faults; an endless
# loop does not end; a function without its return does not go on with the next one; a char is signed; each
# operation rounds once, to its own type. nvcc fuses a * b + c where it sees fit, which differs from release to
# release; here only fma does that, on every processor.
# Besides: one kernel's variables must not become another's of the same name, a large frame must not jump over the
# guard of its stack, and a local array that was written past its end is found when its function returns.
_FLAGS = (
    *("-std=c++17", "-fno-exceptions", "-fno-strict-aliasing", "-fwrapv", "-fno-strict-overflow"),
    *("-fno-delete-null-pointer-checks", "-fsigned-char", "-ffp-contract=off"),
    "-fstack-protector-strong",
)
_FLAGS_IF_KNOWN = ("-fno-finite-loops", "-fstack-clash-protection", "-fno-gnu-unique")

# What makes a build for checking: as written, with a hook at every access and basic block, and lines that tell
# where. It is linked with csrc/checker/hooks.c and no sanitizer's library.
_CHECKED_FLAGS = (
    "-O0",
    "-g1",
    "-gdwarf-4",
    "-fsanitize=thread",
    "-fsanitize-coverage=trace-pc",
    "-DSMEMKIT_CHECKED=1",
    "-fno-elide-constructors",  # a struct's copy into or out of a call is a function then, which has hooks
    *("-fno-builtin-memcpy", "-fno-builtin-memmove", "-fno-builtin-memset"),  # calls, which hooks.c answers
)


def compile_flags(accepts: Callable[[str], bool], *, checked: bool = False, more: Sequence[str] = ()) -> list[str]:
    """What kernels are compiled with, whoever compiles them.

    Parameters
    ----------
    accepts : callable
        Whether the compiler knows a flag.
    checked : bool
        Whether the build is for the checker.
    more : sequence of str
        What the compiler is told besides. A whole sanitizer there reports what it finds, and does not trap.
    """
    clang = accepts("-fsanitize=array-bounds")
    flags = ["-O2", "-fsanitize=return"]
    if accepts("-fsanitize-trap=return"):
        flags.append("-fsanitize-trap=return")
    elif not any(flag.startswith("-fsanitize=") and "undefined" in flag for flag in more):
        flags.append(
            "-fsanitize-undefined-trap-on-error"
        )  # of older gcc: it is for all that the sanitizer looks for
    if checked and clang:  # which else leaves out a read before a write
        more = ["-mllvm", "-tsan-instrument-read-before-write=1", "-mllvm", "-tsan-distinguish-volatile=1"]
        flags = [*_CHECKED_FLAGS, "-fsanitize=array-bounds,return", "-gdwarf-aranges", *more]
    elif checked:
        flags = [*_CHECKED_FLAGS, "-fsanitize=bounds-strict,return", "--param=tsan-distinguish-volatile=1"]
    return [*flags, *_FLAGS, *filter(accepts, _FLAGS_IF_KNOWN)]


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
_DIRECTIVE = re.compile(r"^[ \t]*#(?:\\\r?\n|[^\n])*", re.MULTILINE)
_DEFINE = re.compile(
    r"^[ \t]*#[ \t]*define[ \t]+(?P<name>\w+)(?:\((?P<parameters>[^)]*)\))?(?P<body>(?:\\\r?\n|[^\n])*)",
    re.MULTILINE,
)
_LABEL = re.compile(r"\b(?:case\b[^:;{}]*(?:::[^:;{}]*)*|([A-Za-z_]\w*)\s*):(?!:)")
_TYPE_HEAD = re.compile(r"\b(namespace|extern|struct|class|union)\b[^;{}()]*$")
_SPECIFIERS = re.compile(rf"(?:(?:\b(?:static|volatile|const)\b|{_ALIGNMENT.pattern})\s*)*$")
_SHARED_MACRO = re.compile(
    rf"^[ \t]*#[ \t]*define[ \t]+(?P<name>\w+)[ \t]+"
    rf"(?P<body>(?:(?:\b(?:static|volatile|__shared__)\b|{_ALIGNMENT.pattern})[ \t]*)+)$",
    re.MULTILINE,
)
_DECLARATOR = re.compile(r"\(\s*\*\s*([A-Za-z_]\w*)\s*\)|([A-Za-z_]\w*)\s*(?:\[|$)")
_LAMBDA = re.compile(
    r"(?<!\[)\[(?!\[)(?P<captures>(?:[^\[\]]|\[[^\[\]]*\])*)\]"
    r"(?=\s*(?:[({<]|\[\[|(?:mutable|constexpr|noexcept|__\w+__)\b|->))"
)
_BEFORE_LAMBDA = re.compile(r"(?:\b(?:return|else|do|and|or|not)|[^\s\w)\]\"'])\s*$")  # else it is an index
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
    source = _rewrite_asm(_rewrite_extern_shared(_rewrite_shared(source)))
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


def _rewrite_shared(source: str) -> str:
    """Static __shared__ variables: a declaration becomes a typedef, and behind it come references to the block's
    memory. The last one first, so that what is found before it stays in its place."""
    source = _refer_to_macros_variables(_expand_shared_macros(source))
    masked = mask(source)
    for match in reversed(list(re.finditer(r"\b__shared__\b", masked))):
        directive = _directive_around(masked, match.start())
        start, end = _shared_declaration(masked, match, directive)
        scope = "function" if directive else _scope(masked, match.start())
        found = _declarators(masked[start:end]) if end > 0 else []
        if scope == "class" or not found or re.search(r"\bextern\b", masked[start:end]):
            continue
        names = [name for name, _ in found]
        macro = "SMEMKIT_SHARED"
        if scope == "file":
            macro = "SMEMKIT_SHARED_VARIABLE"
            source = _refer_in_functions(source, end, names)
        elif not directive:
            source = _refer_in_lambdas(source, end, _end_of_block(masked, end), names)
            source, jumped = _refer_behind_labels(source, end, names)
            macro = "SMEMKIT_SHARED_VARIABLE" if jumped else macro
        source = source[:start] + _references(source[start:end], found, macro) + source[end:]
        masked = mask(source)
    return source


def _directive_around(masked: str, at: int) -> re.Match[str] | None:
    return next((one for one in _DIRECTIVE.finditer(masked) if one.start() <= at < one.end()), None)


def _expand_shared_macros(source: str) -> str:
    """With `#define SMEM __shared__`, or more specifiers, the word is as good as what it stands for."""
    for define in _SHARED_MACRO.finditer(mask(source)):
        head, tail = source[: define.end()], source[define.end() :]
        uses = list(re.finditer(rf"\b{define['name']}\b", mask(tail)))
        for use in reversed(uses):
            tail = tail[: use.start()] + define["body"] + tail[use.end() :]
        source = head + tail
    return source


def _shared_declaration(masked: str, match: re.Match[str], directive: re.Match[str] | None) -> tuple[int, int]:
    """Where the declaration of a __shared__ variable begins, and its semicolon, or the end of its macro's line."""
    if directive:
        end = _end_of_statement(masked[: directive.end()], match.end())
        return _SPECIFIERS.search(masked, directive.start(), match.start()).start(), max(end, directive.end())
    start = max(masked.rfind(mark, 0, match.start()) for mark in ";{}") + 1
    for before in _DIRECTIVE.finditer(masked, start, match.start()):
        start = before.end()
    label = re.compile(r"\s*(?:case\b[^:;]*|\w+)\s*:(?!:)").match(masked, start, match.start())
    return (label.end() if label else start), _end_of_statement(masked, match.end())


def _references(declaration: str, names: list[tuple[str, int]], macro: str) -> str:
    """The typedef of a declaration, whose names are at these places, and what the macro makes of each."""
    masked = mask(declaration)
    outside = re.sub(r"\{.*\}", lambda body: " " * len(body[0]), masked, flags=re.DOTALL)
    alignments = [declaration[slice(*found.span())] for found in _ALIGNMENT.finditer(outside)]
    edits = [(at, at + len(name), f"SMEMKIT_SHARED_TYPE({name})") for name, at in names]
    for found in re.finditer(rf"{_ALIGNMENT.pattern}|\b(?:__shared__|static)\b", outside):
        edits.append((*found.span(), re.sub(r"[^\n\\]", "", found[0])))
    for start, end, new in sorted(edits, reverse=True):
        declaration = declaration[:start] + new + declaration[end:]
    first = len(declaration) - len(declaration.lstrip())
    text = f"{declaration[:first]}typedef {declaration[first:]};"
    alignment = "0"
    if alignments:
        carrier = f"smemkit_alignment_of_{names[0][0]}"
        text += f" struct {' '.join(alignments)} {carrier} {{ }};"
        alignment = f"alignof({carrier})"
    return text + ";".join(f" {macro}({name}, {alignment})" for name, _ in names)


def _refer_in_lambdas(source: str, start: int, end: int, names: list[str]) -> str:
    """Between two places that see shared variables. CUDA's lambdas use them without capturing them: so each gets
    references of its own, since a captured copy would copy the array. And decltype gives the variable's type."""
    masked = mask(source)
    edits, hidden = [], dict.fromkeys(names, 0)  # a name means a lambda's parameter up to there
    for lam in _LAMBDA.finditer(masked, start, end):
        if not _BEFORE_LAMBDA.search(source, 0, lam.start()) or (opening := _body(masked, lam.end())) < 0:
            continue
        closing = _end_of_block(masked, opening + 1)
        by_reference = re.match(r"\s*&\s*(?:,|$)", lam["captures"])
        for name in names:
            if _declares(masked[lam.end() : opening], name) or _captures(lam["captures"], name):
                hidden[name] = max(hidden[name], closing)
            elif not by_reference and hidden[name] < opening and _mentions(masked, opening, closing, name):
                edits += [(opening + 1, f" SMEMKIT_SHARED_AGAIN({name}); {{"), (closing, "}")]
    edited = _insert(source, edits)
    end += len(edited) - len(source)
    asked = rf"\bdecltype\s*\(\s*({'|'.join(names)})\s*\)"
    return edited[:start] + re.sub(asked, r"SMEMKIT_SHARED_TYPE(\1)", edited[start:end]) + edited[end:]


def _refer_in_functions(source: str, start: int, names: list[str]) -> str:
    """A variable that is declared for a whole file: each function behind it that uses it refers to it."""
    for name in names:
        masked, edits, done = mask(source), [], start
        space, end = _namespace_around(masked, start)
        for use in _uses(masked, start, end, name):
            opening = _function_around(masked, use.start()) if use.start() >= done else -1
            if opening < 0:
                continue
            done = _end_of_block(masked, opening + 1)
            if not _declares(_head(masked, opening), name):
                edits.append((opening, done))
        for opening, closing in reversed(edits):
            source = _refer_in_lambdas(source, opening, closing, [name])
            closing = _end_of_block(mask(source), opening + 1)
            reference = f" SMEMKIT_SHARED_REFERENCE({name}); {{"
            source = _insert(source, [(opening + 1, reference), (closing, "}")])
        qualified = rf"(?<![\w>:])(?P<space>(?:\w+\s*::\s*)*{space}\s*::\s*){name}\b"
        for use in reversed(list(re.compile(qualified).finditer(mask(source), start))):
            variable = f"SMEMKIT_SHARED_IN({use['space']}, {name})"
            source = source[: use.start()] + variable + source[use.end() :]
    return source


def _refer_behind_labels(source: str, start: int, names: list[str]) -> tuple[str, bool]:
    """In CUDA a `case` or a `goto` may jump over the declaration of a shared variable, in C++ not over that of a
    reference: then each piece of the block, from label to label, gets references of its own. Whether it is so."""
    masked = mask(source)
    end = _end_of_block(masked, start)
    labels = [
        label
        for label in _LABEL.finditer(masked, start, end)
        if _end_of_block(masked, label.start()) == end and _is_jumped_to(masked, label, start)
    ]
    if not labels:
        return source, False
    edits = []
    starts, ends = [start + 1, *(label.end() for label in labels)], [*(label.start() for label in labels), end]
    for first, last in zip(starts, ends, strict=True):
        used = [name for name in names if _mentions(masked, first, last, name)]
        if used:
            references = "".join(f" SMEMKIT_SHARED_REFERENCE({name});" for name in used)
            edits += [(first, f" {{{references}"), (last, "} ")]
    return _insert(source, edits), True


def _is_jumped_to(masked: str, label: re.Match[str], start: int) -> bool:
    """Whether what jumps to a label may come from before `start`."""
    name = label[1]
    return name in (None, "default") or bool(re.search(rf"\bgoto\s+{name}\b", masked[:start]))


def _refer_to_macros_variables(source: str) -> str:
    """`#define TILE(T, n) __shared__ T n[32]`: the lambdas behind TILE(float, s), which use s."""
    masked, declaring = mask(source), {}
    for define in _DEFINE.finditer(masked):
        if names := _declared_by_macro(masked, define, declaring):
            declaring[define["name"]] = ((define["parameters"] or "").replace(" ", "").split(","), names)
    uses = re.finditer(rf"\b(?:{'|'.join(declaring)})\b", masked) if declaring else ()
    for use in reversed(list(uses)):
        if _directive_around(masked, use.start()):
            continue
        names, end = _macro_use(mask(source), use, declaring)
        if _scope(masked, use.start()) == "function":
            source = _refer_in_lambdas(source, end, _end_of_block(mask(source), end), names)
        else:
            message = f"{use[0]} declares a shared variable outside of functions: write it without the macro"
            source = _insert(source, [(use.start(), _error(message))])
    return source


def _declared_by_macro(masked: str, define: re.Match[str], declaring: dict) -> list[str]:
    """The shared variables that a macro declares, itself or by macros that it uses; some are its parameters."""
    names = []
    for word in re.compile(r"\b\w+\b").finditer(masked, define.start("body"), define.end("body")):
        if word[0] in declaring:
            names += _macro_use(masked, word, declaring)[0]
        elif word[0] == "__shared__" and not re.search(r"\bextern\b", define["body"]):
            start, end = _shared_declaration(masked, word, define)
            names += [name for name, _ in _declarators(masked[start:end])]
    return names


def _macro_use(masked: str, use: re.Match[str], declaring: dict) -> tuple[list[str], int]:
    """The shared variables that this use of a macro declares, and where it ends."""
    parameters, names = declaring[use[0]]
    if parameters == [""]:
        return names, use.end()
    opening = masked.find("(", use.end())
    end = _closing(masked, opening)
    cuts = [opening, *_outside_parentheses(masked, opening + 1, end, ","), end]
    arguments = [masked[a + 1 : b].strip() for a, b in pairwise(cuts)]
    values = dict(zip(parameters, arguments, strict=False))
    return [values.get(name, name) for name in names], end


def _insert(source: str, edits: list[tuple[int, str]]) -> str:
    """The source with these texts at these places."""
    for at, text in sorted(edits, reverse=True):
        source = source[:at] + text + source[at:]
    return source


def _uses(masked: str, start: int, end: int, name: str) -> list[re.Match[str]]:
    """Where a variable is mentioned, or a macro that mentions it: no member, and no other scope's of the name."""
    words, defines = [name], list(_DEFINE.finditer(masked))
    for word in words:  # which grow
        mention = re.compile(rf"\b{word}\b")
        words += [one["name"] for one in defines if one["name"] not in words and mention.search(one["body"])]
    found = re.compile(rf"(?<![\w.])(?<!->)(?<!::)(?:{'|'.join(words)})\b").finditer(masked, start, end)
    return [use for use in found if not _directive_around(masked, use.start())]


def _mentions(masked: str, start: int, end: int, name: str) -> bool:
    return bool(_uses(masked, start, end, name))


def _declares(head: str, name: str) -> bool:
    """Whether the head of a function or a lambda has a parameter of this name."""
    plain = re.sub(r"\b(?:decltype|sizeof)\s*\([^()]*\)", "", head)
    return bool(re.search(rf"[\w>&*)]\s*\b{name}\s*(?:[,)=]|\[|$)", plain[plain.find("(") + 1 :]))


def _captures(captures: str, name: str) -> bool:
    """Whether a lambda captures something under this name."""
    cuts = [-1, *_outside_parentheses(captures, 0, len(captures), ","), len(captures)]
    return any(re.match(rf"\s*&?\s*{name}\b", captures[a + 1 : b]) for a, b in pairwise(cuts))


def _body(masked: str, at: int) -> int:
    """The brace that opens the body of a lambda whose captures end at `at`; -1 where there is none."""
    brace, parameters = masked.find("{", at), masked.find("(", at)
    return masked.find("{", _closing(masked, parameters)) if 0 <= parameters < brace else brace


def _enclosing(masked: str, place: int) -> list[tuple[int, str]]:
    """The braces around a place, the innermost first, each with the text before it that may say what it is."""
    depth, found = 0, []
    for at in range(place - 1, -1, -1):
        depth += (masked[at] == "}") - (masked[at] == "{")
        if depth < 0:
            found.append((at, _head(masked, at)))
            depth = 0
    return found


def _head(masked: str, opening: int) -> str:
    """What stands before a brace: back to the end of another statement, or of a directive."""
    start = max(masked.rfind(mark, 0, opening) for mark in ";{}") + 1
    for before in _DIRECTIVE.finditer(masked, start, opening):
        start = before.end()
    return masked[start:opening]


def _function_around(masked: str, place: int) -> int:
    """The brace that opens the function that a place stands in; -1 where it stands in none."""
    functions = [at for at, head in _enclosing(masked, place) if "(" in head and not _TYPE_HEAD.search(head)]
    return functions[-1] if functions else -1


def _namespace_around(masked: str, place: int) -> tuple[str, int]:
    """The name of the innermost namespace that a place stands in, and its end; "" for the file."""
    for at, head in _enclosing(masked, place):
        if name := re.search(r"\bnamespace\s+(?:\w+\s*::\s*)*(\w+)\s*$", head):
            return name[1], _end_of_block(masked, at + 1)
    return "", len(masked)


def _end_of_block(masked: str, start: int) -> int:
    """The brace that closes the block that `start` stands in."""
    depth = 0
    for at in range(start, len(masked)):
        depth += (masked[at] == "{") - (masked[at] == "}")
        if depth < 0:
            return at
    return len(masked)


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


def _scope(masked: str, place: int) -> str:
    """What a place stands in: a "function", a "class", or the "file"."""
    depth = 0
    for at in range(place - 1, -1, -1):
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
    """a and b of `__shared__ float a[32][33], b`, and where they are."""
    text = re.sub(
        rf"{_ALIGNMENT.pattern}|\{{.*\}}", lambda found: " " * len(found[0]), declaration, flags=re.DOTALL
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
