"""Fits the thresholds of a policy to measured times: ``smemkit bench planner --fit``.

The data are rows of the suite `planner`: random problems, with the time of every kernel that takes them. The
policy in C chooses for each problem, in a dry run with the thresholds that are tried, so there is no second copy
of it here. The search is a coordinate descent over the thresholds that decide nothing but the choice of a kernel.
The policy of matmul predicts times: there a random search brings the prediction for each kernel near to its
measured times. It sees three of four problems; the others grade the result.
"""

from __future__ import annotations

import hashlib
import json
import math
import re
from argparse import ArgumentParser, Namespace
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import cache, cached_property
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from rich.console import Console
from rich.progress import track

from smemkit import _core, ops
from smemkit.bench import planner
from smemkit.bench.by_name import known_to_numpy
from smemkit.devices import Device

OPS = ("transpose", "reduce", "matmul")
UNKNOWN = 20.0  # times the fastest kernel's time: assumed for a choice that was not measured
HELD_OUT = 4  # one of so many problems is left out of the fit
FACTORS = (
    0.01,
    0.06,
    0.25,
    0.5,
    0.71,
    0.84,
    0.92,
    1.09,
    1.19,
    1.41,
    2.0,
    4.0,
    16.0,
    100.0,
)  # by which a threshold is multiplied
PASSES = 8  # over all thresholds, at most
SEED = 1  # of the measured problems; the reference file's have another one
ROUNDS, TRIES = 14, 60  # of the search for matmul: over its rows, and steps in each
STEP = 0.3  # the first steps, in logarithms
NEAR = 4  # one over it: how much slower than the fastest a kernel is that counts half as much
LEAST_GAIN = 0.0005  # of a squared distance, relative and in all; less is noise
MIN_GAIN = 0.05  # the least improvement of the sum of logarithms: 5 % of one problem's time; less is noise


class Attributes(NamedTuple):
    """The attributes of a device that a policy uses."""

    capability: int  # 90 for sm_90
    multiprocessors: int
    l2_bytes: int


H200 = Attributes(90, 132, 60 << 20)


class Threshold(NamedTuple):
    """A row of a policy's table, with its value on a device."""

    name: str
    value: int
    unit: str
    per_gpu: bool  # grows with the number of multiprocessors
    choice: bool  # decides only the choice of a kernel
    why: str


class Grade(NamedTuple):
    """How the choices compare with the fastest kernels."""

    problems: int
    good: int  # choices within planner.WITHIN of the fastest kernel
    worst: float  # the largest ratio of a choice's time and the fastest kernel's
    cost: float  # the mean logarithm of these ratios

    def __str__(self) -> str:
        share = self.good / self.problems if self.problems else 1.0
        return (
            f"{self.good} of {self.problems} ({share:.1%}) within {planner.limits()} of the fastest kernel, "
            f"worst {self.worst:.2f} times, mean {math.exp(self.cost):.3f} times"
        )


def thresholds(op: str, attributes: Attributes = H200) -> list[Threshold]:
    """The built-in thresholds of an op's policy for a device."""
    rows = _core.thresholds(op, attributes.capability, attributes.multiprocessors)
    return [Threshold(*row) for row in rows]


@dataclass(frozen=True)
class Measured:
    """A problem and the times of the kernels that take it.

    Attributes
    ----------
    op : str
        One of OPS, whose policy chooses.
    case : str
        The problem in words; it decides whether the problem is held out.
    function, arguments, keywords
        The call, without its operands.
    shapes, dtype
        Of the operands.
    times : dict
        Kernel → microseconds.
    partly_measured : bool
        Only some kernels were measured. Then it is never held out: the policy may choose another.
    """

    op: str
    case: str
    function: Callable[..., Any]
    shapes: tuple[tuple[int, ...], ...]
    dtype: np.dtype
    times: dict[str, float] = field(hash=False)
    arguments: tuple[Any, ...] = ()
    keywords: Mapping[str, Any] = field(default_factory=dict, hash=False)
    partly_measured: bool = False

    @cached_property
    def held_out(self) -> bool:
        """Whether it is excluded from the fit and grades it: one problem in HELD_OUT, the same on every run."""
        number = hashlib.sha256(f"{self.op} {self.case}".encode()).digest()[0]
        return not self.partly_measured and number % HELD_OUT == 0

    def choice(self, attributes: Attributes, values: Sequence[int] | None = None) -> str | None:
        """The kernel that the policy chooses; None if the call has several launches."""
        call = (*(_operand(shape, self.dtype) for shape in self.shapes), *self.arguments)
        keywords = {"device": "cpu", **self.keywords}
        launches = _core.dry_run_as(*attributes, self.op, values, self.function, call, keywords)
        return launches[0][1] if len(launches) == 1 and launches[0][0] == self.op else None

    def ratio(self, kernel: str | None) -> float:
        """The kernel's time divided by the fastest kernel's."""
        best = min(self.times.values())
        return self.times[kernel] / best if kernel in self.times else UNKNOWN


_memory = np.empty(0, np.uint8)  # shared by all operands, because a dry run reads no elements


@cache
def _operand(shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
    global _memory
    nbytes = math.prod(shape) * dtype.itemsize
    if _memory.size < nbytes + 256:
        _memory = np.empty(2 * nbytes + 256, np.uint8)  # twice: earlier operands keep the memory that they are in
    start = -_memory.ctypes.data % 256
    return _memory[start : start + nbytes].view(dtype).reshape(shape)


def read_rows(rows: Iterable[Mapping[str, Any]]) -> list[Measured]:
    """The measured problems in rows of the suites `planner` and `matmul`, as ``bench --json`` writes them.

    Raises
    ------
    ValueError
        A row is not one of the suite, or a time is not positive; the message says which row.
    """
    rows = list(rows)
    problems = [_read_row(index, row) for index, row in enumerate(rows) if row.get("suite") == "planner"]
    problems += _read_products_by_name(rows)
    problems = [problem for problem in problems if len(problem.times) > 1]
    if not problems:
        raise ValueError("data: expected rows of the suite 'planner' with the times of several kernels, got none")
    return problems


def _read_products_by_name(rows: Iterable[Mapping[str, Any]]) -> list[Measured]:
    """The products of the suite `matmul` whose kernels were measured by name, some of them large."""
    products: dict[tuple[Any, ...], dict[str, Any]] = {}
    for index, row in enumerate(rows):
        if row.get("suite") != "matmul" or not row.get("kernel") or row.get("cold"):
            continue
        dtype, shape = str(row.get("dtype")), tuple(row.get("shape") or ())
        if not known_to_numpy(dtype):
            continue
        case = f"{' x '.join(map(str, shape))}, {dtype}, by name"
        first = {"op": "matmul", "case": case, "dtype": dtype, "shape": shape, "us": row.get("us"), "peers": {}}
        product = products.setdefault((dtype, shape), {"index": index, **first})
        product["peers"].setdefault(row["kernel"], row.get("us"))  # the first is that with the usual options
    return [
        replace(_read_row(product.pop("index"), product), partly_measured=True) for product in products.values()
    ]


def _read_row(index: int, row: Mapping[str, Any]) -> Measured:
    try:
        op, shape, times = row["op"], tuple(map(int, row["shape"])), dict(row["peers"])
        times = {name: float(time) for name, time in times.items()}
        bad = [time for time in (float(row["us"]), *times.values()) if not 0 < time < math.inf]
        dtype, case = np.dtype(row["dtype"]), str(row["case"])
        axes, axis = row.get("axes"), row.get("axis")
    except (KeyError, TypeError, ValueError) as error:
        raise ValueError(
            f"data: row {index} is not one of the suites 'planner' and 'matmul': {error!r}"
        ) from error
    if bad or min(shape, default=0) < 1:
        raise ValueError(f"data: row {index}, {case}: expected positive times and lengths, got {bad or shape}")
    if op == "matmul":
        *batch, m, n, k = shape
        shapes = (*batch, m, k), (*batch, k, n)
        times = {name: time for name, time in times.items() if planner.may_be_chosen(op, shape, name)}
        return Measured(op, case, ops.matmul, shapes, dtype, times, keywords={"precision": row.get("precision")})
    if op == "transpose":
        return Measured(op, case, ops.transpose, (shape,), dtype, times, (axes,))
    reduction = "sum" if op == "reduce" else op
    return Measured("reduce", f"{op} {case}", ops.reduce, (shape,), dtype, times, (reduction, axis))


def grade(problems: Sequence[Measured], attributes: Attributes, values: Sequence[int] | None = None) -> Grade:
    """The policy's choices on these problems; `values`: its thresholds; the built-in ones if None."""
    ratios = [problem.ratio(problem.choice(attributes, values)) for problem in problems]
    good = (ratio <= planner.within(problem.op) for ratio, problem in zip(ratios, problems, strict=True))
    cost = sum(map(math.log, ratios)) / len(ratios) if ratios else 0.0
    return Grade(len(ratios), sum(good), max(ratios, default=1.0), cost)


@dataclass(frozen=True)
class Fit:
    """The thresholds of an op before and after the fit, and the grades of both on the held-out problems."""

    op: str
    before: list[Threshold]
    values: list[int]
    graded_before: Grade
    graded_after: Grade
    seen: int

    @property
    def changed(self) -> dict[str, tuple[int, int]]:
        """Name → value before and after."""
        pairs = zip(self.before, self.values, strict=True)
        return {row.name: (row.value, value) for row, value in pairs if row.value != value}

    @property
    def is_better(self) -> bool:
        """Whether the grade on the held-out problems is better. If it is the same, the fit has learnt noise."""
        return self.graded_after.cost < self.graded_before.cost

    def __str__(self) -> str:
        lines = [
            f"{self.op}: fitted to {self.seen} problems; on the others",
            f"  before: {self.graded_before}",
            f"  after:  {self.graded_after}",
        ]
        units = {row.name: row.unit for row in self.before}
        lines += [f"  {name}: {old} → {new} {units[name]}" for name, (old, new) in self.changed.items()]
        return "\n".join(lines)

    def to_dict(self) -> dict[str, Any]:
        """For `json.dumps`."""
        return {
            "op": self.op,
            "seen": self.seen,
            "before": self.graded_before._asdict(),
            "after": self.graded_after._asdict(),
            "thresholds": dict(zip((row.name for row in self.before), self.values, strict=True)),
        }


class _Timed(NamedTuple):
    """A kernel's measured times: the problems as `_core.predicted_matmul_times` takes them, the logarithms of the
    microseconds, and the weights, which are less where other kernels are faster."""

    problems: list[tuple[Any, ...]]
    logs: np.ndarray
    weights: np.ndarray


def _timed_kernels(problems: Sequence[Measured]) -> dict[str, _Timed]:
    found: dict[str, list[tuple[Any, float, float]]] = {}
    for problem in problems:
        (*batch, m, k), (*_, n) = problem.shapes
        size = problem.dtype, math.prod(batch), m, n, k
        for kernel, time in problem.times.items():
            weight = 1 / (1 + (NEAR * (problem.ratio(kernel) - 1)) ** 2)
            found.setdefault(kernel, []).append((size, math.log(time), weight))
    return {
        kernel: _Timed(
            [size for size, _, _ in rows], np.array([log for _, log, _ in rows]), np.array([w for *_, w in rows])
        )
        for kernel, rows in found.items()
    }


class _Predictions:
    """How far the predicted times are from the measured ones, by kernel."""

    def __init__(self, problems: Sequence[Measured], attributes: Attributes) -> None:
        self.timed, self.multiprocessors = _timed_kernels(problems), attributes.multiprocessors

    def times(self, kernel: str, values: Sequence[int]) -> list[float | None]:
        """The predicted microseconds; None for a kernel that the policy does not choose."""
        return _core.predicted_matmul_times(self.multiprocessors, values, kernel, self.timed[kernel].problems)

    def error(self, kernel: str, values: Sequence[int]) -> float:
        """The weighted sum of the squared logarithms of predicted divided by measured time. Where it is more than
        a factor of e, the distance counts linearly (Huber's loss): a few outliers do not decide."""
        timed, times = self.timed[kernel], self.times(kernel, values)
        known = np.array([time is not None for time in times])
        distance = np.abs(np.log(np.array([time or 1.0 for time in times])) - timed.logs)
        loss = np.where(distance < 1, distance**2, 2 * distance - 1)
        return float(np.sum(timed.weights * known * loss))

    def concerned(self, values: list[int], indices: Iterable[int]) -> list[str]:
        """The kernels whose predictions depend on some of the thresholds."""
        found = []
        for kernel in self.timed:
            times = self.times(kernel, values)
            if any(self.times(kernel, _with(values, {i: 3 * values[i] + 1})) != times for i in indices):
                found.append(kernel)
        return found


def _with(values: list[int], changed: Mapping[int, int]) -> list[int]:
    return [changed.get(i, value) for i, value in enumerate(values)]


def _rows_of(names: Sequence[str]) -> list[list[int]]:
    """The indices of thresholds in groups: the values of a row SPEED together, the others alone."""
    rows: dict[str, list[int]] = {}
    for index, name in enumerate(names):
        speed = _SPEED_VALUE.fullmatch(name)
        rows.setdefault(speed[1] if speed else name, []).append(index)
    return list(rows.values())


def _fit_times(problems: Sequence[Measured], attributes: Attributes, before: Sequence[Threshold]) -> list[int]:
    """The thresholds of matmul whose predictions are nearest to the measured times.

    A random search: steps that change several values of a row at once, because a slower start and a faster
    multiplication, say, give nearly the same times. The steps of a row grow as long as many of them succeed.
    """
    rng = np.random.default_rng(SEED)
    predictions = _Predictions(problems, attributes)
    values = [row.value for row in before]
    rows = [
        (indices, kernels)
        for indices in _rows_of([row.name for row in before])
        if (kernels := predictions.concerned(values, indices))
    ]
    steps = [STEP] * len(rows)
    for _ in range(ROUNDS):
        for number, (indices, kernels) in enumerate(rows):
            cost, improved = sum(predictions.error(kernel, values) for kernel in kernels), 0
            for _ in range(TRIES):
                factors = np.exp(
                    rng.standard_normal(len(indices)) * (rng.random(len(indices)) < 0.6) * steps[number]
                )
                changed = {i: max(1, round(values[i] * f)) for i, f in zip(indices, factors, strict=True)}
                tried = _with(values, changed)
                if tried == values:
                    continue
                if (
                    found := sum(predictions.error(kernel, tried) for kernel in kernels)
                ) < cost - LEAST_GAIN * max(cost, 1):
                    values, cost, improved = tried, found, improved + 1
            steps[number] *= 1.3 if improved > TRIES / 8 else 0.75
    return values


def fit(op: str, problems: Sequence[Measured], attributes: Attributes = H200) -> Fit:
    """The thresholds of an op's policy with the least mean logarithm of its choices' times relative to the fastest
    kernel's, on the problems that are not held out; of matmul: with the predictions nearest to the times."""
    own = [problem for problem in problems if problem.op == op]
    seen, held_out = [p for p in own if not p.held_out], [p for p in own if p.held_out]
    before = thresholds(op, attributes)
    values = [row.value for row in before]
    if op == "matmul":
        values = _fit_times(seen, attributes, before)
        return Fit(op, before, values, grade(held_out, attributes), grade(held_out, attributes, values), len(seen))
    cost = grade(seen, attributes, values).cost
    gain = MIN_GAIN / max(1, len(seen))
    for _ in range(PASSES if seen else 0):
        improved = False
        for index, row in enumerate(before):
            if not row.choice:
                continue
            start = values[index]
            for value in dict.fromkeys(max(1, round(start * factor)) for factor in FACTORS):
                tried = [*values[:index], value, *values[index + 1 :]]
                if (found := grade(seen, attributes, tried).cost) < cost - gain:
                    values, cost, improved = tried, found, True
        if not improved:
            break
    return Fit(op, before, values, grade(held_out, attributes), grade(held_out, attributes, values), len(seen))


# ---- writing the table ------------------------------------------------------------------------------------------


_SPEED = ("launch", "one", "many", "start", "empty", "odd_a", "odd_b")  # the values of a row SPEED
_SPEED_VALUE = re.compile(rf"(\w+?)_({'|'.join(_SPEED)})")


def fitted_gpus(csrc: Path) -> dict[int, tuple[str, int]]:
    """The rows of fitted_gpus.def: capability → column and multiprocessors."""
    text = (csrc / "ops" / "fitted_gpus.def").read_text(encoding="utf-8")
    rows = re.findall(r"^FITTED_GPU\((\w+), (\d+), (\d+), ", text, re.MULTILINE)
    return {int(capability): (column, int(count)) for column, capability, count in rows}


def write(result: Fit, csrc: Path, attributes: Attributes) -> Path:
    """Writes the changed values into the op's thresholds.def, in the column of the device's capability.

    Raises
    ------
    ValueError
        The capability has no column, or a threshold no row.
    """
    path = csrc / "ops" / result.op / "thresholds.def"
    columns = fitted_gpus(csrc)
    if attributes.capability not in columns:
        raise ValueError(
            f"{csrc / 'ops/fitted_gpus.def'}: expected a row for capability {attributes.capability}, got "
            f"{', '.join(map(str, columns))}: add it, and its macro in thresholds.h"
        )
    column, multiprocessors = columns[attributes.capability]
    text = path.read_text(encoding="utf-8")
    per_gpu = {row.name for row in result.before if row.per_gpu}
    for name, (_, value) in result.changed.items():
        if name in per_gpu:
            value = round(value * multiprocessors / attributes.multiprocessors)
        row = re.compile(rf'^((?:CHOICE|SPLIT)\({name}, \w+, "[^"]*", )([^"]*?)(,\s*")', re.MULTILINE)
        speed = _SPEED_VALUE.fullmatch(name)
        if speed and f"SPEED({speed[1]}, " in text:
            if found := re.search(rf"^SPEED\({speed[1]}, {column}, (.*)\)$", text, re.MULTILINE):
                numbers = found[1].split(", ")
                numbers[_SPEED.index(speed[2])] = str(value)
                text = text[: found.start(1)] + ", ".join(numbers) + text[found.end(1) :]
                continue
            raise ValueError(f"{path}: its rows SPEED have numbers of one GPU; another one needs columns there")
        if not (found := row.search(text)):
            raise ValueError(f"{path}: expected a row for {name}, got none")
        new = re.sub(rf"\s*{column}\((?:[^()]|\([^()]*\))*\)", "", found[2])
        text = text[: found.start(2)] + f"{new} {column}({value})".strip() + text[found.end(2) :]
    path.write_text(text, encoding="utf-8")
    return path


def load(path: Path) -> tuple[list[dict[str, Any]], Attributes]:
    """The rows of a file written by ``bench --json`` or ``--fit``, and the attributes of its device.

    Raises
    ------
    ValueError
        The file has another format, or the device is unknown.
    """
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
        rows, environment = content["rows"], content["environment"]
        if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
            raise TypeError("rows: expected a list of objects")
        if "attributes" in environment:
            return rows, Attributes(*map(int, environment["attributes"]))
    except (ValueError, KeyError, TypeError) as error:
        raise ValueError(
            f"{path}: expected a file that `smemkit bench planner --json` wrote: {error!r}"
        ) from error
    if environment.get("gpu") != "NVIDIA H200":
        raise ValueError(f"{path}: expected environment.attributes, or those of an NVIDIA H200; got neither")
    return rows, H200


# ---- the command line -------------------------------------------------------------------------------------------


def add_arguments(parser: ArgumentParser) -> None:
    """The options of ``smemkit bench planner --fit``."""
    group = parser.add_argument_group("bench planner --fit: the thresholds of the policies")
    group.add_argument(
        "--fit",
        action="store_true",
        help="measure random problems, fit the thresholds to three of four, and grade them on the others",
    )
    group.add_argument(
        "--problems", metavar="N", type=int, default=400, help="number of problems to measure (default 400)"
    )
    group.add_argument(
        "--data",
        metavar="FILE",
        type=Path,
        nargs="+",
        help="fit to the rows of JSON files of one GPU, without measuring",
    )
    group.add_argument(
        "--source",
        metavar="FOLDER",
        type=Path,
        help="smemkit's source folder, whose tables are updated",
    )


def attributes_of(device: Device) -> Attributes:
    """The attributes of a GPU that the policies use."""
    major, minor = device.capability
    return Attributes(10 * major + minor, device.multiprocessors, device.l2_bytes)


def main(arguments: Namespace) -> int:
    """Runs ``smemkit bench planner --fit``."""
    csrc = arguments.source and arguments.source / "csrc"
    if csrc and not (csrc / "ops" / "fitted_gpus.def").is_file():
        raise ValueError(f"--source: expected smemkit's source folder, got {arguments.source}")
    if arguments.data:
        loaded = [load(path) for path in arguments.data]
        rows, attributes = [row for rows, _ in loaded for row in rows], loaded[0][1]
        if any(other != attributes for _, other in loaded):
            raise ValueError(f"--data: expected files of one GPU, got {[tuple(other) for _, other in loaded]}")
    else:
        rows, attributes = _measure(arguments)
    problems = read_rows(rows)
    for op in OPS:
        if not any(problem.op == op for problem in problems):
            print(f"{op}: not fitted: the data have no problems of it")
            continue
        result = fit(op, problems, attributes)
        print(result)
        if csrc and result.is_better:
            print(f"  wrote {write(result, csrc, attributes)}")
    return 0


def _measure(arguments: Namespace) -> tuple[list[dict[str, Any]], Attributes]:
    """Measures random problems, which are not those of the reference file, and writes the rows to a file."""
    device = Device(arguments.device)
    if not device.is_cuda:
        why = _core.cuda_unavailable() or f"this run is on {device.name}"
        raise _core.NoDeviceError(f"bench --fit: it needs a CUDA device, or --data: {why}")
    if arguments.problems < HELD_OUT:
        raise ValueError(f"--problems: expected at least {HELD_OUT}, got {arguments.problems}")
    attributes, rows, products = attributes_of(device), [], arguments.problems // len(OPS)
    problems = [
        *planner.random_problems(arguments.problems - products, planner.MAX_BYTES, SEED),
        *planner.random_products(products, planner.MAX_BYTES, SEED),
    ]
    path = arguments.json or Path(f"fit-{device.description.lower().replace(' ', '-')}.json")
    try:
        for row in track(problems, "problems", console=Console(stderr=True), transient=True):
            rows.append(asdict(planner.grade(row, device)))
    finally:
        if rows:  # what was measured is kept, whatever ends the run
            store(path, {"gpu": device.description, "attributes": attributes}, rows)
            print(f"wrote {path}: {len(rows)} problems")
    return rows, attributes


def store(path: Path, environment: Mapping[str, Any], rows: Sequence[Mapping[str, Any]]) -> None:
    """Writes what `load` reads, a row per line: without fields that do not apply, and times with four digits."""
    texts = []
    for row in rows:
        fields = {key: value for key, value in row.items() if value is not None and key in _STORED}
        fields["us"] = float(f"{row['us']:.4g}")
        fields["peers"] = {name: float(f"{time:.4g}") for name, time in row["peers"].items()}
        texts.append(json.dumps(fields))
    text = f'{{"environment": {json.dumps(environment)},\n"rows": [\n' + ",\n".join(texts) + "\n]}\n"
    path.write_text(text, encoding="utf-8")


_STORED = ("suite", "op", "case", "dtype", "shape", "axis", "axes", "precision", "us", "peers")
