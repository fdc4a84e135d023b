"""Runs the lab's tests against weakened configurations: every mutant must be noticed.

Each mutant gets a process of its own, forked from one that has imported everything.
"""

import contextlib
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from bisect import bisect
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatch
from itertools import accumulate
from pathlib import Path
from typing import Any

import pytest

from tests.mutation.mutants import Mutant, mutants, mutated
from tests.mutation.weaving import rendered_texts, specify, weave

TREE = Path(__file__).resolve().parents[2]
LIMIT_SECONDS = 420.0
# What `apply` says when a program does not take its file.
REFUSED = "refuses the new configuration"
# The viewer is a browser's, half-open upgrades wait by design; tests of weakened rules are mutation runs of their own.
LEFT_OUT = ("test_viewer*", "test_half_open*", "test_weakened*")
NOT_THESE = "not weak and not without_rules"
# Which tests look at what, those that see most first; a file that is not named here is tried on everything.
DOOR = (
    "test_door*",
    "test_redemption*",
    "test_upgrades*",
    "test_challenge*",
    "test_sessions*",
    "test_errors*",
    "test_keys*",
    "test_view*",
    "test_audit*",
    "test_actions*",
)
RELEVANT = {
    "firewall.nft.j2": (
        *("test_whole_ruleset*", "test_tracking*", "test_firewall_refusals*", "test_firewall*", "test_dns*"),
        *("test_egress_source*", "test_egress.py", "test_egress_open*"),
    ),
    "dnsmasq.conf.j2": ("test_dns_guards*", "test_dns*", "test_egress.py"),
    "egress.cfg.j2": ("test_egress_reasons*", "test_egress_forward*", "test_egress.py", "test_egress_*"),
    "haproxy.cfg.j2": DOOR,
    "backends.cfg.j2": DOOR,
}

CHECKS = {"nft": ["unshare", "-n", "nft", "-c", "-f", ""], "conf": ["dnsmasq", "--test", "--conf-file="]}


@dataclass
class Verdict:
    """What became of a mutant: killed by a test, survived, invalid, or without an answer, which is no kill.

    Unnoticed is one that only some of the tests were tried on.
    """

    state: str
    by: str = ""
    seconds: float = 0.0


@dataclass
class Watch:
    """Puts the tests in order, and sees which fails first and how long each takes."""

    order: list[str]
    only: int | None = None
    hint: str = ""
    failed: str = ""
    in_call: bool = False
    refused: bool = False
    passed: dict[str, float] = field(default_factory=dict)
    collected: list[str] = field(default_factory=list)

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        """Only what the engine chose, in its order; a file's tests all and as they are if it names none of them."""
        places = {name: place for place, name in enumerate(self.order)}
        if self.only is not None:
            self.passed.update({item.nodeid: 1.0 for item in items})
            del items[self.only :]
        elif places:
            items[:] = sorted((item for item in items if item.nodeid in places), key=lambda item: places[item.nodeid])
        else:
            self.collected += [item.nodeid for item in items]

    def seen_twice(self) -> bool:
        """Whether the test itself failed that killed the mutant in a recorded run: in another lab, at another time."""
        return self.in_call and self.failed == self.hint

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed and not self.failed:
            self.failed, self.in_call = report.nodeid, report.when == "call"
            self.refused = REFUSED in str(report.longrepr)
        elif report.when == "call" and report.passed:
            self.passed[report.nodeid] = report.duration


@dataclass
class Engine:
    """The lab's tests, what they render, and which of them killed before."""

    folder: Path
    quick: bool = False  # only part of what the tests render was seen
    tests: dict[str, dict[str, float]] = field(default_factory=dict)  # file -> test -> seconds
    rendered: dict[str, dict[str, list[str]]] = field(default_factory=dict)  # file -> template -> texts
    kills: dict[str, Counter[str]] = field(default_factory=dict)  # template -> tests
    hints: dict[str, str] = field(default_factory=dict)  # mutant, as text -> the test that killed it in another run
    changes: dict[str, frozenset[Mutant]] = field(default_factory=dict)  # file -> what could be done to its texts

    def baseline(self, jobs: int, quick: bool) -> list[str]:
        """Run the tests as they are; returns those that fail already. `quick`: no more than it takes to see a text."""
        self.quick = quick
        names = sorted(path.name for path in (TREE / "tests/gateway").glob("test_*.py"))
        files = [name for name in names if not any(fnmatch(name, pattern) for pattern in LEFT_OUT)]
        broken: list[str] = []

        def done(part: list[str], answer: dict[str, Any] | None, _: float) -> None:
            if answer is None or answer["failed"]:
                broken.append(answer["failed"] if answer else f"{' '.join(part)}: no answer")
                return
            for name in part:
                own = f"tests/gateway/{name}::"
                self.tests[name] = {test: took for test, took in answer["passed"].items() if test.startswith(own)}
                # What else it renders it never puts into force.
                self.rendered[name] = {
                    template: texts for template, texts in answer["texts"].items() if _looks_at(name, template)
                }

        enough = {next((name for name in files if fnmatch(name, patterns[0])), "") for patterns in RELEVANT.values()}
        # Of those that need not run the names are wanted alone, and one pytest has them all.
        unseen = [name for name in files if quick and name not in enough]
        parts = [([name], 1 if quick else None) for name in files if name not in unseen]
        parts += [(unseen, 0)] if unseen else []
        work: list[Any] = [(part, [f"tests/gateway/{name}" for name in part], change) for part, change in parts]
        self._run(work, jobs, done, time.monotonic() + 3600)
        return broken

    def all_mutants(self) -> list[Mutant]:
        """Every change to anything that the lab renders; without those that the program itself refuses."""
        return sorted({change for name in self.rendered for change in self._changes_of(name)})

    def judge(
        self,
        chosen: Sequence[Mutant],
        jobs: int,
        until: float,
        say: Callable[[Mutant, Verdict], None],
        within: float = 0.0,
    ) -> dict[Mutant, Verdict]:
        """Run the tests that could notice against each mutant, until the first does.

        `within`: only those that see most, as many as take so many seconds; 0 for all.
        """
        verdicts: dict[Mutant, Verdict] = {}

        def done(mutant: Mutant, answer: dict[str, Any] | None, seconds: float) -> None:
            if answer is None:
                # Neither a busy machine nor a test that could not begin has noticed anything.
                verdict = Verdict("no answer", "", seconds)
            elif answer["refused"]:
                verdict = Verdict("invalid", "", seconds)
            elif answer["failed"]:
                verdict = Verdict("killed", answer["failed"], seconds)
                self.kills.setdefault(mutant.template, Counter())[answer["failed"]] += 1
            elif not answer["passed"]:
                verdict = Verdict("no test ran", "", seconds)
            else:
                verdict = Verdict("unnoticed" if within else "survived", "", seconds)
            verdicts[mutant] = verdict
            say(mutant, verdict)

        work: list[tuple[Any, Any, Any]] = []
        for mutant in chosen:
            if not self._valid(mutant):
                verdicts[mutant] = Verdict("invalid")
                say(mutant, verdicts[mutant])
            else:
                work.append((mutant, lambda mutant=mutant: self._order(mutant, within), mutant))
        self._run(work, jobs, done, until)
        return verdicts

    def _changes_of(self, name: str) -> frozenset[Mutant]:
        """The mutants of what a file's tests render: no other changes anything for them."""
        if name not in self.changes:
            texts = [(template, text) for template, texts in self.rendered.get(name, {}).items() for text in texts]
            self.changes[name] = frozenset(mutant for template, text in texts for mutant in mutants(template, text))
        return self.changes[name]

    def _order(self, mutant: Mutant, within: float) -> list[str]:
        """What killed it before, those that killed most, those of the files that see most, then the quick ones."""
        template, hint = mutant.template, self.hints.get(str(mutant))
        kills = self.kills.get(template, Counter())
        places: dict[str, tuple[int, float]] = {}
        took: dict[str, float] = {}
        for name, tests in self.tests.items():
            if _looks_at(name, template) and (self.quick or mutant in self._changes_of(name)):
                patterns = RELEVANT.get(template, ())
                place = next((at for at, pattern in enumerate(patterns) if fnmatch(name, pattern)), len(patterns))
                places.update({test: (place, seconds) for test, seconds in tests.items()})
                took.update(tests)
        order = sorted(places, key=lambda test: (test != hint, -kills[test], places[test]))
        return order if not within else order[: bisect([*accumulate(took[test] for test in order)], within)]

    def _valid(self, mutant: Mutant) -> bool:
        """Whether the program that reads the text takes it; HAProxy is asked by the lab itself."""
        check = CHECKS.get(mutant.template.removesuffix(".j2").rpartition(".")[2])
        if check is None:
            return True
        for text in {text for each in self.rendered.values() for text in each.get(mutant.template, ())}:
            changed = mutated(mutant, mutant.template, text)
            if changed != text:
                path = self.folder / "check"
                path.write_text(changed)
                argv = [*check[:-1], check[-1] + str(path)]
                return subprocess.run(argv, capture_output=True, check=False, timeout=30).returncode == 0
        return True

    def _run(self, work: Sequence[tuple[Any, Any, Mutant | int | None]], jobs: int, done: Any, until: float) -> None:
        """Fork one process per piece of work, `jobs` at a time; what has not begun at `until` is left."""
        waiting, running = list(work), {}  # type: list[Any], dict[int, tuple[Any, Path, float]]
        while running or (waiting and time.monotonic() < until):
            while waiting and len(running) < jobs and time.monotonic() < until:
                key, tests, change = waiting.pop(0)
                answer = self.folder / f"{len(waiting)}.json"
                hint = self.hints.get(str(change), "")
                pid = self._fork(tests() if callable(tests) else tests, change, answer, hint)
                running[pid] = (key, answer, time.monotonic())
            pid = _ended(running)
            if pid:
                key, answer, started = running.pop(pid)
                _sweep(pid)
                given = json.loads(answer.read_text()) if answer.exists() else None
                done(key, given, time.monotonic() - started)

    def _fork(self, tests: list[str], change: Mutant | int | None, answer: Path, hint: str) -> int:
        sys.stdout.flush()
        sys.stderr.flush()
        pid = os.fork()
        if pid == 0:
            try:
                os.setsid()
                _child(tests, change, answer, hint)
            finally:
                os._exit(0)
        return pid


def _looks_at(name: str, template: str) -> bool:
    """Whether the tests of a file may notice what happens to a template."""
    unknown = not any(fnmatch(name, pattern) for patterns in RELEVANT.values() for pattern in patterns)
    return unknown or any(fnmatch(name, pattern) for pattern in RELEVANT.get(template, ("*",)))


def _child(tests: list[str], change: Mutant | int | None, answer: Path, hint: str) -> None:
    """Run tests until one fails, and say which; `change` is a mutant, or says how many tests are enough."""
    log = os.open(answer.with_suffix(".log"), os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    os.dup2(log, 1)
    os.dup2(log, 2)
    random.seed()  # else all children choose the same ports
    os.chdir(TREE)
    with tempfile.TemporaryDirectory(prefix="dymut.") as scratch:
        folder = Path(scratch)
        folder.chmod(0o755)
        os.environ.update(specify(folder / "woven", change if isinstance(change, Mutant) else None))
        weave(str(folder / "woven"))
        only = change if isinstance(change, int) else None
        watch = Watch([test for test in tests if "::" in test], only, hint)
        # File by file: to collect them all takes longer than most mutants live.
        files = list(dict.fromkeys(test.partition("::")[0] for test in tests))
        for part in [files] if only == 0 else [[file] for file in files]:
            if not _notices(part, watch, folder):
                return  # what was not tried is no verdict
            if watch.failed:
                break
        found = {"failed": watch.failed, "refused": watch.refused, "passed": watch.passed}
        texts = {name: sorted(each) for name, each in rendered_texts(folder / "woven").items()}
        answer.write_text(json.dumps({**found, "texts": texts}))


def _notices(files: list[str], watch: Watch, folder: Path) -> bool:
    """Try the tests of files; False: they did not run.

    A failure counts if it comes again, alone, in a fresh laboratory; where a recorded run saw the same one, it has.
    """
    order = watch.order
    while _ran(files, watch, folder):
        suspect = watch.failed
        if not suspect or watch.refused or watch.seen_twice():
            watch.order = order
            return True
        watch.failed, watch.order = "", [suspect]
        if not _ran(files, watch, folder):
            return False
        if watch.failed:
            return True
        # A busy machine failed it, not the mutant.
        mine = [test for test in order or watch.collected if test.partition("::")[0] in files]
        watch.order = mine[mine.index(suspect) + 1 :] if suspect in mine else []
        if not watch.order:
            watch.order = order
            return True
    return False


def _ran(files: list[str], watch: Watch, folder: Path) -> bool:
    options = ["-x", "-q", "-p", "no:cacheprovider", "-m", "not deep and not vm", "-k", NOT_THESE]
    ended = pytest.main([*options, f"--basetemp={folder}/t", *files], plugins=[watch])
    return ended in (pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED, pytest.ExitCode.NO_TESTS_COLLECTED)


def _ended(running: dict[int, tuple[Any, Path, float]]) -> int:
    """The first that has ended, or was ended for taking too long."""
    while True:
        for pid, (_, _, started) in running.items():
            if os.waitpid(pid, os.WNOHANG)[0]:
                return pid
            if time.monotonic() - started > LIMIT_SECONDS:
                os.killpg(pid, signal.SIGKILL)
                os.waitpid(pid, 0)
                return pid
        time.sleep(0.02)


def _sweep(pid: int) -> None:
    """Remove what a lab that was killed left behind."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(pid, signal.SIGKILL)
    for path in Path("/run/netns").glob(f"dygw{pid}n*"):
        subprocess.run(["ip", "netns", "del", path.name], check=False, capture_output=True, timeout=30)


@contextlib.contextmanager
def engine() -> Iterator[Engine]:
    """An engine with a folder of its own."""
    folder = Path(tempfile.mkdtemp(prefix="deskyard-mutation."))
    try:
        yield Engine(folder)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
