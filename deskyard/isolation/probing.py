"""Sends a verification's probes from all machines at once, with watchers in all of them, and judges what came of it."""

import contextlib
import json
import secrets
import subprocess
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

from deskyard.guest import probe as guest_probe
from deskyard.host.deadline import Alarm
from deskyard.plan.isolation.catalogue import probes
from deskyard.plan.isolation.probe import MARK_START, HostFacts, Probe, watched
from deskyard.plan.workspace import WorkspacePlan

END_SECONDS = 5.0
PROGRAM = Path(guest_probe.__file__)
# Emulated machines take their time to greet; a run that takes longer than this is ended, also in the machines.
RUN_SECONDS = 420
# A gateway's SSH server drops some of more than ten strangers at a time.
GREETINGS = 4
# A frame that was sent last may still be under way.
SETTLE_SECONDS = 1.0

# A machine's name and a program for `python3 -c` -> the command line that runs it there as root, with its input.
Start = Callable[[str, str], Sequence[str]]


@dataclass(frozen=True)
class Verdict:
    """A probe, what came of it, and whether that is as it must be."""

    probe: Probe
    outcome: str
    seen_by: tuple[str, ...]

    @property
    def ok(self) -> bool:
        """A probe that could not be sent proves nothing, so it is no success."""
        if self.outcome.startswith("not sent"):
            return False
        if self.probe.expected == "known":
            return True
        return self.probe.reached(self.outcome, self.seen_by) == (self.probe.expected == "reached")

    def as_dict(self) -> dict[str, Any]:
        """For the report; what was sent is left out, the Plan makes it again."""
        kept = {key: value for key, value in asdict(self.probe).items() if key not in ("action", "reached_by")}
        return {**kept, "outcome": self.outcome, "seen_by": list(self.seen_by), "ok": self.ok}


@dataclass
class _Session:
    """The probe program in one machine, for the length of a run."""

    name: str
    argv: Sequence[str]
    job: Mapping[str, Any]
    program: str
    error: str = ""

    def begin(self) -> None:
        """Start it and wait until its watchers watch."""
        try:
            pipe = subprocess.PIPE
            self.process = subprocess.Popen(list(self.argv), stdin=pipe, stdout=pipe, stderr=pipe, text=True)
        except OSError as error:
            self.error = str(error)
            return
        self._tell(self.program + json.dumps(self.job) + "\n")
        if (line := self._line()) != "ready":
            self._failed("did not start", line)

    def probe(self) -> list[str]:
        """Send all probes; their outcomes."""
        self._tell("go\n")
        return self._json("did not answer")

    def sightings(self) -> set[tuple[str, int]]:
        """Read what its watchers saw: place and number of the probe."""
        self._tell("stop\n")
        return {(f"{self.name}/{nic}/{way}", number) for nic, way, number in self._json("did not say what it saw")}

    def end(self) -> None:
        """End it, whatever it does."""
        if hasattr(self, "process"):
            with contextlib.suppress(OSError):
                self.process.kill()
            for stream in (self.process.stdin, self.process.stdout, self.process.stderr):
                with contextlib.suppress(OSError):
                    assert stream is not None
                    stream.close()
            self.process.wait(10)

    def _json(self, failure: str) -> list[Any]:
        if self.error:
            return []
        line = self._line()
        try:
            found: list[Any] = json.loads(line)
            return found
        except ValueError:
            self._failed(failure, line)
            return []

    def _tell(self, text: str) -> None:
        if not self.error:
            assert self.process.stdin is not None
            try:
                self.process.stdin.write(text)
                self.process.stdin.flush()
            except OSError:
                self._failed("went away")

    def _line(self) -> str:
        assert self.process.stdout is not None
        return self.process.stdout.readline().strip()

    def _failed(self, what: str, heard: str = "") -> None:
        """Note the failure with its reason: standard error, else what came instead of an answer, else how it ended."""
        if self.error:
            return
        assert self.process.stderr is not None
        # It may not have ended yet, though it says nothing more; and it may never.
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.process.wait(END_SECONDS)
        code = self.process.poll()
        self.process.kill()
        ended = "it still runs" if code is None else f"it ended with code {code}"
        reason = self.process.stderr.read()[-400:].strip()
        self.error = f"{what}: {reason or (f'it said {heard[:200]!r}' if heard else f'it said nothing, {ended}')}"


def new_mark() -> str:
    """The prefix of a run's marks: no other run's, and no other traffic's."""
    return MARK_START + secrets.token_hex(4)


def send(
    probes: Sequence[Probe], watch: Mapping[str, Mapping[str, str]], mark: str, start: Start, seconds: int = RUN_SECONDS
) -> list[Verdict]:
    """Send all probes from their machines at once, with all watchers watching; nothing is left behind."""
    names = list(dict.fromkeys([*watch, *(probe.start for probe in probes)]))
    source = PROGRAM.read_text()
    loader = f"import sys; exec(compile(sys.stdin.buffer.read({len(source.encode())}), 'guest_probe', 'exec'))"
    # Forged frames go last: where nothing refuses them, they would spoil what the honest probes find.
    order = [
        {
            name: [n for n, probe in enumerate(probes) if probe.start == name and probe.forged is forged]
            for name in names
        }
        for forged in (False, True)
    ]
    sessions = {}
    for name in names:
        groups = [[probes[n].action for n in group[name]] for group in order]
        job = {"watch": dict(watch.get(name, {})), "mark": mark, "seconds": seconds, "groups": groups}
        sessions[name] = _Session(name, start(name, loader), job, source)
    outcomes = dict.fromkeys(range(len(probes)), "not sent")
    seen: set[tuple[str, int]] = set()
    try:
        with Alarm(seconds + 30, partial(_kill, list(sessions.values()))):
            with ThreadPoolExecutor(GREETINGS) as pool:
                list(pool.map(_Session.begin, sessions.values()))
            with ThreadPoolExecutor(len(sessions)) as pool:
                for group in order:
                    for name, answers in zip(sessions, pool.map(_Session.probe, sessions.values()), strict=True):
                        outcomes.update(zip(group[name], answers, strict=False))
                time.sleep(SETTLE_SECONDS)
                for found in pool.map(_Session.sightings, sessions.values()):
                    seen |= found
    finally:
        for session in sessions.values():
            session.end()
    silent = {name: session.error for name, session in sessions.items() if session.error}
    places: dict[int, set[str]] = {}
    for place, number in seen:
        places.setdefault(number, set()).add(place)
    return [_verdict(probe, outcomes[n], places.get(n, set()), silent) for n, probe in enumerate(probes)]


def _kill(sessions: Sequence[_Session]) -> None:
    for session in sessions:
        with contextlib.suppress(OSError):
            session.process.kill()


def _verdict(probe: Probe, outcome: str, seen: set[str], silent: Mapping[str, str]) -> Verdict:
    if probe.start in silent:
        return Verdict(probe, f"not sent: {silent[probe.start]}", ())
    blind = sorted({name for name in silent if any(place.startswith(f"{name}/") for place in probe.witnesses)})
    by = tuple(sorted(seen & set(probe.witnesses)))
    if blind and not by:
        # Nobody watched where it must not arrive: that it was not seen means nothing.
        return Verdict(probe, f"not sent: {blind[0]} {silent[blind[0]]}", ())
    return Verdict(probe, outcome, by)


def verify_probes(
    plan: WorkspacePlan, facts: HostFacts, start: Start, against: WorkspacePlan | None = None
) -> list[Verdict]:
    """Plan the probes of a workspace (and a second one), send them, judge them."""
    mark = new_mark()
    watch = {**watched(plan), **(watched(against) if against else {})}
    return send(probes(plan, facts, mark, against), watch, mark, start)


def summary(verdicts: Iterable[Verdict]) -> dict[str, tuple[int, int]]:
    """By topic: how many probes ended as they must, of how many."""
    found: dict[str, tuple[int, int]] = {}
    for verdict in verdicts:
        good, total = found.get(verdict.probe.topic, (0, 0))
        found[verdict.probe.topic] = (good + verdict.ok, total + 1)
    return found
