"""Which tests run, and what they may cost.

`pytest` runs the default tier, in three minutes on two cores: tests for the available devices, without those
marked `slow`. A test marked `covering` runs, on each device, only enough cases to have every value of every
parameter, and every pair of values of two parameters, at least once. `covering(1)` leaves out the pairs;
`covering(most=3)` takes three of these cases, evenly spaced from the first to the last. `pytest --full` runs all
tests; `pytest --rest` runs those that the default tier leaves out, or repeats less often.

Each test function of the default tier has a budget of CPU time for all its cases together: two seconds, or, on a
machine that is slow or shared, a sixtieth of what all functions take. `pytest --budget` fails if a function
exceeds it, and names the function. Fixtures with a wider scope than a function do not count.
"""

import collections
import gc
import heapq
import inspect
import itertools
import re
import resource
import time

import pytest

SECONDS = 2.0  # of CPU time per test function
# of the CPU time of all test functions, where this is more: the same tests have taken 260 s and 600 s, and the
# share of a function has differed by a third between two runs
SHARE = 1 / 60
LONGEST = 40  # test functions that are named with --full and --rest

DEVICES = {}  # the tested devices' names, and the marks of their tests; filled by `pytest_configure`
tier = {"full": False}  # set by `pytest_configure`
used = collections.Counter()  # CPU seconds by test function, of all xdist workers


# ---- options ----------------------------------------------------------------------------------------------------


def pytest_addoption(parser):
    group = parser.getgroup("smemkit")
    group.addoption("--full", action="store_true", help="run every test, not only the default tier")
    group.addoption("--rest", action="store_true", help="run what --full adds to the default tier")
    group.addoption("--devices", help='such as "cpu" or "cpu,cuda:0"; default: the available devices')
    group.addoption("--budget", action="store_true", help="fail if a test function exceeds its budget of CPU time")


def devices(config):
    """The names of the devices that tests run on."""
    if asked := config.getoption("devices"):
        return asked.split(",")
    try:
        from smemkit import _core
    except ImportError:  # the executor's own tests need no package
        return ["cpu"]
    return ["cpu"] if _core.cuda_unavailable() else ["cpu", "cuda:0"]


@pytest.hookimpl(tryfirst=True)  # xdist reads the options in this hook, too
def pytest_cmdline_main(config):
    """Tests on a GPU go to one process, because they share its memory (`GpuGroup`). Without a GPU, and without
    --full, processes that run out of tests take some of another's: this costs less per test than to send each to a
    process by itself, and nearly all tests of a group (`xdist_group`) stay in one process."""
    if config.getoption("dist", "no") == "no" and config.getoption("numprocesses", None):
        all_tests = config.getoption("full") or config.getoption("rest")
        config.option.dist = "worksteal" if devices(config) == ["cpu"] and not all_tests else "loadgroup"


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node):
    """Tells xdist's process what `pytest_cmdline_main` has chosen: the process reads only the command line."""
    node.workerinput["dist"] = node.config.option.dist


@pytest.hookimpl(wrapper=True)
def pytest_collection():
    """Collects the tests without garbage collections, which would scan them again and again."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.enable()


def pytest_generate_tests(metafunc):
    """Runs a test that takes `device`, and has no own parameters for it, on each device."""
    names = [name for mark in metafunc.definition.iter_markers("parametrize") for name in parameter_names(mark)]
    if "device" in metafunc.fixturenames and "device" not in names:
        cases = [pytest.param(name, marks=marks) for name, marks in DEVICES.items()]
        metafunc.parametrize("device", cases, indirect=True)


def parameter_names(mark):
    """The names of a parametrize mark's parameters."""
    names = mark.args[0]
    return [name.strip() for name in names.split(",")] if isinstance(names, str) else names


def times(full, default):
    """`full` with --full or --rest, otherwise `default`. For tests and their decorators, where --rest looks."""
    return full if tier["full"] else default


# ---- selection --------------------------------------------------------------------------------------------------


def function_node_id(nodeid):
    return nodeid.partition("[")[0]


def levels(item):
    """Yields (name, hashable value) of each parameter; of a kernel its row, dtype and options."""
    for name, value in item.callspec.params.items():
        if hasattr(value, "row") and hasattr(value, "dtype"):
            yield f"{name}.row", (value.row.op, "default" if value.default else value.row.name)
            yield f"{name}.dtype", value.dtype
            yield f"{name}.options", value.options
        else:
            plain = isinstance(value, (str, bytes, int, float, tuple, type(None)))
            yield name, repr(value) if plain else id(value)


def covering(items, strength=2, most=None):
    """A few of the cases, chosen greedily, that contain each occurring combination of `strength` values; or `most`
    of them, evenly spaced from the first to the last."""
    wanted = []
    for item in items:
        values = tuple(levels(item))
        wanted.append({*values, *itertools.combinations(values, strength)} if strength > 1 else set(values))
    covered, chosen = set(), set()
    queue = [(-len(pairs), i) for i, pairs in enumerate(wanted)]
    heapq.heapify(queue)
    while queue:
        count, i = heapq.heappop(queue)
        left = len(wanted[i] - covered)
        if left == -count:
            chosen.add(i)
            covered |= wanted[i]
        elif left:
            heapq.heappush(queue, (-left, i))
    chosen = sorted(chosen)
    if most is not None and most < len(chosen):
        chosen = [chosen[i * (len(chosen) - 1) // max(most - 1, 1)] for i in range(most)]
    return [items[i] for i in chosen]


def select_default_tier(items):
    """The tests of the default tier."""
    groups = collections.defaultdict(list)
    for item in items:
        if not item.get_closest_marker("slow"):
            device = item.callspec.params.get("device") if hasattr(item, "callspec") else None
            groups[function_node_id(item.nodeid), str(device)].append(item)
    chosen = set()
    for group in groups.values():
        mark = group[0].get_closest_marker("covering")
        chosen |= set(covering(group, *mark.args, **mark.kwargs) if mark else group)
    return chosen


def is_added_by_full(item, default):
    """Whether --full adds a test to the default tier, or makes it do more."""
    return item not in default or re.search(r"\btimes\(", inspect.getsource(item.function)) is not None


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config, items):
    gpus = set(DEVICES) - {"cpu"}
    kept = [item for item in items if gpus or not item.get_closest_marker("gpu")]
    if not config.getoption("full"):
        default = select_default_tier(kept)
        rest = config.getoption("rest")
        kept = [
            item for item in kept if (not rest and item in default) or (rest and is_added_by_full(item, default))
        ]
    chosen = set(kept)
    config.hook.pytest_deselected(items=[item for item in items if item not in chosen])
    items[:] = kept


# ---- budget -----------------------------------------------------------------------------------------------------


def cpu_seconds():
    """CPU time of this process and of the child processes that it has waited for."""
    children = resource.getrusage(resource.RUSAGE_CHILDREN)
    return time.process_time() + children.ru_utime + children.ru_stime


class GpuGroup:
    """Has one process run all tests on a GPU, because they share its memory."""

    @pytest.hookimpl(tryfirst=True)  # xdist reads the marks in this hook, too
    def pytest_collection_modifyitems(self, items):
        for item in items:
            if item.get_closest_marker("gpu"):
                item.add_marker(pytest.mark.xdist_group("gpu"))


class CpuTimeMeter:
    """Measures the CPU time of each phase of a test, without fixtures of a wider scope."""

    def __init__(self):
        self.shared = 0.0

    @pytest.hookimpl(wrapper=True)
    def pytest_fixture_setup(self, fixturedef, request):
        begin, before = cpu_seconds(), self.shared
        try:
            return (yield)
        finally:
            if fixturedef.scope != "function":
                self.shared = before + cpu_seconds() - begin

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item, nextitem):
        self.begin, self.shared = cpu_seconds(), 0.0
        return (yield)

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(self, item, call):
        report = yield
        now = cpu_seconds()
        report.cpu_seconds = now - self.begin - self.shared
        self.begin, self.shared = now, 0.0
        return report


def pytest_configure(config):
    if hasattr(config, "workerinput"):
        config.option.loadgroup = config.workerinput["dist"] == "loadgroup"
    tier["full"] = config.getoption("full") or config.getoption("rest")
    for name in devices(config):
        DEVICES[name] = () if name == "cpu" else (pytest.mark.gpu,)
    config.pluginmanager.register(CpuTimeMeter())
    config.pluginmanager.register(GpuGroup())


def pytest_runtest_logreport(report):
    used[function_node_id(report.nodeid)] += getattr(report, "cpu_seconds", 0.0)


def budget():
    """The CPU seconds that a test function may take."""
    return max(SECONDS, SHARE * sum(used.values()))


def functions_over_budget(config):
    """(test function, CPU seconds) of each function over the budget."""
    if not config.getoption("budget") or tier["full"]:
        return []
    return [(name, seconds) for name, seconds in used.most_common() if seconds > budget()]


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session, exitstatus):
    if exitstatus == 0 and not hasattr(session.config, "workerinput") and functions_over_budget(session.config):
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


def pytest_terminal_summary(terminalreporter, config):
    for name, seconds in functions_over_budget(config):
        terminalreporter.write_line(
            f"{name} took {seconds:.1f} CPU-s; the budget of a test function is {budget():.2g}. Mark it "
            "`covering` or `slow`, or make it do less",
            red=True,
        )
    for name, seconds in used.most_common(LONGEST) if tier["full"] else ():
        terminalreporter.write_line(f"{seconds:6.1f} CPU-s {name}")
    terminalreporter.write_line(f"{sum(used.values()):.0f} CPU-s in {len(used)} test functions")
