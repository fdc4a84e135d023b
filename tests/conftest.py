"""What every test may ask for."""

import gc
import os
import random
import signal
import sys
import time
from collections.abc import Callable, Generator, Iterator
from pathlib import Path

import pytest

from deskyard.host import changes
from deskyard.host.places import places
from tests.support import npm, samples
from tests.support.requirements import need_programs

READY_SECONDS = 300.0
# Of a run that is worth a look at what it costs.
LONG_SECONDS = 300.0

SEED = int(os.environ.get("DESKYARD_SEED") or random.SystemRandom().randrange(2**32))
# The other processes of a parallel run start from the same seed.
os.environ["DESKYARD_SEED"] = str(SEED)
# Selenium's manager asks two servers of the internet for drivers and sends statistics: a browser without a driver of
# its own fails instead.
os.environ |= {"SE_MANAGER_PATH": "/bin/false", "SE_OFFLINE": "true", "SE_AVOID_STATS": "true"}
# Pulumi's engine and its plugin are started a thousand times and end within seconds: most of what their garbage
# collectors do is for nothing.
os.environ.setdefault("GOGC", "400")
# Each process that imports pydantic would look for its plugins in all that is installed; there are none.
os.environ.setdefault("PYDANTIC_DISABLE_PLUGINS", "__all__")
# Hypothesis would have Trio's randomness registered, for which it looks through all that is imported, in each process
# of a run; no test of ours has both.
os.environ.setdefault("HYPOTHESIS_NO_PLUGINS", "1")
# Where nothing may be written beside the sources, each of the thousand Pythons of a run would compile all that it
# imports, which is half of its start: the bytecode goes to the cache instead.
if os.environ.pop("PYTHONDONTWRITEBYTECODE", ""):
    os.environ.setdefault("PYTHONPYCACHEPREFIX", str(places().cache / "bytecode"))
    sys.dont_write_bytecode, sys.pycache_prefix = False, os.environ["PYTHONPYCACHEPREFIX"]


# What takes longest stands at the beginning: at the end of a run it would keep one process busy, and the others idle.
LONGEST = (
    "tests/mutation/test_sample.py",
    "tests/contract/test_linters.py::test_ansible_lint_finds_nothing",
    "tests/contract/test_linters.py::test_types_hold",
    "tests/proxmox/test_guests_in_workspace.py",
    "tests/gateway/test_half_open.py",
)


def pytest_xdist_auto_num_workers() -> int:
    """Three for two processors: many a test waits for what a firewall drops, for a clock, or for a machine to boot."""
    return max(1, 3 * len(os.sched_getaffinity(0)) // 2)


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Leave what is imported and found to the end: to look through all of it for garbage again and again takes longer
    than the imports, in each process of a run, and each test would go on with it.
    """
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Begin with the longest, and end with what is sampled; the others keep their order."""
    places = {name: place for place, name in enumerate(LONGEST)}
    items.sort(key=lambda item: min(places.get(item.nodeid, len(LONGEST)), places.get(_file(item), len(LONGEST))))
    if not samples.has_all(config.option.markexpr, config.args):
        samples.put_last(items, SEED, getattr(config, "workerinput", {}).get("workercount", 1))
    elif config.option.markexpr == "deep":
        for item in items:
            if samples.is_sampled(item):
                item.add_marker(pytest.mark.deep)


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Leave out of a run that is old what is sampled."""
    samples.leave_out(item, time.monotonic() - samples.BEGUN)


def _file(item: pytest.Item) -> str:
    return item.nodeid.partition("::")[0]


def pytest_report_header() -> str:
    """Name the seed, so that a failure of a sample can be had again."""
    return f"seed of random samples: {SEED} (again with DESKYARD_SEED={SEED})"


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Say after a long run where its time went, in all of its processes."""
    seconds: dict[str, float] = {}
    for report in (report for reports in terminalreporter.stats.values() for report in reports):
        if isinstance(report, pytest.TestReport):
            folder = "/".join(report.nodeid.split("/")[:2])
            seconds[folder] = seconds.get(folder, 0.0) + report.duration
    if sum(seconds.values()) > LONG_SECONDS:
        longest = sorted(seconds.items(), key=lambda item: -item[1])
        terminalreporter.section("seconds of all processes by folder")
        terminalreporter.write_line("  ".join(f"{folder} {spent:.0f}" for folder, spent in longest))


@pytest.fixture(scope="session")
def random_seed() -> int:
    """The seed of whatever a test leaves to chance; `./inv check.deep --seed` and DESKYARD_SEED set it."""
    return SEED


@pytest.fixture(autouse=True, scope="session")
def changes_of_tests(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """What tests do by tasks in this process is noted among no host's changes, unless they have a home of their own."""
    place, folder = changes.place, tmp_path_factory.getbasetemp() / "changes"
    changes.place = lambda: place() if "DESKYARD_HOME" in os.environ else folder
    yield
    changes.place = place


@pytest.fixture
def ctrl_c() -> Iterator[None]:
    """Ctrl-C interrupts, also where the tests were started in the background by a shell that ignores it for them.

    Hypothesis is called whenever garbage is collected, and what is raised in such a call is lost: none is collected.
    """
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    gc.disable()
    yield
    gc.enable()
    signal.signal(signal.SIGINT, before)


@pytest.fixture(scope="session")
def eventually() -> Callable[[Callable[[], bool], str], None]:
    """Wait until a condition holds: an emulated desktop takes a minute to come up after SSH answers."""

    def wait(condition: Callable[[], bool], what: str, seconds: float = READY_SECONDS) -> None:
        until = time.monotonic() + seconds
        while not condition():
            assert time.monotonic() < until, f"not within {seconds:.0f} s: {what}"
            time.sleep(2)

    return wait


@pytest.fixture(scope="session")
def e2b_packages(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with E2B's own packages for JavaScript, and the programs that use them."""
    need_programs("npm", "node")
    folder = tmp_path_factory.mktemp("e2b_js")
    npm.install(Path(__file__).parent / "support/e2b_js", folder)
    return folder
