"""The member functions of a type that are for the host: device code is compiled without them."""

from __future__ import annotations

import re
from collections.abc import Iterator

from smemkit.cuda_source.declarations import (
    DEVICE_WORDS,
    TYPE_WORDS,
    Declaration,
    declarations_in,
    end_of_declaration,
    with_macro_identifiers,
)
from smemkit.cuda_source.lexer import blank, identifiers, matching_angle_bracket, matching_bracket

__all__ = ["blank_host_members"]

_CLASS_HEAD = re.compile(r"\b(?:struct|class|union)\b(?P<rest>.*)", re.DOTALL)
_PURE_VIRTUAL = re.compile(r"\)[\w\s&]*=\s*0\s*;$")
_OPERATOR = re.compile(r"\boperator\s*(?P<which>\(\s*\)|[^(]+)")
_MEMBER_OF = re.compile(r"(?P<type>\w+)\s*::\s*(?P<name>~?\s*\w+)\s*\(|(?P<converts>\w+)\s*::\s*operator\b")
# parentheses that are not a function's: of decltype(x), and of pointers and references to functions and arrays
_NO_PARAMETERS = re.compile(r"\b(?:decltype|__typeof__|typeof|noexcept|explicit)\s*(?=\()")
_DECLARATOR = re.compile(r"\(\s*(?:[\w:]*::\s*)?[*&]")
_AFTER_PARAMETERS = re.compile(r"const\b|volatile\b|noexcept\b|override\b|final\b|throw\b|requires\b|->|[:&;=]|$")
# marks a host function, whatever calls it
_RUNTIME_API = re.compile(r"cuda[A-Z]\w*(?<!_t)")
_HOST_ONLY = re.compile(r"<<<|\b(?:cout|cerr)\s*<<|\bstd\s*::\s*(?:[io]f?stream|cin|cout|cerr)\b")


def blank_host_members(declarations: list[Declaration], code: str, macros) -> None:
    """Sets the `host_members` of types, and blanks them in their `code`."""
    defined: dict[bool, set[tuple[str, str]]] = {True: set(), False: set()}  # whether for the host → type and name
    for declaration in declarations:
        if declaration.kind == "function":
            defined[_is_host_function(declaration, macros)] |= _defined_members(declaration)
    for declaration in declarations:
        if declaration.kind == "type" or re.search(r"\btypedef\s+(?:struct|class|union)\b", declaration.head):
            declaration.host_members = tuple(_host_members(declaration, "", code, macros, defined))
        for start, end, _ in declaration.host_members:
            declaration.code = blank(declaration.code, [(start - declaration.start, end - declaration.start)])


def _host_members(outer: Declaration, scope: str, code: str, macros, defined) -> Iterator[tuple[int, int, str]]:
    """The host member functions of a type.

    If any member is marked for the device, these are the members that are not marked. Otherwise they are those
    that call the CUDA runtime, launch or print. With nvcc device code cannot call the others either, but they
    compile.
    """
    found = _CLASS_HEAD.search(outer.head)
    brace = end_of_declaration(code, outer.start, outer.end, macros)[1]
    if not found or brace is None or re.search(r"\benum\b", outer.head):
        return
    words = re.findall(r"\w+", re.sub(r"\bfinal\b|<.*|:(?!:).*", "", found["rest"], flags=re.DOTALL))
    own = words[-1] if words else ""
    members = list(declarations_in(code, brace + 1, matching_bracket(code, brace), "", macros))
    has_device = any(with_macro_identifiers(identifiers(member.head), macros) & DEVICE_WORDS for member in members)
    for member in members:
        if member.kind == "type":
            yield from _host_members(member, f"{scope}{own}::", code, macros, defined)
            continue
        name = _member_function_name(member, own)
        if not name or name in macros or not _is_host_function(member, macros):
            continue
        friend = re.search(r"\bfriend\b", member.head)
        key = "" if friend else own, name
        elsewhere = "{" not in member.code
        if elsewhere and key in defined[False]:
            continue
        calls = _HOST_ONLY.search(member.code) or any(
            map(_RUNTIME_API.fullmatch, with_macro_identifiers(member.words, macros))
        )
        if has_device or calls or (elsewhere and key in defined[True]):
            yield member.start, member.end, name if friend else f"{scope}{own}::{name}"


def _is_host_function(function: Declaration, macros) -> bool:
    """Whether nothing marks a function as device code."""
    words = with_macro_identifiers(identifiers(function.head), macros)
    return not words & (DEVICE_WORDS | {"constexpr", "consteval"})


def _defined_members(function: Declaration) -> set[tuple[str, str]]:
    """The type and the name of a function outside of types: "Lock" and "~Lock"; the type is "" if it is not a
    member."""
    member = _MEMBER_OF.search(_strip_template_arguments(function.head))
    own = (member["type"] or member["converts"]) if member else ""
    name = _operator_name(function) or (re.sub(r"\s", "", member["name"]) if member else "")
    return {(own, each) for each in ([name] if name else function.names)}


def _member_function_name(member: Declaration, own: str) -> str:
    """The name of a member function of a type, unless it is defaulted or deleted; otherwise ""."""
    if member.kind != "function" and not (member.kind == "other" and _PURE_VIRTUAL.search(member.head)):
        return ""
    head = _strip_template_arguments(member.head)
    while other := _NO_PARAMETERS.search(head):
        head = head[: other.end()].rstrip() + " " + head[matching_bracket(head, other.end()) + 1 :]
    found = re.search(r"(?P<name>~?\s*[A-Za-z_]\w*)\s*\(", head)
    if _operator_name(member) or not found:
        return _operator_name(member)
    before, after = head[: found.start()], head[matching_bracket(head, found.end() - 1) + 1 :].lstrip()
    name = re.sub(r"\s", "", found["name"])
    if not before.strip() and name.lstrip("~") != own:  # a macro's call
        return ""
    is_function = not re.search(r"(?<!:):(?!:)|[=\[(]", before) and _AFTER_PARAMETERS.match(after)
    return name if is_function and name not in TYPE_WORDS and not _DECLARATOR.match(head, found.end() - 1) else ""


def _operator_name(function: Declaration) -> str:
    """ "operator=", "operator bool"; "" for other functions."""
    found = re.search(r"\boperator", function.head) and _OPERATOR.search(function.code)
    if not found:
        return ""
    which = " ".join(found["which"].split())
    return f"operator{' ' * which[0].isalpha()}{which}"


def _strip_template_arguments(head: str) -> str:
    """A declaration's head without template arguments."""
    while found := re.search(r"(?<=\w)\s*<", head):
        head = head[: found.start()] + " " + head[matching_angle_bracket(head, found.end() - 1) + 1 :]
    return head
