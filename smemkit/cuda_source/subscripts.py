"""Rewrites subscripts so that what they read is read once.

g++ checks an index against the length of its array, and takes the index from the source twice if it is of `const`
memory, since the second value is no other: `counts[bins[i] % 8]` would read `bins[i]` twice, and the checker would
count both. A call is evaluated once. (References to const memory stay as they are: `i` or `pair.first` look
like variables.)
"""

import re

from .lexer import insert, mask, matching_bracket

__all__ = ["rewrite_subscripts"]

# what a subscript may follow: a name, a call, another subscript; not a lambda, an attribute or a declarator
_SUBSCRIPT = re.compile(r"(?P<name>[A-Za-z_]\w*|[\])])\s*\[")
_NO_NAMES = {"auto", "case", "co_return", "delete", "else", "new", "operator", "return", "throw", "typename"}
_READS = re.compile(r"\[|->|(?:^|[-+*/%&|^<>=!~?:,(])\s*\*")  # an element, a member through a pointer, *pointer


def rewrite_subscripts(source: str) -> str:
    """The source in which each index that may read memory is the argument of a call.

    Examples
    --------
    >>> rewrite_subscripts("counts[bins[i] % 8] += table[i][j];")
    'counts[smemkit::once((bins[i] % 8))] += table[i][j];'
    """
    masked, edits = mask(source), []
    for found in _SUBSCRIPT.finditer(masked):
        start = found.end()
        end = matching_bracket(masked, start - 1)
        index = masked[start:end].strip()
        if found["name"] not in _NO_NAMES and index[:1] not in ("", "[", "{") and _READS.search(index):
            edits += [(start, "smemkit::once(("), (end, "))")]
    return insert(source, edits)
