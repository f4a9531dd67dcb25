"""What a function of a source mentions, directly or through the declarations that it mentions."""

from __future__ import annotations

from smemkit.cuda_source.declarations import collect_macros, declarations_in, with_macro_identifiers
from smemkit.cuda_source.lexer import DIRECTIVE, blank, mask

__all__ = ["reached_names"]


def reached_names(text: str, name: str) -> frozenset[str]:
    """The identifiers that a function mentions, directly or through other declarations of the source.

    Parameters
    ----------
    text : str
        A source.
    name : str
        The function's name, without namespaces and template arguments.

    Examples
    --------
    >>> sorted(reached_names("int g; int f() { return g; } int h() { return f(); } int k() { return 1; }", "h"))
    ['f', 'g', 'h', 'int', 'return']
    """
    code = mask(text)
    directives = list(DIRECTIVE.finditer(code))
    code = blank(code, [found.span() for found in directives])
    macros = collect_macros(directives)
    mentioned_by: dict[str, set[str]] = {}
    for declaration in declarations_in(code, 0, len(code), "", macros):
        for declared in declaration.names:
            mentioned_by.setdefault(declared, set()).update(declaration.words)
    reached, todo = {name}, [frozenset({name})]
    while todo:
        for word in with_macro_identifiers(todo.pop(), macros):
            new = mentioned_by.get(word, set()) - reached
            reached |= {word, *new}
            todo += [frozenset(new)] if new else []
    return frozenset(reached)
