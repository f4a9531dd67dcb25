"""The asm statements of a source: their text, operands and clobbers; and the macros that they are written with."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

from .lexer import DEFINE, find_at_top_level, identifiers, mask, matching_bracket, split_commas

__all__ = ["AsmOperand", "AsmStatement", "asm_statements", "expand_asm_macros"]

_ASM = re.compile(r"\b(?:asm|__asm__|__asm)\b(?:\s*(?:volatile|__volatile__|__volatile)\b)?[\s\\]*\(")
_WORD_OR_LITERAL = re.compile(
    r"""R"(?P<fence>[^\s()\\]{0,16})\((?P<raw>.*?)\)(?P=fence)"|"(?P<text>(?:\\.|[^"\\])*)"|(?P<word>[A-Za-z_]\w*)"""
    r"""|//[^\n]*|/\*.*?\*/|(?P<mark>\#\#?)|(?P<other>[^\s\\])|\\\r?\n|\s+|\\""",
    re.DOTALL,
)
_ESCAPE = re.compile(r"\\(?:\r?\n|x[0-9a-fA-F]+|[0-7]{1,3}|.)", re.DOTALL)
_ESCAPES = {"n": "\n", "t": "\t", "r": "\r", "v": "\v", "f": "\f", "a": "", "b": ""}
_MAX_DEPTH = 16  # of macros in macros


@dataclass(frozen=True)
class AsmOperand:
    """An operand: its symbolic name or "", its constraint without quotes, such as "+r", and its C++ expression."""

    name: str
    constraint: str
    expression: str


@dataclass(frozen=True)
class AsmStatement:
    """An asm statement.

    Attributes
    ----------
    start, end : int
        Its position, up to its closing bracket.
    text : str
        Its PTX, without C++'s escapes.
    outputs, inputs : tuple of AsmOperand
    hidden : str
        An identifier in its text whose macro is not known, or "".
    """

    start: int
    end: int
    text: str
    outputs: tuple[AsmOperand, ...]
    inputs: tuple[AsmOperand, ...]
    hidden: str


@dataclass(frozen=True)
class _Macro:
    name: str
    parameters: tuple[str, ...] | None  # None: it has no brackets
    body: str


def asm_statements(source: str) -> Iterator[AsmStatement]:
    """The asm statements of a source, the last one first."""
    masked = mask(source)
    found = list(_ASM.finditer(masked))
    macros = _macros(source) if found else {}
    for match in reversed(found):
        opening = match.end() - 1
        end = matching_bracket(masked, opening)
        marks = [opening, *find_at_top_level(masked, opening + 1, end, ":"), end]
        parts = [(start + 1, stop) for start, stop in pairwise(marks)]
        text, hidden = _text(_expanded(source[slice(*parts[0])], macros, 0))
        outputs, inputs = [tuple(_operands(source, masked, *part)) for part in [*parts[1:3], (0, 0), (0, 0)][:2]]
        yield AsmStatement(match.start(), end, text, outputs, inputs, hidden)


def _operands(source: str, masked: str, start: int, end: int) -> Iterator[AsmOperand]:
    """The operands of [sum] "=r"(one), "r"(another). nvcc also takes them without the comma."""
    at = start
    while (opening := masked.find("(", at, end)) >= 0:
        closing = matching_bracket(masked, opening)
        name = re.search(r"\[\s*(\w+)\s*\]", masked[at:opening])
        constraint = "".join(re.findall(r'"([^"]*)"', source[at:opening]))
        expression = source[opening : closing + 1].replace("\\\n", " ").replace("\n", " ")
        yield AsmOperand(name[1] if name else "", constraint, expression)
        at = closing + 1


def _text(template: str) -> tuple[str, str]:
    """The text of adjacent string literals, and the first identifier among them."""
    pieces, hidden = [], ""
    for match in _WORD_OR_LITERAL.finditer(template):
        if match["raw"] is not None:
            pieces.append(match["raw"])
        elif match["text"] is not None:
            pieces.append(_ESCAPE.sub(_unescape, match["text"]))
        elif match["word"] or match["mark"]:
            hidden = hidden or match[0]
    return "".join(pieces), hidden


def _unescape(match: re.Match[str]) -> str:
    escape = match[0][1:]
    if escape[0] in "\r\n":
        return ""
    if escape[0] == "x" or escape.isdigit():
        return chr(int(escape.lstrip("x"), 16 if escape[0] == "x" else 8))
    return _ESCAPES.get(escape, escape)


# ---- macros ----


def expand_asm_macros(source: str) -> str:
    """Expands the calls of those macros whose asm statements depend on an argument: "mma.sync." shape ".row.col".
    Line ends stay; other macros are the compiler's."""
    macros = _macros(source)
    wanted = {name for name, macro in macros.items() if _hides_text(macro, macros)}
    while new := {
        name
        for name, macro in macros.items()
        if name not in wanted and macro.parameters is not None and identifiers(macro.body) & wanted
    }:
        wanted |= new
    return _expand_calls(source, macros, wanted) if wanted else source


def _hides_text(macro: _Macro, macros: dict[str, _Macro]) -> bool:
    masked = mask(macro.body)
    for match in _ASM.finditer(masked):
        opening = match.end() - 1
        end = matching_bracket(masked, opening)
        stop = (find_at_top_level(masked, opening + 1, end, ":") or [end])[0]
        template = _expanded(macro.body[opening + 1 : stop], macros, 0)
        if identifiers(mask(template)) & set(macro.parameters or ()):
            return True
    return False


def _macros(source: str) -> dict[str, _Macro]:
    """The macros of a source by name. A later definition replaces an earlier one."""
    found = {}
    for match in DEFINE.finditer(mask(source)):
        listed = match["parameters"]
        parameters = tuple(split_commas(listed.replace("\\\n", " "))) if listed is not None else None
        body = re.sub(r"\\\r?\n", " ", source[slice(*match.span("body"))])
        found[match["name"]] = _Macro(match["name"], parameters, body)
    return found


def _expand_calls(source: str, macros: dict[str, _Macro], wanted: set[str]) -> str:
    """The source with the calls of macros expanded that are wanted or get a wanted one as an argument, outside of
    directives. Macros without arguments are left to the compiler."""
    names = {name: macro for name, macro in macros.items() if macro.parameters is not None}
    masked = mask(source)
    directives = [(d.start(), d.end()) for d in re.finditer(r"^[ \t]*#(?:\\\r?\n|[^\n])*", masked, re.MULTILINE)]
    calls = re.compile(rf"\b(?:{'|'.join(map(re.escape, names))})\b(?=\s*\()")
    end = len(source)
    for match in reversed(list(calls.finditer(masked))):
        if match.start() >= end or any(start <= match.start() < stop for start, stop in directives):
            continue
        closing = matching_bracket(masked, masked.index("(", match.end()))
        call = source[match.start() : closing + 1]
        if match[0] not in wanted and not identifiers(masked[match.end() : closing]) & wanted:
            continue
        text = _expanded(call, names, 0).replace("\n", " ") + "\n" * call.count("\n")
        source = source[: match.start()] + text + source[closing + 1 :]
    return source


def _expanded(text: str, macros: dict[str, _Macro], depth: int, within: frozenset[str] = frozenset()) -> str:
    """The text with these macros expanded, as the preprocessor does it."""
    if depth > _MAX_DEPTH or not macros:
        return text
    masked, pieces, at = mask(text), [], 0
    for match in re.finditer(r"\b[A-Za-z_]\w*", masked):
        macro = macros.get(match[0])
        if match.start() < at or macro is None or macro.name in within:
            continue
        stop, arguments = match.end(), ()
        if macro.parameters is not None:
            opening = re.compile(r"\s*\(").match(masked, match.end())
            if not opening:
                continue
            closing = matching_bracket(masked, opening.end() - 1)
            arguments = _arguments(text, masked, opening.end(), closing)
            stop = closing + 1
        body = _substituted(macro, arguments, macros, depth, within)
        pieces += [text[at : match.start()], _expanded(body, macros, depth + 1, within | {macro.name})]
        at = stop
    return "".join([*pieces, text[at:]])


def _arguments(text: str, masked: str, start: int, end: int) -> tuple[str, ...]:
    commas = [start - 1, *find_at_top_level(masked, start, end, ","), end]
    return tuple(text[a + 1 : b].strip() for a, b in pairwise(commas))


def _substituted(
    macro: _Macro, arguments: tuple[str, ...], macros: dict[str, _Macro], depth: int, within: frozenset[str]
) -> str:
    """A macro's body with the arguments in it; # makes a literal, ## joins."""
    names = [name.rstrip(".") or "__VA_ARGS__" for name in macro.parameters or ()]
    values = dict(zip(names, arguments, strict=False))
    if names and (macro.parameters or ("",))[-1].endswith("..."):
        values[names[-1]] = ", ".join(arguments[len(names) - 1 :])
    pieces: list[str] = []
    join = quote = False
    for match in _WORD_OR_LITERAL.finditer(macro.body):
        if match["mark"]:
            quote, join = match[0] == "#", match[0] == "##"
            while join and pieces and pieces[-1].isspace():
                pieces.pop()
            continue
        if (join or quote) and match[0].isspace():
            continue
        value = values.get(match["word"] or "")
        after = macro.body[match.end() :].lstrip().startswith("##")
        if value is None:
            pieces.append(match[0])
        elif quote:
            pieces.append('"' + " ".join(value.split()).replace("\\", "\\\\").replace('"', '\\"') + '"')
        else:
            pieces.append(value if join or after else _expanded(value, macros, depth + 1, within))
        join = quote = False
    return "".join(pieces)
