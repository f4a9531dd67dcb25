"""From a CUDA file as tutorials print it to its device code.

Such a file has `main`, host functions, `<<<…>>>` and the host's headers, which neither NVRTC nor the CPU's dialect
can take. What the kernels need is kept: functions and variables with __global__, __device__ and their kin, and
whatever types, constants and constexpr functions those mention, and those mention in turn; of a type that has
__device__ members, without those of the host. The rest becomes blanks, so that lines stay where they are. Only the
outlines of declarations are read here; the rest is the compiler's.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

from smemkit.dialect import mask

__all__ = ["DeviceCode", "Function", "Variable", "expand", "have", "marker", "scan"]

_IDENTIFIER = re.compile(r"\b[A-Za-z_]\w*")
_DEVICE_WORDS = {f"__{word}__" for word in ("global", "device", "constant", "shared", "managed")}
_DIRECTIVE = re.compile(r"^[ \t]*#[ \t]*(?P<name>\w*)(?P<rest>(?:\\\r?\n|[^\n])*)", re.MULTILINE)
_INCLUDE = re.compile(r"""[ \t]*#[ \t]*include[ \t]*(?P<file><[^>\n]+>|"[^"\n]+")""")
_DEFINE = re.compile(r"\s+(?P<name>\w+)(?P<parameters>\([^)]*\))?(?P<body>.*)", re.DOTALL)
_LINE_MARKER = re.compile(r'^#line (\d+) "((?:[^"\\]|\\.)*)"$', re.MULTILINE)
# what has parentheses in the head of a declaration, and they are not its parameters'
_ATTRIBUTE = re.compile(
    r"\b(?:__\w+_bounds__|__cluster_dims__|__maxnreg__|__align__|alignas|__attribute__)\s*(?=\()"
)
_CONSTANT = re.compile(r"\s*(?:typedef|using|namespace|static_assert)\b|[^=]*\b(?:const|constexpr)\b")
_FUNCTION_NAME = re.compile(r"([A-Za-z_]\w*)\s*\(")
_DECLARED_NAME = re.compile(r"([A-Za-z_]\w*)\s*(?:\[[^\]]*\]\s*)*$")
_ACCESS = re.compile(r"(?:public|protected|private)\s*:(?!:)")
_CLASS = re.compile(r"\b(?:struct|class|union)\b(?P<rest>.*)", re.DOTALL)
_PURE = re.compile(r"\)[\w\s&]*=\s*0\s*;$")
_OPERATOR = re.compile(r"\boperator\s*(?P<which>\(\s*\)|[^(]+)")
_MEMBER_OF = re.compile(r"(?P<type>\w+)\s*::\s*(?P<name>~?\s*\w+)\s*\(|(?P<converts>\w+)\s*::\s*operator\b")
# parentheses that are not a function's: decltype(x), and those of pointers and references to functions and arrays
_NO_PARAMETERS = re.compile(r"\b(?:decltype|__typeof__|typeof|noexcept|explicit)\s*(?=\()")
_DECLARATOR = re.compile(r"\(\s*(?:[\w:]*::\s*)?[*&]")
_AFTER_PARAMETERS = re.compile(r"const\b|volatile\b|noexcept\b|override\b|final\b|throw\b|requires\b|->|[:&;=]|$")
# what shows that a function is the host's, whatever it is called from
_RUNTIME = re.compile(r"cuda[A-Z]\w*(?<!_t)")
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
    place : tuple of int and str
        The line and file of its definition.
    """

    name: str
    declarations: tuple[str, ...]
    template: str
    place: tuple[int, str] = (0, "")

    @property
    def parameters(self) -> tuple[str, ...]:
        """The names of its parameters; "" for one that has none."""
        return tuple(map(_parameter_name, self.declarations))


@dataclass(frozen=True)
class Variable:
    """A variable of the device: its name, with its namespaces, and whether it is __constant__."""

    name: str
    constant: bool


@dataclass(frozen=True)
class DeviceCode:
    """What `scan` finds.

    Attributes
    ----------
    text : str
        The device code, in the lines where it was; host code is blank.
    functions : tuple of Function
        Its kernels.
    variables : tuple of Variable
    host : dict of str to str
        What was left out: its name → "kernel.cu:12"; "Lock::Lock" for a member.
    generated : bool
        Whether a macro's call may have made more kernels than `functions`.
    """

    text: str
    functions: tuple[Function, ...]
    variables: tuple[Variable, ...]
    host: dict[str, str]
    generated: bool
    _includes: tuple[tuple[int, int, str], ...] = field(repr=False)
    _ends: tuple[tuple[int, str], ...] = field(repr=False)

    def mentions(self, word: str) -> bool:
        """Whether it uses an identifier, other than by `using namespace`."""
        return bool(re.search(rf"\b{word}\b", re.sub(r"using\s+namespace\s+\w+", "", mask(self.text))))

    def assemble(self, keep: Callable[[str], bool | str]) -> str:
        """The text for a compiler.

        Of the #include lines those are left for whose "<file>" `keep` is True, or "if here" and the compiler has
        the file. After every kernel and variable stands a #define of `have(name)`: an #if may hide it.
        """
        edits = [
            (end, end, f"\n#define {have(name)}\n{marker(*place(self.text, end))}") for end, name in self._ends
        ]
        for start, end, name in self._includes:
            line, answer = self.text[start:end], keep(name)
            if answer == "if here":
                number, file = place(self.text, start)
                line = f"#if __has_include({name})\n{line}\n#endif\n{marker(number + 1, file)[:-1]}"
            edits.append((start, end, line if answer else ""))
        text = self.text
        for start, end, new in sorted(edits, reverse=True):
            text = text[:start] + new + text[end:]
        return text


def have(name: str) -> str:
    """The macro that says that a kernel or variable has been compiled."""
    return f"SMEMKIT_HAVE_{re.sub(r'[^A-Za-z0-9_]', '_', name)}"


# ---- the user's own headers, and where things stand -------------------------------------------------------------


def expand(
    text: str, filename: str, home: Path | None, folders: list[Path], sources: dict[str, str], outer: tuple = ()
) -> str:
    """`text` with the user's own headers in place of their #include lines, between #line markers.

    Parameters
    ----------
    text, filename : str
        A source, and what messages call it.
    home : Path, optional
        Its folder, where "quoted" headers are.
    folders : list of Path
        Where all headers may be.
    sources : dict
        Receives what was read: filename → text.
    outer : tuple of str
        The files that include this one.
    """
    sources[filename] = text
    pieces, done = [marker(1, filename)], 0
    for directive in _DIRECTIVE.finditer(mask(text)):
        match = _INCLUDE.match(text, directive.start())
        found = match and _find(match["file"], home, folders)
        if not found:
            continue
        pieces.append(text[done : match.start()])
        done = directive.end()
        name = str(found)
        content = sources.get(name) or found.read_text(encoding="utf-8-sig", errors="replace")
        if name in (filename, *outer) or (name in sources and re.search(r"#\s*pragma\s+once\b", content)):
            continue
        pieces.append(expand(content, name, found.parent, folders, sources, (*outer, filename)))
        pieces.append("\n" + marker(text.count("\n", 0, done) + 1, filename))
    return "".join([*pieces, text[done:]])


def _find(quoted: str, home: Path | None, folders: list[Path]) -> Path | None:
    places = [home, *folders] if home and quoted[0] == '"' else folders
    return next((folder / quoted[1:-1] for folder in places if (folder / quoted[1:-1]).is_file()), None)


def marker(line: int, filename: str) -> str:
    escaped = filename.replace("\\", "\\\\").replace('"', '\\"')
    return f'#line {line} "{escaped}"\n'


def place(text: str, at: int) -> tuple[int, str]:
    """The line and the file of a position in expanded text."""
    markers = list(_LINE_MARKER.finditer(text, 0, at))
    if not markers:
        return text.count("\n", 0, at) + 1, ""
    line = int(markers[-1][1]) + text.count("\n", markers[-1].end() + 1, at)
    return line, re.sub(r"\\(.)", r"\1", markers[-1][2])


# ---- declarations -----------------------------------------------------------------------------------------------


@dataclass(eq=False)
class _Item:
    """A declaration in a namespace or a type. In `code` comments, strings and directives are blank, and so are a
    type's `host_members`."""

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
        return _words(self.code)

    @cached_property
    def names(self) -> frozenset[str]:
        """What it declares, and perhaps words of its type, which does no harm."""
        head, tail = self.head, self.code.rpartition("}")[2]
        if self.kind == "function":
            return frozenset(_FUNCTION_NAME.findall(head)[:1])
        if self.kind == "type" and re.search(r"\benum\b", head):
            return self.words - _TYPE_WORDS
        if self.kind == "type":
            head = re.sub(r":(?!:).*", "", head, flags=re.DOTALL)  # without the bases
        elif not re.match(r"\s*(?:typedef|using)\b", head):
            head, tail = re.split(r"[={(]", head)[0], ""
        return _words(f"{head} {tail}") - _TYPE_WORDS

    @property
    def may_serve(self) -> bool:
        """Whether device code could use it: a type, a constant, a constexpr function."""
        if self.kind == "function":
            return bool(re.search(r"\bconst(?:expr|eval)\b", self.head))
        return self.kind == "type" or bool(_CONSTANT.match(self.head))


def scan(text: str, wanted: str = "") -> DeviceCode:
    """Finds the device code of an expanded source, and what the words in `wanted` need beside it.

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
    macros = _macros(directives)
    code = _without_rival_branches(code, directives)
    items = list(_items(code, 0, len(code), "", macros))
    _leave_out_host_members(items, code, macros)
    kept = _needed(items, _words(wanted), macros)
    host: dict[str, str] = {}
    functions: dict[str, Function] = {}
    variables: dict[str, Variable] = {}
    ends = []
    for item in items:
        if item not in kept:
            line, file = place(text, item.start)
            host |= {name: f"{file}:{line}" for name in item.names if not item.may_serve and name not in host}
            text = _blank(text, item.start, item.end, directives)
            continue
        for start, end, name in item.host_members:
            line, file = place(text, start)
            host.setdefault(name, f"{file}:{line}")
            text = _blank(text, start, end, directives)
        function = _function(item, macros, place(text, item.start))
        if function and ("{" in item.code or function.name not in functions):
            functions[function.name] = function
        new = {variable.name: variable for variable in _variables(item)}
        variables |= new
        ends += [(item.end, name) for name in ([function.name] if function else []) + list(new)]
    found = [(d, _INCLUDE.match(text, d.start())) for d in directives]
    includes = tuple((d.start(), d.end(), match["file"]) for d, match in found if match)
    generated = any(item.kind == "call" for item in kept)
    return DeviceCode(
        text, tuple(functions.values()), tuple(variables.values()), host, generated, includes, tuple(ends)
    )


def _blank(text: str, start: int, end: int, directives=()) -> str:
    """`text` with blanks in a range; directives stay, so that each #if keeps its #endif."""
    pieces, at = [text[:start]], start
    for d in directives:
        if start <= d.start() < end:
            pieces += [re.sub(r"[^\n]", " ", text[at : d.start()]), text[d.start() : d.end()]]
            at = d.end()
    return "".join([*pieces, re.sub(r"[^\n]", " ", text[at:end]), text[end:]])


def _without_rival_branches(code: str, directives) -> str:
    """`code` without the braces of an #else where they are not balanced: its #if had them."""
    branches: list[list[int]] = []  # of each open #if, where its branches begin
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


def _macros(directives) -> dict[str, tuple[bool, frozenset[str]]]:
    """The macros: name → whether it has parameters, and the words of its bodies."""
    macros: dict[str, tuple[bool, frozenset[str]]] = {}
    for d in directives:
        match = d["name"] == "define" and _DEFINE.match(d["rest"])
        if match:
            _, words = macros.get(match["name"], (False, frozenset()))
            macros[match["name"]] = bool(match["parameters"]), words | _words(match["body"])
    return macros


def _words(text: str) -> frozenset[str]:
    return frozenset(_IDENTIFIER.findall(text))


def _with_macros(words: frozenset[str], macros) -> set[str]:
    """`words`, and what their macros mention."""
    reached, todo = set(words), list(words)
    while todo:
        for word in macros.get(todo.pop(), (False, ()))[1]:
            if word not in reached:
                reached.add(word)
                todo.append(word)
    return reached


def _needed(items: list[_Item], wanted: frozenset[str], macros) -> set[_Item]:
    """The device's items, and all that they and the wanted words need."""
    declares: dict[str, list[_Item]] = {}
    for item in items:
        for name in item.names if item.may_serve else ():
            declares.setdefault(name, []).append(item)
    own = {name.rstrip(":").rpartition("::")[2] for name in (item.scope for item in items)}
    kept = {item for item in items if _with_macros(_words(item.head), macros) & _DEVICE_WORDS}
    kept |= {item for item in items if _is_known_using(item.head, own)}
    todo = [wanted, *(item.words for item in kept)]
    while todo:
        for word in _with_macros(todo.pop(), macros):
            new = [item for item in declares.get(word, ()) if item not in kept]
            kept.update(new)
            todo += [item.words for item in new]
    return kept


def _is_known_using(head: str, own: set[str]) -> bool:
    """`using namespace std;`, and others of which the devices know; those of a host's library they do not."""
    match = re.match(r"\s*using\s+namespace\s+(?:::)?\s*(\w+)\s*(::)?", head)
    known = {"cooperative_groups", "nvcuda", "cuda", *own}
    return bool(match) and (match[1] in known or (match[1] == "std" and not match[2]))


def _items(code: str, at: int, end: int, scope: str, macros) -> Iterator[_Item]:
    """The declarations in a range, which may be a type's body, and in the namespaces there."""
    while at < end:
        label = _ACCESS.match(code, at)
        if label or code[at].isspace() or code[at] in ";}":
            at = label.end() if label else at + 1
            continue
        start, stop = at, _end_of_macro_call(code, at, macros)
        if stop:
            at = min(stop, end)
            yield _Item(start, at, code[start:at], code[start:at], "", scope, "call")
            continue
        at, brace, kind = _end_of_declaration(code, start, end)
        if kind == "block":
            name = re.match(r"\s*(?:inline\s+)?namespace\s+([\w:]+)", code[start:brace])
            yield from _items(code, brace + 1, at - 1, scope + (f"{name[1]}::" if name else ""), macros)
        else:
            template, head = _clean(code[start : at if brace is None else brace])
            yield _Item(start, at, code[start:at], head, template, scope, kind)


def _end_of_macro_call(code: str, at: int, macros) -> int:
    """Where a declaration ends that is a macro's call, such as INSTANTIATE(float); 0 where there is none."""
    match = _FUNCTION_NAME.match(code, at)
    if not match or not macros.get(match[1], (False,))[0]:
        return 0
    end = _closing(code, match.end() - 1) + 1
    after = code[end:].lstrip()[:1]
    return 0 if after in ("{", "=", ",") and after else end


def _end_of_declaration(code: str, start: int, end: int) -> tuple[int, int | None, str]:
    """Where it ends, where its first brace is, and its kind, "block" for namespaces and extern "C"."""
    at, brace, kind = start, None, ""
    while at < end:
        character = code[at]
        if character in "([":
            at = _closing(code, at)
        elif character == ";":
            at += 1
            break
        elif character == "{":
            if brace is None:
                brace, kind = at, _kind(code[start:at])
            at = _closing(code, at)
            if kind == "block" or (kind == "function" and code[at + 1 : end].lstrip()[:1] not in ("{", ",")):
                at += 1
                break
        at += 1
    return min(at, end), brace, kind or _kind(code[start:at], semicolon=True)


def _kind(head: str, semicolon: bool = False) -> str:
    """What a declaration is, by what stands before its first brace, or before its semicolon."""
    head = _clean(head)[1]
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


def _clean(head: str) -> tuple[str, str]:
    """The template parameters of a declaration's head, and the head without those and without attributes."""
    template = ""
    head = re.sub(r"\boperator\s*(?:\(\s*\)|[^\w\s(]+)", "operator_", head)
    while match := re.match(r"\s*template\s*<", head):
        stop = _closing_angle(head, match.end() - 1) + 1
        template = template or " ".join(head[:stop].split())
        head = head[stop:]
    while match := _ATTRIBUTE.search(head):
        head = head[: match.start()] + " " + head[_closing(head, match.end()) + 1 :]
    return template, re.sub(r"\[\[.*?\]\]", " ", head, flags=re.DOTALL)


def _closing(code: str, at: int) -> int:
    """The bracket that closes the one at `at`, or the end."""
    open_, close, depth = code[at], _CLOSING[code[at]], 0
    for found in re.compile(rf"[\{open_}\{close}]").finditer(code, at):
        depth += 1 if found[0] == open_ else -1
        if depth == 0:
            return found.start()
    return len(code) - 1


def _closing_angle(code: str, at: int) -> int:
    depth = 0
    while at < len(code):
        if code[at] == "(":
            at = _closing(code, at)
        depth += {"<": 1, ">": -1}.get(code[at], 0)
        if depth == 0:
            return at
        at += 1
    return len(code) - 1


# ---- members of the host ----------------------------------------------------------------------------------------


def _leave_out_host_members(items: list[_Item], code: str, macros) -> None:
    """Sets the `host_members` of types, and blanks them in their `code`."""
    defined: dict[bool, set[tuple[str, str]]] = {True: set(), False: set()}  # whether for the host → type and name
    for item in items:
        if item.kind == "function":
            defined[_is_plain(item, macros)] |= _defined(item)
    for item in items:
        if item.kind == "type" or re.match(r"\s*typedef\s+(?:struct|class|union)\b", item.head):
            item.host_members = tuple(_host_members(item, "", code, macros, defined))
        for start, end, _ in item.host_members:
            item.code = _blank(item.code, start - item.start, end - item.start)


def _host_members(outer: _Item, scope: str, code: str, macros, defined) -> Iterator[tuple[int, int, str]]:
    """The member functions of a type that are the host's.

    Where a member is for the device, those are the host's that do not say that they are too. In a type without
    such a member, they are those that call the CUDA runtime, launch or print: nvcc lets device code call no other
    either, but those compile.
    """
    found = _CLASS.search(outer.head)
    brace = _end_of_declaration(code, outer.start, outer.end)[1]
    if not found or brace is None or re.search(r"\benum\b", outer.head):
        return
    words = re.findall(r"\w+", re.sub(r"\bfinal\b|<.*|:(?!:).*", "", found["rest"], flags=re.DOTALL))
    own = words[-1] if words else ""
    members = list(_items(code, brace + 1, _closing(code, brace), "", macros))
    has_device = any(_with_macros(_words(member.head), macros) & _DEVICE_WORDS for member in members)
    for member in members:
        if member.kind == "type":
            yield from _host_members(member, f"{scope}{own}::", code, macros, defined)
            continue
        name = _member_function(member, own)
        if not name or name in macros or not _is_plain(member, macros):
            continue
        friend = re.search(r"\bfriend\b", member.head)
        key = "" if friend else own, name
        elsewhere = "{" not in member.code
        if elsewhere and key in defined[False]:
            continue
        calls = _HOST_ONLY.search(member.code) or any(map(_RUNTIME.fullmatch, _with_macros(member.words, macros)))
        if has_device or calls or (elsewhere and key in defined[True]):
            yield member.start, member.end, name if friend else f"{scope}{own}::{name}"


def _is_plain(function: _Item, macros) -> bool:
    """Whether nothing says that a function is for the device."""
    words = _with_macros(_words(function.head), macros)
    return not words & (_DEVICE_WORDS | {"constexpr", "consteval"})


def _defined(function: _Item) -> set[tuple[str, str]]:
    """The type and the name of what stands outside of types: "Lock" and "~Lock"; the type is "" for no member."""
    member = _MEMBER_OF.search(_without_angles(function.head))
    own = (member["type"] or member["converts"]) if member else ""
    name = _operator(function) or (re.sub(r"\s", "", member["name"]) if member else "")
    return {(own, each) for each in ([name] if name else function.names)}


def _member_function(member: _Item, own: str) -> str:
    """The name of a member function of type `own`, unless it is defaulted or deleted; "" for what is none."""
    if member.kind != "function" and not (member.kind == "other" and _PURE.search(member.head)):
        return ""
    head = _without_angles(member.head)
    while other := _NO_PARAMETERS.search(head):
        head = head[: other.end()].rstrip() + " " + head[_closing(head, other.end()) + 1 :]
    found = re.search(r"(?P<name>~?\s*[A-Za-z_]\w*)\s*\(", head)
    if _operator(member) or not found:
        return _operator(member)
    before, after = head[: found.start()], head[_closing(head, found.end() - 1) + 1 :].lstrip()
    name = re.sub(r"\s", "", found["name"])
    if not before.strip() and name.lstrip("~") != own:  # a macro's call
        return ""
    is_function = not re.search(r"(?<!:):(?!:)|[=\[(]", before) and _AFTER_PARAMETERS.match(after)
    return name if is_function and name not in _TYPE_WORDS and not _DECLARATOR.match(head, found.end() - 1) else ""


def _operator(function: _Item) -> str:
    """ "operator=", "operator bool"; "" for other functions."""
    found = re.search(r"\boperator", function.head) and _OPERATOR.search(function.code)
    if not found:
        return ""
    which = " ".join(found["which"].split())
    return f"operator{' ' * which[0].isalpha()}{which}"


def _without_angles(head: str) -> str:
    """A declaration's head without template arguments."""
    while found := re.search(r"(?<=\w)\s*<", head):
        head = head[: found.start()] + " " + head[_closing_angle(head, found.end() - 1) + 1 :]
    return head


# ---- kernels and variables --------------------------------------------------------------------------------------


def _function(item: _Item, macros, at: tuple[int, str]) -> Function | None:
    name = _FUNCTION_NAME.search(item.head)
    if item.kind != "function" or not name or "__global__" not in _with_macros(_words(item.head), macros):
        return None
    listed = item.head[name.end() : _closing(item.head, name.end() - 1)]
    declarations = tuple(" ".join(one.split()) for one in split_commas(listed))
    declarations = () if declarations == ("void",) else declarations
    return Function(item.scope + name[1], declarations, item.template, at)


def _variables(item: _Item) -> Iterator[Variable]:
    words = _words(item.head)
    if item.kind != "other" or item.template or words & {"__shared__", "extern"} or not words & _DEVICE_WORDS:
        return
    for declarator in split_commas(item.code.rstrip("; \n\t")):
        match = _DECLARED_NAME.search(re.split(r"[={]", declarator)[0])
        if match and match[1] not in _TYPE_WORDS | _DEVICE_WORDS:
            yield Variable(item.scope + match[1], "__constant__" in words)


def _parameter_name(declaration: str) -> str:
    pointer = re.search(r"\(\s*[*&]\s*(\w+)", declaration)  # to a function or an array
    declaration = declaration.partition("=")[0]
    match = pointer or _DECLARED_NAME.search(declaration)
    qualifiers = {"const", "volatile", "__restrict__", "__restrict", "__grid_constant__"}
    alone = len(_words(declaration) - qualifiers) < 2
    return "" if not match or alone or match[1] in _TYPE_WORDS | qualifiers else match[1]


def split_commas(text: str) -> list[str]:
    """The parts between commas that stand in no brackets; none of blank text.

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
