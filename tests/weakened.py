"""Weakens the synchronisation of correct kernels, in one place at a time: the checker has to report a fault.

    python tests/weakened.py                   every kernel: how many weakenings are found, and which are not
    python tests/weakened.py spin_lock …       these kernels only

Barriers, fences and waits are deleted, fences of the device become fences of the block, atomics become a load and
a store, acquire and release become relaxed, and masks lose half of their lanes. A kernel is compiled once: an
argument of the launch chooses the weakening. checker/test_weakened.py lists those that are not found, and why.

tools/mutants.py does the same to smemkit itself, where the tests have to fail.
"""

import re
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from kernel_files import TESTS, read

import smemkit
from smemkit.cuda_source.lexer import mask
from smemkit.user_kernel.program import Program

SCHEDULES = ("serial", "lockstep", "random")
KERNELS = TESTS.parent / "kernels"

# The checker must not see the accesses to the number of the chosen weakening: hence no_sanitize.
PROLOGUE = """
static __device__ __attribute__((no_sanitize("thread"), noinline)) int weakening(int chosen = -2)
{
    static int now;
    return chosen == -2 ? now : now = chosen;
}
static __device__ __attribute__((no_sanitize("thread"), noinline)) bool weak(int site)
{
    return weakening() == site;
}
#define PLAIN(name, result)        \\
    template <class T, class V>    \\
    __device__ T name(T *p, V v)   \\
    {                              \\
        T old = *p;                \\
        *p = result;               \\
        return old;                \\
    }
PLAIN(plainAdd, old + v)
PLAIN(plainExch, v)
PLAIN(plainMax, old < v ? v : old)
PLAIN(plainOr, old | v)
PLAIN(plainInc, old >= v ? 0 : old + 1)
template <class T, class E, class V>
__device__ T plainCAS(T *p, E expected, V v)
{
    T old = *p;
    if (old == expected)
        *p = v;
    return old;
}
"""

ORDERING = re.compile(
    r"(?:\b__syncthreads|\b__syncwarp|\b(?:cg::)?sync|\b[\w:]+(?:\(\))?\.sync|\b__pipeline_(?:wait_prior|commit))\s*\("
)
FENCE = re.compile(r"\b__threadfence(?:_block|_system)?\s*\(")
ATOMIC = re.compile(r"\batomic(Add|Exch|Max|Or|Inc|CAS)\s*\(")
COLLECTIVE = re.compile(r"\b__(?:shfl|ballot|any|all|match|reduce|syncwarp)\w*\s*\((?=[^)])")
ASSEMBLY = re.compile(r"\basm volatile\s*\(")
ORDERS_NOTHING = re.compile(r"(?:ldmatrix|stmatrix|movmatrix|mma|wgmma\.mma_async)\.")  # they only compute
ORDER = re.compile(r"\bcuda::memory_order_(?:acquire|release|acq_rel)\b")


@dataclass(frozen=True)
class SyncMutation:
    """A weakening of text[start:end]. `before` and `after` go around it, so that the launch can choose it; `{}` is
    its number."""

    start: int
    end: int
    what: str
    before: str
    after: str = ")"


def closing(masked: str, at: int) -> int:
    """The position after the parenthesis that closes the one before `at`."""
    depth = 1
    while depth:
        depth += {"(": 1, ")": -1}.get(masked[at], 0)
        at += 1
    return at


def kernels(masked: str) -> Iterator[tuple[str, range]]:
    """Yields the name of each kernel in a masked source, and the range of its parameters and body."""
    for head in re.finditer(r"__global__[^;{}]*?\b(\w+)\s*\(", masked):
        at = masked.find("{", closing(masked, head.end()))
        end, depth = at, 0
        while at >= 0 and (depth or end == at):
            depth += {"{": 1, "}": -1}.get(masked[end], 0)
            end += 1
        yield head[1], range(head.end(), end)


def instruction_of(assembly: str) -> str:
    """The name of the first instruction of an asm statement, after the predicates that it declares and sets."""
    lines = "".join(re.findall(r'"([^"]*)"', assembly)).replace("\\n", ";").replace("\\t", " ")
    names = [line.split()[0] for line in re.split("[{};]", lines) if line.strip()]
    return next(name for name in names if not name.startswith((".reg", "setp")))


def weakenings(text: str, kernel: str) -> list[SyncMutation]:
    """The weakenings of a source, except in other kernels, by position; outer ones before inner ones."""
    masked, found = mask(text), []
    other_kernels = [span for name, span in kernels(masked) if name != kernel]

    def add(start: int, end: int, what: str, weak: str) -> None:
        found.append(SyncMutation(start, end, what, f"(weak({{}}) ? {weak} : "))

    for match in ORDERING.finditer(masked):
        end = closing(masked, match.end())
        if not re.search(r"\bvoid\s*$", masked[: match.start()]):  # the definition of a sync()
            add(match.start(), end, f"{text[match.start() : end]} deleted", "(void)0")
    for match in FENCE.finditer(masked):
        end, name = closing(masked, match.end()), match[0].rstrip("( ")
        add(match.start(), end, f"{name}() deleted", "(void)0")
        if name == "__threadfence":
            add(match.start(), end, "__threadfence() of the block", "__threadfence_block()")
    for match in ATOMIC.finditer(masked):
        end = closing(masked, match.end())
        add(match.start(), end, f"atomic{match[1]} plain", f"plain{match[1]}({text[match.end() : end]}")
    for match in COLLECTIVE.finditer(masked):
        end = match.end() + re.search(r"[,)]", masked[match.end() :]).start()
        add(match.end(), end, f"mask of {match[0][:-1]} halved", f"({text[match.end() : end]}) & 0xffffu")
    for match in ORDER.finditer(masked):
        add(match.start(), match.end(), f"{match[0][6:]} relaxed", "cuda::memory_order_relaxed")
    for match in ASSEMBLY.finditer(masked):
        end = masked.index(";", match.end()) + 1
        instruction = instruction_of(text[match.start() : end])
        if not ORDERS_NOTHING.match(instruction):
            found.append(SyncMutation(match.start(), end, f"{instruction} deleted", "{{ if (!weak({})) ", "}"))
    found = [site for site in found if not any(site.start in span for span in other_kernels)]
    return sorted(found, key=lambda site: (site.start, -site.end))


def weakened(text: str, kernel: str) -> str:
    """The source with all weakenings. The kernel gets a last parameter: the number of the active one, or -1."""
    text = re.sub(
        r"^template\s+__global__.*;$", "", text, flags=re.MULTILINE
    )  # explicit instantiations, which have the old parameters
    masked = mask(text)
    begin = dict(kernels(masked))[kernel].start
    parameters = closing(masked, begin) - 1
    comma = ", " if masked[begin:parameters].strip() else ""
    pieces = [
        (parameters, 0, f"{comma}int chosen"),
        (masked.index("{", parameters) + 1, 0, " weakening(chosen);"),
    ]
    for number, site in enumerate(weakenings(text, kernel)):
        pieces.append((site.start, 1 + number, site.before.format(number)))
        pieces.append((site.end, -1 - number, site.after))
    at, result = 0, [PROLOGUE]
    for position, _, piece in sorted(pieces):
        result += [text[at:position], piece]
        at = position
    return "".join([*result, text[at:]])


@dataclass(frozen=True)
class Case:
    """A correct kernel and a launch of it."""

    path: Path
    name: str  # of the kernel
    launch: tuple
    operands: Callable[[], tuple]
    instance: str = ""  # of a template: "<float>"
    options: tuple[str, ...] = ()

    def __str__(self) -> str:
        return self.path.stem

    @cached_property
    def sites(self) -> list[SyncMutation]:
        return weakenings(self.path.read_text(), self.name)

    @cached_property
    def kernel(self) -> smemkit.Kernel:
        source = weakened(self.path.read_text(), self.name)
        # only the checked build is used
        return smemkit.Kernel._to_check(source, self.name + self.instance, options=self.options)

    def label(self, number: int) -> str:
        site = self.sites[number]
        line = self.path.read_text().count("\n", 0, site.start) + 1
        return f"{self}:{line} {site.what}"

    def check(self, number: int, schedule: str) -> smemkit.Report:
        return smemkit.check(self.kernel[self.launch], *self.operands(), number, schedule=schedule)

    def survivors(self) -> dict[str, tuple[str, ...]]:
        """The labels of the weakenings that are not found, with the schedules that miss them."""
        missed = {n: tuple(s for s in SCHEDULES if self.check(n, s).ok) for n in range(len(self.sites))}
        return {self.label(n): schedules for n, schedules in missed.items() if schedules}


# ---- the kernels ----


def floats(*shape: int) -> np.ndarray:
    return np.random.default_rng(0).integers(-9, 9, shape).astype(np.float32)


def right(path: Path) -> Case:
    """A kernel of tests/right, launched as its comments say."""
    case = read(path)
    # not `smemkit.Kernel(path).name`, which is of a kernel that has been compiled
    name, _, rest = (case.kernel or Program(path, ()).default()).partition("<")
    launch = case.grid, case.block, case.shared
    return Case(path, name, launch, lambda: tuple(case.operands().values()), "<" * bool(rest) + rest)


def textbook(stem: str, name: str, launch: tuple, *operands: Any) -> Case:
    return Case(TESTS / "textbook" / f"{stem}.cu", name, launch, lambda: operands)


def rung(file: str, name: str, instance: str, launch: tuple, *operands: Any) -> Case:
    """A rung, from its own file."""
    return Case(KERNELS / file, name, launch, lambda: operands, instance, (f"-I{(KERNELS / file).parent}",))


def cases() -> dict[str, Case]:
    """All cases, by file name."""
    body, bytes_ = np.abs(floats(64, 4)), np.random.default_rng(0).integers(0, 256, 3000).astype(np.uint8)
    square, corner = floats(20, 20), np.zeros(1, "i8,i8")[0]
    found = [
        *map(right, sorted((TESTS / "right").glob("*.cu"))),
        textbook("dot", "dot", (4, 256), 3000, floats(3000), floats(3000), np.zeros(8, np.float32)),
        textbook("histogram", "histogram", (2, 256), bytes_, bytes_.size, np.zeros(256, np.uint32)),
        textbook(
            "matmul", "MatMulTiled", ((2, 2), (16, 16)), floats(19, 35), floats(35, 21), floats(19, 21), 19, 21, 35
        ),
        textbook("transpose", "transposeNoBankConflicts", ((2, 2), (32, 8)), floats(64, 64), floats(64, 64)),
        textbook("stencil", "stencil_1d", (2, 64), np.arange(134, dtype=np.int32), np.zeros(128, np.int32)),
        textbook("scan", "prescan", (1, 32, 4 * 66), floats(64), floats(64), 64),
        textbook("nbody", "calculate_forces", (2, 32, 512), body, floats(64, 4), 64, 32),
        textbook(
            "warp_reduce", "deviceReduceKernel", (2, 128), np.ones(1000, np.float16), np.zeros(1, np.float32), 1000
        ),
        rung("reverse/ladder/10_static.cu", "reverse_static", "<float>", (2, 64), floats(128), floats(128), 128),
        rung(
            "reverse/ladder/20_dynamic.cu",
            "reverse_dynamic",
            "<float>",
            (2, 64, 256),
            floats(128),
            floats(128),
            128,
        ),
        rung(
            "transpose/ladder/30_unpadded.cu",
            "transpose_unpadded",
            "<float, 32>",
            (1, (32, 8)),
            square,
            +square,
            20,
            20,
            corner,
        ),
        rung(
            "transpose/ladder/40_padded.cu",
            "transpose_padded",
            "<float, 32, 1>",
            (1, (32, 8)),
            square,
            +square,
            20,
            20,
            corner,
        ),
    ]
    return {str(case): case for case in found if case.sites}


def main() -> int:
    all_cases = cases()
    for name in sys.argv[1:] or all_cases:
        case = all_cases[name]
        missed = case.survivors()
        print(f"{name}: {len(case.sites) - len(missed)} of {len(case.sites)} found", flush=True)
        for label, schedules in missed.items():
            print(f"    {label}  [{', '.join(schedules)}]", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
