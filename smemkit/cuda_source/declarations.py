"""The outlines of a source's declarations: where they begin and end, their names, their kinds."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

from smemkit.cuda_source.lexer import DEFINE, identifiers, matching_angle_bracket, matching_bracket

__all__ = [
    "DEVICE_WORDS",
    "FUNCTION_NAME",
    "SPECIFIERS",
    "TYPE_WORDS",
    "Declaration",
    "collect_macros",
    "declarations_in",
    "end_of_declaration",
    "is_specifier",
    "with_macro_identifiers",
]

DEVICE_WORDS = {f"__{word}__" for word in ("global", "device", "constant", "shared", "managed")}
_PARENTHESES = re.compile(r"\((?:[^()]|\((?:[^()]|\([^()]*\))*\))*\)")
# attributes whose parentheses are not a function's parameters
_ATTRIBUTE = re.compile(
    r"\b(?:__\w+_bounds__|__cluster_dims__|__maxnreg__|__align__|alignas|__attribute__)\s*(?=\()"
)
_CONSTANT = re.compile(
    r"\s*(?:using|namespace|static_assert)\b|.*\btypedef\b|[^=]*\b(?:const|constexpr)\b", re.DOTALL
)
FUNCTION_NAME = re.compile(r"([A-Za-z_]\w*)\s*\(")
_NEXT_CHARACTER = re.compile(r"\s*(\S?)")
_BETWEEN_DECLARATIONS = re.compile(r"(?:[\s;}]+|(?:public|protected|private)\s*:(?!:))*")
TYPE_WORDS = frozenset(
    re.findall(
        r"\w+",
        "void bool char short int long float double signed unsigned const constexpr volatile static inline extern"
        " struct class union enum typedef using typename template auto mutable",
    )
)
_TYPE_KEYWORDS = {"typedef", "using", "struct", "class", "union", "enum"}
_FUNCTION_ATTRIBUTES = {f"__{word}__" for word in ("launch_bounds", "cluster_dims", "maxnreg")}
_ATTRIBUTES = {f"__{word}__" for word in ("host", "forceinline", "noinline", "attribute", "align")}
_ATTRIBUTES |= _FUNCTION_ATTRIBUTES | {"noinline", "always_inline", "unused", "alignas"}
SPECIFIERS = DEVICE_WORDS | _ATTRIBUTES | TYPE_WORDS - _TYPE_KEYWORDS
# a macro with one of these declares something, or begins to
_MARKS = DEVICE_WORDS | _FUNCTION_ATTRIBUTES | {"template", "constexpr", "consteval"}


@dataclass(eq=False)
class Declaration:
    """A declaration in a namespace or a type. In `code`, comments, strings, directives and a type's `host_members`
    are blank."""

    start: int
    end: int
    code: str
    head: str  # up to its body, without attributes and template parameters
    template: str
    scope: str  # "outer::inner::"
    kind: str  # "function", "type", "call" of a macro, "other"
    host_members: tuple[tuple[int, int, str], ...] = ()  # start, end and name
    macro_words: frozenset[str] = frozenset()  # the identifiers of a macro call, with those of its macros

    @cached_property
    def words(self) -> frozenset[str]:
        return identifiers(self.code)

    @cached_property
    def names(self) -> frozenset[str]:
        """The names that it declares, and perhaps words of its type, which is harmless."""
        if self._is_type_by_macro:
            return self.macro_words - TYPE_WORDS
        head, tail = self.head, self.code.rpartition("}")[2]
        if self.kind == "function":
            return frozenset(FUNCTION_NAME.findall(head)[:1])
        if self.kind == "type" and re.search(r"\benum\b(?!\s+(?:class|struct)\b)", head):
            return self.words - TYPE_WORDS
        if self.kind == "type":
            head = re.sub(r":(?!:).*", "", head, flags=re.DOTALL)  # without base classes
        elif not re.search(r"^\s*using\b|\btypedef\b", head):
            head, tail = re.split(r"[={(]", head)[0], ""
        return identifiers(f"{head} {tail}") - TYPE_WORDS

    @property
    def may_be_used_by_device(self) -> bool:
        """Whether device code could use it: a type, a constant, a constexpr function."""
        if self.kind == "function":
            return bool(re.search(r"\bconst(?:expr|eval)\b", self.head))
        return self._is_type_by_macro or self.kind == "type" or bool(_CONSTANT.match(self.head))

    @property
    def _is_type_by_macro(self) -> bool:
        """Whether a macro call may declare a type: any of its identifiers may be the name."""
        return bool(self.macro_words & _TYPE_KEYWORDS)


def declarations_in(code: str, at: int, end: int, scope: str, macros) -> Iterator[Declaration]:
    """The declarations in a range, which may be a type's body, and in the namespaces there."""
    while at < end:
        at = _BETWEEN_DECLARATIONS.match(code, at, end).end()
        if at == end:
            return
        start, stop = at, _end_of_macro_call(code, at, macros)
        if stop:
            at = min(stop, end)
            call = code[start:at]
            words = frozenset(with_macro_identifiers(identifiers(call), macros))
            yield Declaration(start, at, call, call, "", scope, "call", macro_words=words)
            continue
        at, brace, kind = end_of_declaration(code, start, end, macros)
        if kind == "block":
            name = re.match(r"\s*(?:inline\s+)?namespace\s+([\w:]+)", code[start:brace])
            yield from declarations_in(code, brace + 1, at - 1, scope + (f"{name[1]}::" if name else ""), macros)
        else:
            template, head = split_template(code[start : at if brace is None else brace])
            template = template or _template_by_macro(head, macros)
            head = _without_macro_arguments(head, macros)
            yield Declaration(start, at, code[start:at], head, template, scope, kind)


def _without_macro_arguments(head: str, macros) -> str:
    """A declaration's head without the arguments of macros that are not its name: BOUNDS(256) void f(int *x)."""
    match = FUNCTION_NAME.search(head)
    while match and macros.get(match[1], (False,))[0]:
        end = matching_bracket(head, match.end() - 1) + 1
        if not re.match(r"\s*[\w:]", head[end:]) and not is_specifier(head[match.start() : end], macros):
            break
        marks = " ".join(sorted(identifiers(head[match.end() : end]) & DEVICE_WORDS))
        head = f"{head[: match.end() - 1]} {marks} {head[end:]}"
        match = FUNCTION_NAME.search(head, match.end() - 1)
    return head


def _template_by_macro(head: str, macros) -> str:
    """The macro at the start of a declaration's head that has its template parameters; "" if there is none."""
    first = re.match(r"\s*([A-Za-z_]\w*)\s*(\(?)", head)
    if not first or "template" not in _reached_outside(frozenset({first[1]}), macros):
        return ""
    stop = matching_bracket(head, first.end() - 1) + 1 if first[2] else first.end()
    return " ".join(head[:stop].split())


def _end_of_macro_call(code: str, at: int, macros) -> int:
    """The end of a declaration that is a macro call, INSTANTIATE(float) or KERNEL(scale)(float *x) { … }; 0 if
    there is none."""
    match = FUNCTION_NAME.match(code, at)
    if not match or not macros.get(match[1], (False,))[0]:
        return 0
    end = matching_bracket(code, match.end() - 1) + 1
    after = _NEXT_CHARACTER.match(code, end)[1]
    call = code[match.start() : end]
    if re.match(r"\w", after) and is_specifier(call, macros):  # KERNEL(256) void f(int *x) { … }
        return 0
    if after == "(":
        end = matching_bracket(code, code.index("(", end)) + 1
        if _NEXT_CHARACTER.match(code, end)[1] == "{":
            end = matching_bracket(code, code.index("{", end)) + 1
        return end
    words = with_macro_identifiers(identifiers(call), macros)
    if after == "{" and "__global__" in words:  # KERNEL(scale) { … }, whose parameters are the macro's
        return matching_bracket(code, code.index("{", end)) + 1
    return 0 if after in ("{", "=", ",") and after else end


def end_of_declaration(code: str, start: int, end: int, macros) -> tuple[int, int | None, str]:
    """The end of a declaration, its first brace, and its kind: "block" for namespaces and extern "C"."""
    at, brace, kind = start, None, ""
    while at < end:
        character = code[at]
        if character in "([":
            at = matching_bracket(code, at)
        elif character == ";":
            at += 1
            break
        elif character == "{":
            if brace is None:
                brace, kind = at, _declaration_kind(code[start:at], macros)
            at = matching_bracket(code, at)
            if kind == "block" or (
                kind == "function" and _NEXT_CHARACTER.match(code, at + 1, end)[1] not in ("{", ",")
            ):
                at += 1
                break
        at += 1
    return min(at, end), brace, kind or _declaration_kind(code[start:at], macros, semicolon=True)


def _declaration_kind(head: str, macros, semicolon: bool = False) -> str:
    """The kind of a declaration, from the text before its first brace or its semicolon."""
    head = _without_macro_arguments(split_template(head)[1], macros)
    if not semicolon and re.fullmatch(r"\s*(?:extern|(?:inline\s+)?namespace\b[\w\s:]*)?\s*", head):
        return "block"
    if re.search(r"^\s*(?:using|namespace)\b|\btypedef\b", head):
        return "other"
    outside = re.sub(r"\(.*\)", "()", head, flags=re.DOTALL)
    if "=" in outside:
        return "other"
    if "(" in head:
        return "function"
    return "type" if re.search(r"\b(?:class|struct|union|enum)\b", head) else "other"


def split_template(head: str) -> tuple[str, str]:
    """The template parameters of a declaration's head, and the head without those and without attributes."""
    template = ""
    head = re.sub(r"\boperator\s*(?:\(\s*\)|[^\w\s(]+)", "operator_", head)
    while match := re.match(r"\s*template\s*<", head):
        stop = matching_angle_bracket(head, match.end() - 1) + 1
        template = template or " ".join(head[:stop].split())
        head = head[stop:]
    while match := _ATTRIBUTE.search(head):
        head = head[: match.start()] + " " + head[matching_bracket(head, match.end()) + 1 :]
    return template, re.sub(r"\[\[.*?\]\]", " ", head, flags=re.DOTALL)


# ---- macros ----


def collect_macros(directives) -> dict[str, tuple[bool, frozenset[str], frozenset[str]]]:
    """The macros: name → whether it has parameters, the words of its bodies, and the words and other characters
    outside of parentheses."""
    macros: dict[str, tuple[bool, frozenset[str], frozenset[str]]] = {}
    for d in directives:
        match = DEFINE.match(d.string, d.start())
        if match:
            _, words, outside = macros.get(match["name"], (False, frozenset(), frozenset()))
            body = match["body"]
            outside |= _outside_parentheses(body) - identifiers(match["parameters"] or "")
            macros[match["name"]] = match["parameters"] is not None, words | identifiers(body), outside
    return macros


def _outside_parentheses(text: str) -> frozenset[str]:
    """The words and the other characters of a text outside of parentheses."""
    return frozenset(re.findall(r"\w+|[^\w\s\\]", _PARENTHESES.sub("", text)))


def is_specifier(call: str, macros) -> bool:
    """Whether a macro's call is a part of a declaration and does not end it: it consists of specifiers, attributes
    and types, or marks what follows."""
    macro, _, arguments = call.partition("(")
    given = _outside_parentheses(arguments.rpartition(")")[0])
    own = _reached_outside(frozenset({macro.strip()}), macros)
    every = own | _reached_outside(given, macros)
    specifies = bool(own) and own <= SPECIFIERS
    return not every & set(";{}") and (specifies or bool(every & _MARKS))


def _reached_outside(words: frozenset[str], macros) -> frozenset[str]:
    """These words and characters with macros replaced by theirs, outside of parentheses."""
    seen: frozenset[str] = frozenset()
    while known := words & macros.keys():
        seen |= known
        words = words.union(*(macros[name][2] for name in known)) - seen
    return words


def with_macro_identifiers(words: frozenset[str], macros) -> set[str]:
    """`words`, and the identifiers that their macros mention."""
    reached, todo = set(words), list(words)
    while todo:
        for word in macros.get(todo.pop(), (False, ()))[1]:
            if word not in reached:
                reached.add(word)
                todo.append(word)
    return reached
