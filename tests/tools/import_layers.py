"""Checks that smemkit/ depends in one direction only, as smemkit/README.md draws it.

    python tests/tools/import_layers.py [FOLDER]

It reads every import, also those in functions, those under TYPE_CHECKING, and `import_module("smemkit.…")`. A
layer, which is a folder or a file of smemkit/ itself, may import lower ones; and no files may import each other in
a circle. The tool prints what breaks a rule and exits with 1.
"""

import ast
import sys
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = "smemkit"
# From the lowest to the highest. Those of one level do not know each other.
LAYERS = [
    ["_core", "version"],
    ["ops", "arrays", "devices"],
    ["array_functions", "array_api"],
    ["table", "cuda_source", "dask"],
    ["user_kernel"],
    ["measure"],
    ["checker"],
    ["ladder"],
    ["lab"],
    ["bench", "ci", "demo", "notebook"],
    ["__init__"],
    ["__main__"],
]
LEVEL = {layer: level for level, layers in enumerate(LAYERS) for layer in layers}


def modules(package: Path) -> dict[str, Path]:
    """The files by module name below the package: "ops", "checker.report", "checker.__init__"."""
    return {".".join(file.relative_to(package).with_suffix("").parts): file for file in package.rglob("*.py")}


def imports(name: str, text: str, known: set[str]) -> list[tuple[int, str]]:
    """Line and name of each module of the package that a module imports."""
    found = []

    def add(line: int, parts: list[str]) -> None:
        """Adds the longest module that a dotted name begins with: the rest are names in it."""
        for length in range(len(parts), 0, -1):
            module = ".".join(parts[:length])
            for candidate in (module, f"{module}.__init__"):
                if candidate in known or candidate == "_core":
                    found.append((line, candidate))
                    return
        found.append((line, "__init__"))

    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Import):
            for alias in node.names:
                first, *parts = alias.name.split(".")
                if first == PACKAGE:
                    add(node.lineno, parts)
        elif isinstance(node, ast.ImportFrom):
            parts = node.module.split(".") if node.module else []
            if node.level:
                parts = [PACKAGE, *name.split(".")[: -node.level], *parts]
            if parts[:1] == [PACKAGE]:
                for alias in node.names:
                    add(node.lineno, [*parts[1:], alias.name])
        elif isinstance(node, ast.Call) and ast.unparse(node.func).endswith("import_module") and node.args:
            first, *parts = str(getattr(node.args[0], "value", "")).split(".")
            if first == PACKAGE:
                add(node.lineno, parts)
    return found


def layer_of(module: str) -> str:
    return module.partition(".")[0]


def broken(package: Path) -> list[str]:
    """What breaks a rule, a line each."""
    files, lines, graph = modules(package), [], {}
    for name, file in sorted(files.items()):
        layer, where = layer_of(name), file.relative_to(package)
        if layer not in LEVEL:
            lines.append(f"{where}: {layer} is no layer")
            continue
        graph[name] = set()
        for line, other in imports(name, file.read_text(encoding="utf-8"), set(files)):
            graph[name].add(other)
            if layer_of(other) != layer and LEVEL.get(layer_of(other), 0) >= LEVEL[layer]:
                lines.append(f"{where}:{line}: imports {other}")
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        lines.append(f"a circle: {' ← '.join(error.args[1])}")
    return lines


def main(package: Path = ROOT / PACKAGE) -> int:
    lines = broken(package)
    for line in lines:
        print(line, file=sys.stderr)
    print(f"{len(modules(package))} files in {len(LEVEL)} layers, {len(lines)} against their order")
    return 1 if lines else 0


if __name__ == "__main__":
    sys.exit(main(*map(Path, sys.argv[1:])))
