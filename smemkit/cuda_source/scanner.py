"""Extracts the device code of a whole CUDA file, such as tutorials show.

Such a file has `main`, host functions, `<<<…>>>` and host headers, which neither NVRTC nor the CPU device's
dialect accepts. This module keeps what the kernels need: functions and variables with __global__, __device__ and
similar words, and the types, constants and constexpr functions that these mention, directly or indirectly. A type
that has __device__ members loses its host members. The rest becomes blanks, so that line numbers stay. Only the
outlines of declarations are parsed; the compiler does the rest.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace

from smemkit.cuda_source.declarations import (
    DEVICE_WORDS,
    FUNCTION_NAME,
    SPECIFIERS,
    TYPE_WORDS,
    Declaration,
    collect_macros,
    declarations_in,
    end_of_declaration,
    is_specifier,
    with_macro_identifiers,
)
from smemkit.cuda_source.host_members import blank_host_members
from smemkit.cuda_source.includes import INCLUDE, Locations, line_marker, source_location
from smemkit.cuda_source.lexer import DIRECTIVE, blank, identifiers, mask, matching_bracket, split_commas
from smemkit.cuda_source.library_names import is_library_function
from smemkit.cuda_source.overloads import base_name, signature

__all__ = ["DeviceCode", "Function", "Variable", "have_macro", "scan"]

_NAMESPACES = re.compile(r"(?:\b[A-Za-z_]\w*\s*::\s*)*$")  # void inner::kernel(
_USING_NAMESPACE = re.compile(r"using\s+namespace\b")
_NOTHING: Mapping[int, str] = {}
_OPENING = re.compile(r"\s*\(")
_DECLARED_NAME = re.compile(r"([A-Za-z_]\w*)\s*(?:\[[^\]]*\]\s*)*$")


@dataclass(frozen=True)
class Function:
    """A __global__ function.

    Attributes
    ----------
    name : str
        With its namespaces: "outer::kernel"; if another kernel has this name, with the types of its parameters:
        "outer::kernel(float *, int)".
    declarations : tuple of str
        Its parameters: "const float *x".
    template : str
        "template <class T>", or "".
    location : tuple of int and str
        The line and file of its definition.
    """

    name: str
    declarations: tuple[str, ...]
    template: str
    location: tuple[int, str] = (0, "")

    @property
    def parameters(self) -> tuple[str, ...]:
        """The names of its parameters; "" for an unnamed one."""
        return tuple(map(_parameter_name, self.declarations))


@dataclass(frozen=True)
class Variable:
    """A device variable: its name, with its namespaces, and whether it is __constant__."""

    name: str
    constant: bool


@dataclass(frozen=True)
class Outline:
    """A declaration of the device code.

    Attributes
    ----------
    start, end : int
        Its positions in the scanned text.
    names, words : frozenset of str
        The names that it declares, and the identifiers that it mentions, by its macros too.
    kernel : str
        The kernel that it declares, or "".
    for_host : bool
        Whether it is a type or a function, perhaps a macro's, of which nothing is marked as device code.
    head_end : int
        Where its body begins, or its semicolon, if it has a cluster.
    cluster : frozenset of str or None
        The identifiers in its __cluster_dims__ and that word, by macros too; None if it has none.
    """

    start: int
    end: int
    names: frozenset[str]
    words: frozenset[str]
    kernel: str
    for_host: bool
    head_end: int
    cluster: frozenset[str] | None


@dataclass(frozen=True)
class DeviceCode:
    """The result of `scan`.

    Attributes
    ----------
    text : str
        The device code, at its original lines; host code is blank.
    functions : tuple of Function
        Its kernels.
    variables : tuple of Variable
    host : dict of str to str
        The host code that was left out: name → "kernel.cu:12"; a member is called "Lock::Lock".
    has_macro_kernels : bool
        Whether a macro call may define kernels that are not in `functions`.
    outlines : tuple of Outline
        Its declarations.
    includes : tuple of (int, str)
        The #include lines that are left: the position of each and its "<file>".
    """

    text: str
    functions: tuple[Function, ...]
    variables: tuple[Variable, ...]
    host: dict[str, str]
    has_macro_kernels: bool
    outlines: tuple[Outline, ...] = field(repr=False)
    _includes: tuple[tuple[int, int, str], ...] = field(repr=False)
    _definition_ends: tuple[tuple[int, str], ...] = field(repr=False)

    @property
    def includes(self) -> tuple[tuple[int, str], ...]:
        return tuple((start, name) for start, _, name in self._includes)

    def reaches(self, kernel: str, wanted: frozenset[str]) -> bool:
        """Whether a kernel mentions one of these identifiers, itself or by what it mentions."""
        declares: dict[str, list[Outline]] = {}
        for outline in self.outlines if any(outline.words & wanted for outline in self.outlines) else ():
            for name in outline.names:
                declares.setdefault(name, []).append(outline)
        todo = [outline for outline in self.outlines if outline.kernel == kernel]
        seen: set[str] = set()
        while todo and declares:
            words = todo.pop().words
            if words & wanted:
                return True
            todo += [outline for word in words - seen for outline in declares.get(word, ())]
            seen |= words
        return False

    def mentions(self, word: str) -> bool:
        """Whether a declaration other than `using namespace` mentions an identifier, itself or by its macros."""
        return any(
            word in outline.words and not _USING_NAMESPACE.match(self.text, outline.start)
            for outline in self.outlines
        )

    def assemble(self, keep: Callable[[str], bool | str], before: Mapping[int, str] = _NOTHING) -> str:
        """The text for a compiler.

        `keep` decides on the "<file>" of each #include line: True keeps it, "if available" keeps it if the
        compiler has the file. `before`: lines that go before the declarations that start at these positions. A
        #define of `have_macro(name)` follows each kernel and variable, because an #if may exclude it.
        """
        edits = [
            (end, end, f"\n#define {have_macro(name)}\n{line_marker(*source_location(self.text, end))}")
            for end, name in self._definition_ends
        ]
        for start, end, name in self._includes:
            line, answer = self.text[start:end], keep(name)
            if answer == "if available":
                number, file = source_location(self.text, start)
                line = f"#if __has_include({name})\n{line}\n#endif\n{line_marker(number + 1, file)[:-1]}"
            edits.append((start, end, line if answer else ""))
        for at, lines in before.items():
            marker = line_marker(*source_location(self.text, at))
            column = at - self.text.rfind("\n", 0, at) - 1
            edits.append((at, at, f"\n{lines}\n{marker}{' ' * column}"))
        text = self.text
        for start, end, new in sorted(edits, reverse=True):
            text = text[:start] + new + text[end:]
        return text


def have_macro(name: str) -> str:
    """The macro that is defined if a kernel or variable has been compiled."""
    return f"SMEMKIT_HAVE_{re.sub(r'[^A-Za-z0-9_]', '_', name)}"


def scan(
    text: str,
    wanted: str = "",
    without: frozenset[int] = frozenset(),
    host_functions: frozenset[str] = frozenset(),
) -> DeviceCode:
    """Extracts the device code of an expanded source, and what the identifiers in `wanted` need as well.

    `without`: the starts of declarations that are left out. `host_functions`: the names of those that are kept.

    Examples
    --------
    >>> code = scan("__global__ void k(float *x) { *x = 1; }\\nint main() { k<<<1, 1>>>(0); }")
    >>> code.functions[0].name, code.functions[0].parameters, list(code.host)
    ('k', ('x',), ['main'])
    >>> code.text.splitlines()[1].strip()
    ''
    """
    code = mask(text)
    directives = list(DIRECTIVE.finditer(code))
    code = blank(code, [d.span() for d in directives])
    macros = collect_macros(directives)
    code = _drop_unbalanced_branches(code, directives)
    declarations = list(declarations_in(code, 0, len(code), "", macros))
    blank_host_members(declarations, code, macros)
    locations = Locations(text)
    left_out = [(d.start, d.end) for d in declarations if d.start in without]
    declarations = [declaration for declaration in declarations if declaration.start not in without]
    kept = _needed_declarations(declarations, identifiers(wanted), host_functions, macros)
    host = _host_code(declarations, kept, locations)
    left_out += [(d.start, d.end) for d in declarations if d not in kept]
    declarations = [declaration for declaration in declarations if declaration in kept]
    left_out += [(start, end) for d in declarations for start, end, _ in d.host_members]
    kernels = _kernels(declarations, macros, locations)
    variables = {declaration: list(_variables(declaration)) for declaration in declarations}
    functions: dict[str, Function] = {}
    for declaration, function in kernels.items():
        if "{" in declaration.code or function.name not in functions:
            functions[function.name] = function
    text = blank(text, left_out, directives)
    found = [(d, INCLUDE.match(text, d.start())) for d in directives]
    has_macro_kernels = any(
        declaration.kind == "call" and "__global__" in with_macro_identifiers(declaration.words, macros)
        for declaration in declarations
    )
    return DeviceCode(
        text,
        tuple(functions.values()),
        tuple({variable.name: variable for some in variables.values() for variable in some}.values()),
        host,
        has_macro_kernels,
        tuple(_outline(declaration, kernels.get(declaration), macros) for declaration in declarations),
        tuple((d.start(), d.end(), match["file"]) for d, match in found if match),
        tuple(
            (declaration.end, function_or_variable.name)
            for declaration in declarations
            for function_or_variable in [*filter(None, [kernels.get(declaration)]), *variables[declaration]]
        ),
    )


def _host_code(declarations: list[Declaration], kept: set[Declaration], locations: Locations) -> dict[str, str]:
    """The host code that is left out of the source: name → "kernel.cu:12"."""
    host: dict[str, str] = {}
    for declaration in declarations:
        members = [(start, name) for start, _, name in declaration.host_members]
        if declaration not in kept:
            used = declaration.may_be_used_by_device
            members = [] if used else [(declaration.start, name) for name in declaration.names]
        for start, name in members:
            line, file = locations.at(start)
            host.setdefault(name, f"{file}:{line}")
    return host


def _outline(declaration: Declaration, function: Function | None, macros) -> Outline:
    words = frozenset(with_macro_identifiers(declaration.words, macros))
    kernel = function.name if function else ""
    for_host = declaration.kind != "other" and not words & DEVICE_WORDS
    length, cluster = 0, None
    if words & {"__cluster_dims__", "cluster_dims"}:
        brace = end_of_declaration(declaration.code, 0, len(declaration.code), macros)[1]
        length = len(declaration.code.rstrip(" \n;")) if brace is None else brace
        cluster = _cluster_words(declaration.code[:length], macros)
    start, end = declaration.start, declaration.end
    return Outline(start, end, declaration.names, words, kernel, for_host, start + length, cluster)


def _cluster_words(head: str, macros) -> frozenset[str] | None:
    """The identifiers in a declaration's __cluster_dims__ and in the macros around it; None if it has none."""
    found: set[str] = set()
    for match in re.finditer(r"\b[A-Za-z_]\w*", head):
        reached = with_macro_identifiers(frozenset({match[0]}), macros)
        opening = _OPENING.match(head, match.end())
        stop = matching_bracket(head, opening.end() - 1) if opening else match.end()
        words = reached | with_macro_identifiers(identifiers(head[match.end() : stop]), macros)
        if "__cluster_dims__" in reached or ("__attribute__" in reached and "cluster_dims" in words):
            found |= words
    return frozenset(found) or None


def _drop_unbalanced_branches(code: str, directives) -> str:
    """`code` without the braces of an #else branch if they are unbalanced: the #if branch has them too."""
    branches: list[list[int]] = []  # per open #if: the starts of its branches
    for d in directives:
        if d["name"].startswith("if"):
            branches.append([d.end()])
        elif branches and d["name"] in ("else", "elif", "endif"):
            start = branches[-1][-1]
            branch = code[start : d.start()]
            if len(branches[-1]) > 1 and branch.count("{") != branch.count("}"):
                code = code[:start] + re.sub(r"[{}]", " ", branch) + code[d.start() :]
            branches[-1].append(d.end())
            if d["name"] == "endif":
                branches.pop()
    return code


def _needed_declarations(
    declarations: list[Declaration], wanted: frozenset[str], host_functions: frozenset[str], macros
) -> set[Declaration]:
    """The device declarations, these host functions, and everything that they and the wanted identifiers need."""
    declares: dict[str, list[Declaration]] = {}
    for declaration in declarations:
        for name in declaration.names if declaration.may_be_used_by_device else ():
            declares.setdefault(name, []).append(declaration)
    own = {name.rstrip(":").rpartition("::")[2] for name in (declaration.scope for declaration in declarations)}
    kept = {
        declaration
        for declaration in declarations
        if with_macro_identifiers(identifiers(declaration.head), macros) & DEVICE_WORDS
    }
    kept |= {declaration for declaration in declarations if _is_device_using(declaration.head, own)}
    kept |= {
        declaration
        for declaration in declarations
        if declaration.kind == "function" and identifiers(declaration.head) & host_functions
    }
    todo = [wanted, *(declaration.words for declaration in kept)]
    while todo:
        for word in with_macro_identifiers(todo.pop(), macros):
            new = [declaration for declaration in declares.get(word, ()) if declaration not in kept]
            kept.update(new)
            todo += [declaration.words for declaration in new]
    return kept


def _is_device_using(head: str, own: set[str]) -> bool:
    """Whether it is `using namespace` with a namespace that device code knows, such as std, unlike a host
    library's."""
    match = re.match(r"\s*using\s+namespace\s+(?:::)?\s*(\w+)\s*(::)?", head)
    known = {"cooperative_groups", "nvcuda", "cuda", "cub", *own}
    return bool(match) and (match[1] in known or (match[1] == "std" and not match[2]))


# ---- kernels and variables ----


def _kernels(declarations: list[Declaration], macros, locations: Locations) -> dict[Declaration, Function]:
    """The kernels by their declarations; those that share a name, with each other or with a function of a library,
    are named with their parameters' types."""
    found = {d: _kernel_function(d, macros, locations.at(d.start)) for d in declarations}
    kernels = {declaration: function for declaration, function in found.items() if function}
    overloads: dict[str, set[str]] = {}
    for function in kernels.values():
        kind = "template" if function.template else _signature(function)
        libraries = {"a library's"} if is_library_function(function.name) else set()
        overloads.setdefault(function.name, libraries).add(kind)
    named = {
        declaration: replace(function, name=f"{function.name}({_signature(function)})")
        if len(overloads[function.name]) > 1 and not function.template
        else function
        for declaration, function in kernels.items()
    }
    defined = {function.name for declaration, function in named.items() if "{" in declaration.code}
    bases = {base_name(name) for name in defined}
    return {  # without those that are only declared, where a kernel of the same name is defined
        declaration: function
        for declaration, function in named.items()
        if function.name in defined or base_name(function.name) not in bases
    }


def _signature(function: Function) -> str:
    return signature(function.declarations, function.parameters)


def _kernel_function(declaration: Declaration, macros, at: tuple[int, str]) -> Function | None:
    name = FUNCTION_NAME.search(declaration.head)
    if (
        declaration.kind != "function"
        or not name
        or "__global__" not in with_macro_identifiers(identifiers(declaration.head), macros)
    ):
        return None
    listed = declaration.head[name.end() : matching_bracket(declaration.head, name.end() - 1)]
    declarations = tuple(" ".join(parameter.split()) for parameter in split_commas(listed))
    declarations = () if declarations == ("void",) else declarations
    scope = declaration.scope + _written_scope(declaration.head[: name.start()], macros)
    return Function(scope + name[1], declarations, declaration.template, at)


def _written_scope(before: str, macros) -> str:
    """The namespaces before a name: "a::b::" of `void ::a::b::`."""
    scope = ""
    for word in reversed(re.findall(r"\w+", _NAMESPACES.search(before)[0])):
        keyword = word in TYPE_WORDS or (word in SPECIFIERS and word.startswith("__"))
        if keyword or (word in macros and (not macros[word][1] or is_specifier(word, macros))):
            break
        scope = f"{word}::{scope}"
    return scope


def _variables(declaration: Declaration) -> Iterator[Variable]:
    words = identifiers(declaration.head)
    if (
        declaration.kind != "other"
        or declaration.template
        or words & {"__shared__", "extern"}
        or not words & DEVICE_WORDS
    ):
        return
    for declarator in split_commas(declaration.code.rstrip("; \n\t")):
        match = _DECLARED_NAME.search(re.split(r"[={]", declarator)[0])
        if match and match[1] not in TYPE_WORDS | DEVICE_WORDS:
            yield Variable(declaration.scope + match[1], "__constant__" in words)


def _parameter_name(declaration: str) -> str:
    pointer = re.search(r"\(\s*[*&]\s*(\w+)", declaration)  # to a function or an array
    declaration = declaration.partition("=")[0]
    match = pointer or _DECLARED_NAME.search(declaration)
    qualifiers = {"const", "volatile", "__restrict__", "__restrict", "__grid_constant__"}
    alone = len(identifiers(declaration) - qualifiers) < 2
    return "" if not match or alone or match[1] in TYPE_WORDS | qualifiers else match[1]
