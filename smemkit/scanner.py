"""Extracts the device code of a whole CUDA file, such as tutorials show.

Such a file has `main`, host functions, `<<<…>>>` and host headers, which neither NVRTC nor the CPU device's
dialect accepts. This module keeps what the kernels need: functions and variables with __global__, __device__ and
similar words, and the types, constants and constexpr functions that these mention, directly or indirectly. A type
that has __device__ members loses its host members. The rest becomes blanks, so that line numbers stay. Only the
outlines of declarations are parsed here; the compiler does the rest.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

from smemkit.dialect import mask

__all__ = ["DeviceCode", "Function", "Variable", "expand_includes", "have_macro", "line_marker", "scan"]

_IDENTIFIER = re.compile(r"\b[A-Za-z_]\w*")
_DEVICE_WORDS = {f"__{word}__" for word in ("global", "device", "constant", "shared", "managed")}
_DIRECTIVE = re.compile(r"^[ \t]*#[ \t]*(?P<name>\w*)(?P<rest>(?:\\\r?\n|[^\n])*)", re.MULTILINE)
_INCLUDE = re.compile(r"""[ \t]*#[ \t]*include[ \t]*(?P<file><[^>\n]+>|"[^"\n]+")""")
_DEFINE = re.compile(r"\s+(?P<name>\w+)(?P<parameters>\([^)]*\))?(?P<body>.*)", re.DOTALL)
_LINE_MARKER = re.compile(r'^#line (\d+) "((?:[^"\\]|\\.)*)"$', re.MULTILINE)
# attributes whose parentheses are not a function's parameters
_ATTRIBUTE = re.compile(
    r"\b(?:__\w+_bounds__|__cluster_dims__|__maxnreg__|__align__|alignas|__attribute__)\s*(?=\()"
)
_CONSTANT = re.compile(r"\s*(?:typedef|using|namespace|static_assert)\b|[^=]*\b(?:const|constexpr)\b")
_FUNCTION_NAME = re.compile(r"([A-Za-z_]\w*)\s*\(")
_DECLARED_NAME = re.compile(r"([A-Za-z_]\w*)\s*(?:\[[^\]]*\]\s*)*$")
_ACCESS_LABEL = re.compile(r"(?:public|protected|private)\s*:(?!:)")
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
_TYPE_WORDS = frozenset(
    re.findall(
        r"\w+",
        "void bool char short int long float double signed unsigned const constexpr volatile static inline extern"
        " struct class union enum typedef using typename template auto mutable",
    )
)
_CLOSING = {"(": ")", "[": "]", "{": "}"}


@dataclass(frozen=True)
class Function:
    """A __global__ function.

    Attributes
    ----------
    name : str
        With its namespaces: "outer::kernel".
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
    """

    text: str
    functions: tuple[Function, ...]
    variables: tuple[Variable, ...]
    host: dict[str, str]
    has_macro_kernels: bool
    _includes: tuple[tuple[int, int, str], ...] = field(repr=False)
    _definition_ends: tuple[tuple[int, str], ...] = field(repr=False)

    def mentions(self, word: str) -> bool:
        """Whether it uses an identifier, other than in `using namespace`."""
        return bool(re.search(rf"\b{word}\b", re.sub(r"using\s+namespace\s+\w+", "", mask(self.text))))

    def assemble(self, keep: Callable[[str], bool | str]) -> str:
        """The text for a compiler.

        `keep` decides on the "<file>" of each #include line: True keeps it, "if available" keeps it if the
        compiler has the file. A #define of `have_macro(name)` follows each kernel and variable, because an #if may
        exclude it.
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
        text = self.text
        for start, end, new in sorted(edits, reverse=True):
            text = text[:start] + new + text[end:]
        return text


def have_macro(name: str) -> str:
    """The macro that is defined if a kernel or variable has been compiled."""
    return f"SMEMKIT_HAVE_{re.sub(r'[^A-Za-z0-9_]', '_', name)}"


# ---- the user's own headers, and source locations ---------------------------------------------------------------


def expand_includes(
    text: str, filename: str, home: Path | None, folders: list[Path], sources: dict[str, str], outer: tuple = ()
) -> str:
    """`text` with the user's own headers instead of their #include lines, between #line markers.

    Parameters
    ----------
    text, filename : str
        A source, and its name in messages.
    home : Path, optional
        Its folder, which is searched for "quoted" headers.
    folders : list of Path
        The folders that are searched for all headers.
    sources : dict
        Receives the files that were read: filename → text.
    outer : tuple of str
        The files that include this one.
    """
    sources[filename] = text
    pieces, done = [line_marker(1, filename)], 0
    for directive in _DIRECTIVE.finditer(mask(text)):
        match = _INCLUDE.match(text, directive.start())
        found = match and _find_header(match["file"], home, folders)
        if not found:
            continue
        pieces.append(text[done : match.start()])
        done = directive.end()
        name = str(found)
        content = sources.get(name) or found.read_text(encoding="utf-8-sig", errors="replace")
        if name in (filename, *outer) or (name in sources and re.search(r"#\s*pragma\s+once\b", content)):
            continue
        pieces.append(expand_includes(content, name, found.parent, folders, sources, (*outer, filename)))
        pieces.append("\n" + line_marker(text.count("\n", 0, done) + 1, filename))
    return "".join([*pieces, text[done:]])


def _find_header(quoted: str, home: Path | None, folders: list[Path]) -> Path | None:
    places = [home, *folders] if home and quoted[0] == '"' else folders
    return next((folder / quoted[1:-1] for folder in places if (folder / quoted[1:-1]).is_file()), None)


def line_marker(line: int, filename: str) -> str:
    escaped = filename.replace("\\", "\\\\").replace('"', '\\"')
    return f'#line {line} "{escaped}"\n'


def source_location(text: str, at: int) -> tuple[int, str]:
    """The line and the file of a position in expanded text."""
    markers = list(_LINE_MARKER.finditer(text, 0, at))
    if not markers:
        return text.count("\n", 0, at) + 1, ""
    line = int(markers[-1][1]) + text.count("\n", markers[-1].end() + 1, at)
    return line, re.sub(r"\\(.)", r"\1", markers[-1][2])


# ---- declarations -----------------------------------------------------------------------------------------------


@dataclass(eq=False)
class _Declaration:
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

    @cached_property
    def words(self) -> frozenset[str]:
        return _identifiers(self.code)

    @cached_property
    def names(self) -> frozenset[str]:
        """The names that it declares, and perhaps words of its type, which is harmless."""
        head, tail = self.head, self.code.rpartition("}")[2]
        if self.kind == "function":
            return frozenset(_FUNCTION_NAME.findall(head)[:1])
        if self.kind == "type" and re.search(r"\benum\b", head):
            return self.words - _TYPE_WORDS
        if self.kind == "type":
            head = re.sub(r":(?!:).*", "", head, flags=re.DOTALL)  # without base classes
        elif not re.match(r"\s*(?:typedef|using)\b", head):
            head, tail = re.split(r"[={(]", head)[0], ""
        return _identifiers(f"{head} {tail}") - _TYPE_WORDS

    @property
    def may_be_used_by_device(self) -> bool:
        """Whether device code could use it: a type, a constant, a constexpr function."""
        if self.kind == "function":
            return bool(re.search(r"\bconst(?:expr|eval)\b", self.head))
        return self.kind == "type" or bool(_CONSTANT.match(self.head))


def scan(text: str, wanted: str = "") -> DeviceCode:
    """Extracts the device code of an expanded source, and what the identifiers in `wanted` need as well.

    Examples
    --------
    >>> code = scan("__global__ void k(float *x) { *x = 1; }\\nint main() { k<<<1, 1>>>(0); }")
    >>> code.functions[0].name, code.functions[0].parameters, list(code.host)
    ('k', ('x',), ['main'])
    >>> code.text.splitlines()[1].strip()
    ''
    """
    code = mask(text)
    directives = list(_DIRECTIVE.finditer(code))
    for found in directives:
        code = _blank(code, found.start(), found.end())
    macros = _collect_macros(directives)
    code = _drop_unbalanced_branches(code, directives)
    declarations = list(_declarations(code, 0, len(code), "", macros))
    _blank_host_members(declarations, code, macros)
    kept = _needed_declarations(declarations, _identifiers(wanted), macros)
    host: dict[str, str] = {}
    functions: dict[str, Function] = {}
    variables: dict[str, Variable] = {}
    ends = []
    for declaration in declarations:
        if declaration not in kept:
            line, file = source_location(text, declaration.start)
            host |= {
                name: f"{file}:{line}"
                for name in declaration.names
                if not declaration.may_be_used_by_device and name not in host
            }
            text = _blank(text, declaration.start, declaration.end, directives)
            continue
        for start, end, name in declaration.host_members:
            line, file = source_location(text, start)
            host.setdefault(name, f"{file}:{line}")
            text = _blank(text, start, end, directives)
        function = _kernel_function(declaration, macros, source_location(text, declaration.start))
        if function and ("{" in declaration.code or function.name not in functions):
            functions[function.name] = function
        new = {variable.name: variable for variable in _variables(declaration)}
        variables |= new
        ends += [(declaration.end, name) for name in ([function.name] if function else []) + list(new)]
    found = [(d, _INCLUDE.match(text, d.start())) for d in directives]
    includes = tuple((d.start(), d.end(), match["file"]) for d, match in found if match)
    has_macro_kernels = any(declaration.kind == "call" for declaration in kept)
    return DeviceCode(
        text, tuple(functions.values()), tuple(variables.values()), host, has_macro_kernels, includes, tuple(ends)
    )


def _blank(text: str, start: int, end: int, directives=()) -> str:
    """`text` with blanks in a range; directives stay, so that each #if keeps its #endif."""
    pieces, at = [text[:start]], start
    for d in directives:
        if start <= d.start() < end:
            pieces += [re.sub(r"[^\n]", " ", text[at : d.start()]), text[d.start() : d.end()]]
            at = d.end()
    return "".join([*pieces, re.sub(r"[^\n]", " ", text[at:end]), text[end:]])


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


def _collect_macros(directives) -> dict[str, tuple[bool, frozenset[str]]]:
    """The macros: name → whether it has parameters, and the words of its bodies."""
    macros: dict[str, tuple[bool, frozenset[str]]] = {}
    for d in directives:
        match = d["name"] == "define" and _DEFINE.match(d["rest"])
        if match:
            _, words = macros.get(match["name"], (False, frozenset()))
            macros[match["name"]] = bool(match["parameters"]), words | _identifiers(match["body"])
    return macros


def _identifiers(text: str) -> frozenset[str]:
    return frozenset(_IDENTIFIER.findall(text))


def _with_macro_identifiers(words: frozenset[str], macros) -> set[str]:
    """`words`, and the identifiers that their macros mention."""
    reached, todo = set(words), list(words)
    while todo:
        for word in macros.get(todo.pop(), (False, ()))[1]:
            if word not in reached:
                reached.add(word)
                todo.append(word)
    return reached


def _needed_declarations(declarations: list[_Declaration], wanted: frozenset[str], macros) -> set[_Declaration]:
    """The device declarations, and everything that they and the wanted identifiers need."""
    declares: dict[str, list[_Declaration]] = {}
    for declaration in declarations:
        for name in declaration.names if declaration.may_be_used_by_device else ():
            declares.setdefault(name, []).append(declaration)
    own = {name.rstrip(":").rpartition("::")[2] for name in (declaration.scope for declaration in declarations)}
    kept = {
        declaration
        for declaration in declarations
        if _with_macro_identifiers(_identifiers(declaration.head), macros) & _DEVICE_WORDS
    }
    kept |= {declaration for declaration in declarations if _is_device_using(declaration.head, own)}
    todo = [wanted, *(declaration.words for declaration in kept)]
    while todo:
        for word in _with_macro_identifiers(todo.pop(), macros):
            new = [declaration for declaration in declares.get(word, ()) if declaration not in kept]
            kept.update(new)
            todo += [declaration.words for declaration in new]
    return kept


def _is_device_using(head: str, own: set[str]) -> bool:
    """Whether it is `using namespace` with a namespace that device code knows, such as std, unlike a host
    library's."""
    match = re.match(r"\s*using\s+namespace\s+(?:::)?\s*(\w+)\s*(::)?", head)
    known = {"cooperative_groups", "nvcuda", "cuda", *own}
    return bool(match) and (match[1] in known or (match[1] == "std" and not match[2]))


def _declarations(code: str, at: int, end: int, scope: str, macros) -> Iterator[_Declaration]:
    """The declarations in a range, which may be a type's body, and in the namespaces there."""
    while at < end:
        label = _ACCESS_LABEL.match(code, at)
        if label or code[at].isspace() or code[at] in ";}":
            at = label.end() if label else at + 1
            continue
        start, stop = at, _end_of_macro_call(code, at, macros)
        if stop:
            at = min(stop, end)
            yield _Declaration(start, at, code[start:at], code[start:at], "", scope, "call")
            continue
        at, brace, kind = _end_of_declaration(code, start, end)
        if kind == "block":
            name = re.match(r"\s*(?:inline\s+)?namespace\s+([\w:]+)", code[start:brace])
            yield from _declarations(code, brace + 1, at - 1, scope + (f"{name[1]}::" if name else ""), macros)
        else:
            template, head = _split_template(code[start : at if brace is None else brace])
            yield _Declaration(start, at, code[start:at], head, template, scope, kind)


def _end_of_macro_call(code: str, at: int, macros) -> int:
    """The end of a declaration that is a macro call, such as INSTANTIATE(float); 0 if it is none."""
    match = _FUNCTION_NAME.match(code, at)
    if not match or not macros.get(match[1], (False,))[0]:
        return 0
    end = _matching_bracket(code, match.end() - 1) + 1
    after = code[end:].lstrip()[:1]
    return 0 if after in ("{", "=", ",") and after else end


def _end_of_declaration(code: str, start: int, end: int) -> tuple[int, int | None, str]:
    """The end of a declaration, its first brace, and its kind: "block" for namespaces and extern "C"."""
    at, brace, kind = start, None, ""
    while at < end:
        character = code[at]
        if character in "([":
            at = _matching_bracket(code, at)
        elif character == ";":
            at += 1
            break
        elif character == "{":
            if brace is None:
                brace, kind = at, _declaration_kind(code[start:at])
            at = _matching_bracket(code, at)
            if kind == "block" or (kind == "function" and code[at + 1 : end].lstrip()[:1] not in ("{", ",")):
                at += 1
                break
        at += 1
    return min(at, end), brace, kind or _declaration_kind(code[start:at], semicolon=True)


def _declaration_kind(head: str, semicolon: bool = False) -> str:
    """The kind of a declaration, from the text before its first brace or its semicolon."""
    head = _split_template(head)[1]
    if not semicolon and re.fullmatch(r"\s*(?:extern|(?:inline\s+)?namespace\b[\w\s:]*)?\s*", head):
        return "block"
    if re.match(r"\s*(?:typedef|using|namespace)\b", head):
        return "other"
    outside = re.sub(r"\(.*\)", "()", head, flags=re.DOTALL)
    if "=" in outside:
        return "other"
    if "(" in head:
        return "function"
    return "type" if re.search(r"\b(?:class|struct|union|enum)\b", head) else "other"


def _split_template(head: str) -> tuple[str, str]:
    """The template parameters of a declaration's head, and the head without those and without attributes."""
    template = ""
    head = re.sub(r"\boperator\s*(?:\(\s*\)|[^\w\s(]+)", "operator_", head)
    while match := re.match(r"\s*template\s*<", head):
        stop = _matching_angle_bracket(head, match.end() - 1) + 1
        template = template or " ".join(head[:stop].split())
        head = head[stop:]
    while match := _ATTRIBUTE.search(head):
        head = head[: match.start()] + " " + head[_matching_bracket(head, match.end()) + 1 :]
    return template, re.sub(r"\[\[.*?\]\]", " ", head, flags=re.DOTALL)


def _matching_bracket(code: str, at: int) -> int:
    """The bracket that closes the one at `at`, or the end."""
    open_, close, depth = code[at], _CLOSING[code[at]], 0
    for found in re.compile(rf"[\{open_}\{close}]").finditer(code, at):
        depth += 1 if found[0] == open_ else -1
        if depth == 0:
            return found.start()
    return len(code) - 1


def _matching_angle_bracket(code: str, at: int) -> int:
    depth = 0
    while at < len(code):
        if code[at] == "(":
            at = _matching_bracket(code, at)
        depth += {"<": 1, ">": -1}.get(code[at], 0)
        if depth == 0:
            return at
        at += 1
    return len(code) - 1


# ---- host members -----------------------------------------------------------------------------------------------


def _blank_host_members(declarations: list[_Declaration], code: str, macros) -> None:
    """Sets the `host_members` of types, and blanks them in their `code`."""
    defined: dict[bool, set[tuple[str, str]]] = {True: set(), False: set()}  # whether for the host → type and name
    for declaration in declarations:
        if declaration.kind == "function":
            defined[_is_host_function(declaration, macros)] |= _defined_members(declaration)
    for declaration in declarations:
        if declaration.kind == "type" or re.match(r"\s*typedef\s+(?:struct|class|union)\b", declaration.head):
            declaration.host_members = tuple(_host_members(declaration, "", code, macros, defined))
        for start, end, _ in declaration.host_members:
            declaration.code = _blank(declaration.code, start - declaration.start, end - declaration.start)


def _host_members(outer: _Declaration, scope: str, code: str, macros, defined) -> Iterator[tuple[int, int, str]]:
    """The host member functions of a type.

    If any member is marked for the device, these are the members that are not marked. Otherwise they are those
    that call the CUDA runtime, launch or print. With nvcc device code cannot call the others either, but they
    compile.
    """
    found = _CLASS_HEAD.search(outer.head)
    brace = _end_of_declaration(code, outer.start, outer.end)[1]
    if not found or brace is None or re.search(r"\benum\b", outer.head):
        return
    words = re.findall(r"\w+", re.sub(r"\bfinal\b|<.*|:(?!:).*", "", found["rest"], flags=re.DOTALL))
    own = words[-1] if words else ""
    members = list(_declarations(code, brace + 1, _matching_bracket(code, brace), "", macros))
    has_device = any(
        _with_macro_identifiers(_identifiers(member.head), macros) & _DEVICE_WORDS for member in members
    )
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
            map(_RUNTIME_API.fullmatch, _with_macro_identifiers(member.words, macros))
        )
        if has_device or calls or (elsewhere and key in defined[True]):
            yield member.start, member.end, name if friend else f"{scope}{own}::{name}"


def _is_host_function(function: _Declaration, macros) -> bool:
    """Whether nothing marks a function as device code."""
    words = _with_macro_identifiers(_identifiers(function.head), macros)
    return not words & (_DEVICE_WORDS | {"constexpr", "consteval"})


def _defined_members(function: _Declaration) -> set[tuple[str, str]]:
    """The type and the name of a function outside of types: "Lock" and "~Lock"; the type is "" if it is no
    member."""
    member = _MEMBER_OF.search(_strip_template_arguments(function.head))
    own = (member["type"] or member["converts"]) if member else ""
    name = _operator_name(function) or (re.sub(r"\s", "", member["name"]) if member else "")
    return {(own, each) for each in ([name] if name else function.names)}


def _member_function_name(member: _Declaration, own: str) -> str:
    """The name of a member function of a type, unless it is defaulted or deleted; otherwise ""."""
    if member.kind != "function" and not (member.kind == "other" and _PURE_VIRTUAL.search(member.head)):
        return ""
    head = _strip_template_arguments(member.head)
    while other := _NO_PARAMETERS.search(head):
        head = head[: other.end()].rstrip() + " " + head[_matching_bracket(head, other.end()) + 1 :]
    found = re.search(r"(?P<name>~?\s*[A-Za-z_]\w*)\s*\(", head)
    if _operator_name(member) or not found:
        return _operator_name(member)
    before, after = head[: found.start()], head[_matching_bracket(head, found.end() - 1) + 1 :].lstrip()
    name = re.sub(r"\s", "", found["name"])
    if not before.strip() and name.lstrip("~") != own:  # a macro's call
        return ""
    is_function = not re.search(r"(?<!:):(?!:)|[=\[(]", before) and _AFTER_PARAMETERS.match(after)
    return name if is_function and name not in _TYPE_WORDS and not _DECLARATOR.match(head, found.end() - 1) else ""


def _operator_name(function: _Declaration) -> str:
    """ "operator=", "operator bool"; "" for other functions."""
    found = re.search(r"\boperator", function.head) and _OPERATOR.search(function.code)
    if not found:
        return ""
    which = " ".join(found["which"].split())
    return f"operator{' ' * which[0].isalpha()}{which}"


def _strip_template_arguments(head: str) -> str:
    """A declaration's head without template arguments."""
    while found := re.search(r"(?<=\w)\s*<", head):
        head = head[: found.start()] + " " + head[_matching_angle_bracket(head, found.end() - 1) + 1 :]
    return head


# ---- kernels and variables --------------------------------------------------------------------------------------


def _kernel_function(declaration: _Declaration, macros, at: tuple[int, str]) -> Function | None:
    name = _FUNCTION_NAME.search(declaration.head)
    if (
        declaration.kind != "function"
        or not name
        or "__global__" not in _with_macro_identifiers(_identifiers(declaration.head), macros)
    ):
        return None
    listed = declaration.head[name.end() : _matching_bracket(declaration.head, name.end() - 1)]
    declarations = tuple(" ".join(one.split()) for one in split_commas(listed))
    declarations = () if declarations == ("void",) else declarations
    return Function(declaration.scope + name[1], declarations, declaration.template, at)


def _variables(declaration: _Declaration) -> Iterator[Variable]:
    words = _identifiers(declaration.head)
    if (
        declaration.kind != "other"
        or declaration.template
        or words & {"__shared__", "extern"}
        or not words & _DEVICE_WORDS
    ):
        return
    for declarator in split_commas(declaration.code.rstrip("; \n\t")):
        match = _DECLARED_NAME.search(re.split(r"[={]", declarator)[0])
        if match and match[1] not in _TYPE_WORDS | _DEVICE_WORDS:
            yield Variable(declaration.scope + match[1], "__constant__" in words)


def _parameter_name(declaration: str) -> str:
    pointer = re.search(r"\(\s*[*&]\s*(\w+)", declaration)  # to a function or an array
    declaration = declaration.partition("=")[0]
    match = pointer or _DECLARED_NAME.search(declaration)
    qualifiers = {"const", "volatile", "__restrict__", "__restrict", "__grid_constant__"}
    alone = len(_identifiers(declaration) - qualifiers) < 2
    return "" if not match or alone or match[1] in _TYPE_WORDS | qualifiers else match[1]


def split_commas(text: str) -> list[str]:
    """The parts between commas outside of brackets; none for blank text.

    Examples
    --------
    >>> split_commas("pair<int, 2> a, int b[f(1, 2)]")
    ['pair<int, 2> a', 'int b[f(1, 2)]']
    """
    parts, depth, start = [], 0, 0
    for at, character in enumerate(text):
        if character in "([{<":
            depth += 1
        elif character in ")]}>":
            depth -= 1
        elif character == "," and depth <= 0:
            parts.append(text[start:at].strip())
            start = at + 1
    return [*parts, text[start:].strip()] if text.strip() else []
