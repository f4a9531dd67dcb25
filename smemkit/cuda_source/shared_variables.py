"""Rewrites __shared__ variables as references to memory of the executor.

CUDA's shared variables belong to a block and are visible where C++ allows no reference: at file scope, after
labels, in lambdas. Each such scope gets references of its own.
"""

import re
from itertools import pairwise

from .errors import error_pragma
from .lexer import (
    DEFINE,
    DIRECTIVE,
    enclosing_braces,
    enclosing_directive,
    end_of_block,
    end_of_statement,
    find_at_top_level,
    insert,
    mask,
    matching_bracket,
    text_before_brace,
)

__all__ = ["rewrite_extern_shared", "rewrite_shared"]

_EXTERN_SHARED = re.compile(
    r"\b(?:extern\b(?P<before>[^;{}()]*?)\b__shared__|__shared__\b(?P<between>[^;{}()]*?)\bextern)\b"
    r"(?P<after>[^;{}]*?)\b(?P<name>[A-Za-z_]\w*)\s*\[\s*\](?P<rows>(?:\s*\[[^][;{}]*\])*)\s*;"
)
_ALIGNMENT_SPECIFIER = re.compile(r"(?:__align__|alignas)\s*\((?:[^()]|\([^()]*\))*\)|__attribute__\s*\(\(.*?\)\)")
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


def rewrite_shared(source: str) -> str:
    """Rewrites static __shared__ variables: a declaration becomes a typedef, followed by references to the block's
    memory. The last declaration is rewritten first, so that the positions of the others stay valid."""
    source = _add_references_after_macros(_expand_shared_macros(source))
    masked = mask(source)
    for match in reversed(list(re.finditer(r"\b__shared__\b", masked))):
        directive = enclosing_directive(masked, match.start())
        start, end = _shared_declaration(masked, match, directive)
        scope = "function" if directive else _scope_kind(masked, match.start())
        found = _declarators(masked[start:end]) if end > 0 else []
        is_extern = re.search(r"\bextern\b", masked[start:end]) or re.search(r"\bextern\s*$", masked[:start])
        if scope == "class" or not found or is_extern:
            continue
        names = [name for name, _ in found]
        macro = "SMEMKIT_SHARED"
        if scope == "file":
            macro = "SMEMKIT_SHARED_VARIABLE"
            source = _add_references_in_functions(source, end, names)
        elif not directive:
            source = _add_references_in_lambdas(source, end, end_of_block(masked, end), names)
            source, jumped = _add_references_after_labels(source, end, names)
            macro = "SMEMKIT_SHARED_VARIABLE" if jumped else macro
        source = source[:start] + _reference_declarations(source[start:end], found, macro) + source[end:]
        masked = mask(source)
    return source


def _expand_shared_macros(source: str) -> str:
    """Expands macros that consist of __shared__ and other specifiers, such as `#define SMEM __shared__`."""
    for define in reversed(list(_SHARED_MACRO.finditer(mask(source)))):
        if "__shared__" not in define["body"]:
            continue
        head, tail = source[: define.end()], source[define.end() :]
        uses = re.finditer(
            rf"(?P<directive>#[ \t]*(?:define|undef|ifn?def)[ \t]+)?\b{define['name']}\b", mask(tail)
        )
        for use in reversed([use for use in uses if not use["directive"]]):
            tail = tail[: use.start()] + define["body"] + tail[use.end() :]
        source = head + tail
    return source


def _shared_declaration(masked: str, match: re.Match[str], directive: re.Match[str] | None) -> tuple[int, int]:
    """The start of a __shared__ variable's declaration, and its semicolon or the end of its macro's line."""
    if directive:
        end = end_of_statement(masked[: directive.end()], match.end())
        return _SPECIFIERS.search(masked, directive.start(), match.start()).start(), max(end, directive.end())
    start = max(masked.rfind(mark, 0, match.start()) for mark in ";{}") + 1
    for before in DIRECTIVE.finditer(masked, start, match.start()):
        start = before.end()
    label = re.compile(r"\s*(?:case\b[^:;]*|\w+)\s*:(?!:)").match(masked, start, match.start())
    return (label.end() if label else start), end_of_statement(masked, match.end())


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


def rewrite_extern_shared(source: str) -> str:
    """Rewrites `extern __shared__ T name[];` as a pointer to the block's dynamic memory, or at file scope as an
    object that converts to one."""
    masked = mask(source)
    for match in reversed(list(_EXTERN_SHARED.finditer(masked))):
        words = f"{match['before'] or ''} {match['between'] or ''} {match['after']}"
        element = " ".join(_ALIGNMENT_SPECIFIER.sub("", words).split())
        before = ""
        if match["rows"]:
            row = f"smemkit_row_of_{match['name']}"
            before, element = f"typedef {element} {row}{match['rows']}; ", row
        whole_file = masked.count("{", 0, match.start()) == masked.count("}", 0, match.start())
        if whole_file:
            text = (
                before + f'static const smemkit::dynamic_shared<{element}> {match["name"]}{{"{match["name"]}"}};'
            )
        else:
            text = f"{before}{element} *const {match['name']} = ({element} *)smemkit_dynamic_shared();"
            text += f' smemkit::declare_dynamic_shared<{element}>("{match["name"]}");'
        source = source[: match.start()] + text + "\n" * match[0].count("\n") + source[match.end() :]
        if whole_file:  # then an object, which only C-style casts convert
            cast = rf"\breinterpret_cast\s*<([^<>;]*)>\s*\(\s*{match['name']}\s*\)"
            source = re.sub(cast, rf"((\1){match['name']})", source)
    return source


# ---- references where the variable is used ----


def _add_references_in_lambdas(source: str, start: int, end: int, names: list[str]) -> str:
    """Adds references in the lambdas of a range in which shared variables are visible. CUDA's lambdas use these
    without capturing them, and a captured copy would copy the array, so each lambda gets references of its own.
    Also makes decltype give the variable's type."""
    masked = mask(source)
    edits, hidden_until = [], dict.fromkeys(names, 0)  # name → end of the lambda that hides it
    for lam in _LAMBDA.finditer(masked, start, end):
        if not _BEFORE_LAMBDA.search(source, 0, lam.start()) or (opening := _lambda_body(masked, lam.end())) < 0:
            continue
        closing = end_of_block(masked, opening + 1)
        by_reference = re.match(r"\s*&\s*(?:,|$)", lam["captures"])
        for name in names:
            if _has_parameter(masked[lam.end() : opening], name) or _captures(lam["captures"], name):
                hidden_until[name] = max(hidden_until[name], closing)
            elif not by_reference and hidden_until[name] < opening and _is_used(masked, opening, closing, name):
                edits += [(opening + 1, f" SMEMKIT_SHARED_AGAIN({name}); {{"), (closing, "}")]
    edited = insert(source, edits)
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
            done = end_of_block(masked, opening + 1)
            if not _has_parameter(text_before_brace(masked, opening), name):
                edits.append((opening, done))
        for opening, closing in reversed(edits):
            source = _add_references_in_lambdas(source, opening, closing, [name])
            closing = end_of_block(mask(source), opening + 1)
            reference = f" SMEMKIT_SHARED_REFERENCE({name}); {{"
            source = insert(source, [(opening + 1, reference), (closing, "}")])
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
    end = end_of_block(masked, start)
    labels = [
        label
        for label in _LABEL.finditer(masked, start, end)
        if end_of_block(masked, label.start()) == end and _is_jump_target(masked, label, start)
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
    return insert(source, edits), True


def _is_jump_target(masked: str, label: re.Match[str], start: int) -> bool:
    """Whether a jump to a label may come from before `start`."""
    name = label[1]
    return name in (None, "default") or bool(re.search(rf"\bgoto\s+{name}\b", masked[:start]))


def _add_references_after_macros(source: str) -> str:
    """Adds references after macros that declare shared variables. With `#define TILE(T, n) __shared__ T n[32]`
    these are for lambdas after TILE(float, s) that use s."""
    masked, declaring = mask(source), {}
    for define in DEFINE.finditer(masked):
        if names := _shared_variables_of_macro(masked, define, declaring):
            declaring[define["name"]] = ((define["parameters"] or "").replace(" ", "").split(","), names)
    uses = re.finditer(rf"\b(?:{'|'.join(declaring)})\b", masked) if declaring else ()
    for use in reversed(list(uses)):
        if enclosing_directive(masked, use.start()):
            continue
        names, end = _shared_variables_of_use(mask(source), use, declaring)
        if _scope_kind(masked, use.start()) == "function":
            source = _add_references_in_lambdas(source, end, end_of_block(mask(source), end), names)
        else:
            message = f"{use[0]} declares a shared variable outside of functions: write it without the macro"
            source = insert(source, [(use.start(), error_pragma(message))])
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
    if opening < 0:
        return names, use.end()
    end = matching_bracket(masked, opening)
    separators = [opening, *find_at_top_level(masked, opening + 1, end, ","), end]
    arguments = [masked[a + 1 : b].strip() for a, b in pairwise(separators)]
    values = dict(zip(parameters, arguments, strict=False))
    return [values.get(name, name) for name in names], end


# ---- uses and scopes ----


def _find_uses(masked: str, start: int, end: int, name: str) -> list[re.Match[str]]:
    """The uses of a variable, or of a macro that mentions it, without members and qualified names."""
    words, defines = [name], list(DEFINE.finditer(masked))
    for word in words:  # the loop appends to it
        mention = re.compile(rf"\b{word}\b")
        words += [
            macro["name"] for macro in defines if macro["name"] not in words and mention.search(macro["body"])
        ]
    found = re.compile(rf"(?<![\w.])(?<!->)(?<!::)(?:{'|'.join(words)})\b").finditer(masked, start, end)
    return [use for use in found if not enclosing_directive(masked, use.start())]


def _is_used(masked: str, start: int, end: int, name: str) -> bool:
    return bool(_find_uses(masked, start, end, name))


def _has_parameter(head: str, name: str) -> bool:
    """Whether the head of a function or a lambda has a parameter of this name."""
    plain = re.sub(r"\b(?:decltype|sizeof)\s*\([^()]*\)", "", head)
    return bool(re.search(rf"[\w>&*)]\s*\b{name}\s*(?:[,)=]|\[|$)", plain[plain.find("(") + 1 :]))


def _captures(captures: str, name: str) -> bool:
    """Whether a lambda captures something under this name."""
    separators = [-1, *find_at_top_level(captures, 0, len(captures), ","), len(captures)]
    return any(re.match(rf"\s*&?\s*{name}\b", captures[a + 1 : b]) for a, b in pairwise(separators))


def _lambda_body(masked: str, at: int) -> int:
    """The brace that opens the body of a lambda whose captures end at `at`; -1 if there is none."""
    brace, parameters = masked.find("{", at), masked.find("(", at)
    return masked.find("{", matching_bracket(masked, parameters)) if 0 <= parameters < brace else brace


def _enclosing_function(masked: str, position: int) -> int:
    """The brace that opens the outermost function around a position; -1 if there is none."""
    functions = [
        at for at, head in enclosing_braces(masked, position) if "(" in head and not _TYPE_HEAD.search(head)
    ]
    return functions[-1] if functions else -1


def _enclosing_namespace(masked: str, position: int) -> tuple[str, int]:
    """The name of the innermost namespace around a position, and its end; "" at file scope."""
    for at, head in enclosing_braces(masked, position):
        if name := re.search(r"\bnamespace\s+(?:\w+\s*::\s*)*(\w+)\s*$", head):
            return name[1], end_of_block(masked, at + 1)
    return "", len(masked)


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
