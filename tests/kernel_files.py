"""Kernels in files that say in comments how they are run, and what the checker finds in them.

Each faulty/NAME.cu has one mistake, faulty/NAME.fixed.cu is the same kernel without it, and right/*.cu have
none. A file begins with comments that say what it is and how to run it:

    // The idea, or the mistake, in one line.
    // topic: buffer reuse                      the kind of mistake, in faulty files
    // launch: grid 2x2, block 64, shared 256
    // kernel: name                             if the file has several
    // chain: first(x), second(x, y)            instead: launches that may overlap, with these arguments
    // arg x: float[128] = random               as for `smemkit check --arg`, in the signature's order
    // schedule: lockstep                       instead of serial
    // fault: race RAW warp-synchronous         the expected fault: kind, hazard, and whether within a warp;
                                                other kinds that may be found at ALSO

Further comments mark the lines. HERE is Fault.line, THERE is Fault.other_line; for a race they may be swapped,
and a race without THERE is one of a line with itself. At ALSO more faults may be found.
"""

import re
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import smemkit
from smemkit.user_kernel.launch_text import parse_argument, parse_dimensions

TESTS = Path(__file__).resolve().parent
HEADER = re.compile(r"// (topic|launch|kernel|chain|arg \w+|schedule|fault): (.*)\n")
LAUNCH = re.compile(r"grid ([\dx]+), block ([\dx]+)(?:, shared (\d+))?")
CALL = re.compile(r"(\w+)\(([\w, ]*)\)")
MARK = re.compile(r"// (HERE|THERE|ALSO)$", re.MULTILINE)


@dataclass(frozen=True)
class Case:
    """A source file and the content of its comments."""

    path: Path
    topic: str
    kernel: str | None
    chain: tuple  # pairs (kernel, names of its arguments); empty: one launch, with all arguments
    grid: tuple
    block: tuple
    shared: int
    schedule: str
    arguments: tuple  # pairs (name, description)
    fault: tuple  # words
    marks: dict  # line → HERE, THERE or ALSO

    def check(self, operands=None, source=None, shared=None, **options):
        """The checker's report: of these arguments, and of another source and size of shared memory."""
        launch, args = self.launch(self.operands() if operands is None else operands, source, shared)
        return smemkit.check(launch, *args, **{"schedule": self.schedule, **options})

    def run(self, operands):
        """Launches it with these arguments."""
        launch, args = self.launch(operands)
        launch(*args)

    def launch(self, operands, source=None, shared=None):
        """The launch, or the chain of launches, and its arguments."""
        kernel = kernel_of(self) if source is None else not_compiled_yet(source, self.kernel)
        shape = self.grid, self.block, self.shared if shared is None else shared
        if not self.chain:
            return kernel[shape], tuple(operands.values())
        bound = [kernel[name][shape].bind(*(operands[one] for one in names)) for name, names in self.chain]
        return smemkit.chain(*bound), ()

    def operands(self):
        texts = enumerate(self.arguments)
        return {name: parse_argument(text, index) for index, (name, text) in texts}

    def arrays(self, operands):
        """The arrays of operands, of which some are tensor maps."""
        return {
            name: value.array if isinstance(value, smemkit.TensorMap) else value
            for name, value in operands.items()
        }

    def line(self, mark):
        return next((line for line, found in self.marks.items() if found == mark), None)

    def __hash__(self):
        return hash(self.path)


@cache
def kernel_of(case):
    return not_compiled_yet(case.path, case.kernel)


def not_compiled_yet(source, name):
    """A kernel whose builds are compiled when a launch or a check needs them: few need both."""
    return smemkit.Kernel._to_check(source, name, options=())


def read(path):
    text = path.read_text()
    header = dict(HEADER.findall(text))
    grid, block, shared = LAUNCH.fullmatch(header["launch"]).groups()
    return Case(
        path,
        header.get("topic", ""),
        header.get("kernel"),
        tuple((name, tuple(re.findall(r"\w+", names))) for name, names in CALL.findall(header.get("chain", ""))),
        parse_dimensions(grid, "grid"),
        parse_dimensions(block, "block"),
        int(shared or 0),
        header.get("schedule", "serial"),
        tuple((key[4:], value) for key, value in header.items() if key.startswith("arg ")),
        tuple(header.get("fault", "").split()),
        {text.count("\n", 0, mark.start()) + 1: mark[1] for mark in MARK.finditer(text)},
    )
