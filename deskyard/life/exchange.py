"""Exchanges the system disk of a desktop, and goes the way back unless it is as well as before."""

import re
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NoReturn

from deskyard.declaration.declaration import Declared
from deskyard.desktop import customise_delivery, key_delivery, process_cap, program
from deskyard.desktop.customise_delivery import How
from deskyard.engine.backend import SystemDisk
from deskyard.engine.stack import WorkspaceStack
from deskyard.errors import ConfigError, DeskyardError, SiteError
from deskyard.guest import system as guest_system
from deskyard.host.deadline import Deadline
from deskyard.host.progress import say
from deskyard.image.store import store
from deskyard.life import health
from deskyard.life.journal import Entry, Journal
from deskyard.life.power import Machine
from deskyard.plan.customisation import Customisation
from deskyard.plan.image.source import ImageSource
from deskyard.plan.power import Power
from deskyard.workspace import readiness

NOTE_SECONDS = 300.0
# So long a desktop is watched with another system: what dies a moment after it came is seen then. A look takes seconds.
WATCH_SECONDS, MOST_WATCH_SECONDS, LOOK_PAUSE = 60.0, 3600.0, 10.0
# What fails there says nothing of a system.
ELSEWHERE = frozenset({"backup"})
PACKAGE = re.compile(r"[a-z0-9][a-z0-9+.-]*(:[a-z0-9]+)?")


@dataclass(frozen=True)
class Was:
    """A desktop before its exchange: its image, its host key, which checks failed already, and what it is owed.

    Keys, what customises it and the files that it keeps were on the disk of before, and are brought again.
    """

    image: str
    host_key: str
    failing: frozenset[str]
    packages: tuple[str, ...]
    kept: tuple[str, ...]
    keys: Mapping[str, str] = field(repr=False)
    customised: Customisation | None


class Exchange:
    """One desktop and its two disks."""

    def __init__(self, machine: Machine) -> None:
        self._machine, self._target = machine, f"{machine.plan.name}/{machine.name}"
        self.disk: SystemDisk = machine.machines.system(machine.domain)
        self._journal = Journal(machine)

    def end_broken(self) -> None:
        """Bring an exchange that broke off to its end: before the swap nothing has happened, after it all goes back."""
        entry = self._journal.read()
        if entry is None:
            return
        if self.disk.has_kept():
            self.require_way_back()
        say(f"    an exchange from {entry.before} to {entry.after} broke off ({entry.step}): back to {entry.before}")
        self.back()

    def require_way_back(self) -> None:
        """Raise an error, with nothing touched, unless the kept disk can take its place again and nothing is lost."""
        self.require_no_snapshots()
        self._machine.require_no_memory()
        self.disk.require_exchangeable()

    def require_no_snapshots(self) -> None:
        """Raise `SiteError` for a desktop with snapshots: they lie in the disk that would go."""
        if snapshots := self._machine.machines.snapshots(self._machine.domain):
            names = ", ".join(snapshot.name for snapshot in snapshots)
            reason = f"has snapshots, which lie in the disk that would go: {names}"
            raise SiteError("desktop", self._target, reason, "delete them: ./inv snapshot.delete")

    def look(self, declared: Declared, image: ImageSource) -> Was:
        """How it is before; raises an error for what would lose something, before anything is touched."""
        machine = self._machine
        state = machine.machines.states()[machine.domain]
        if (state["state"], state["desired"]) != ("running", Power.RUNNING):
            raise SiteError("desktop", self._target, f"is {state['state']}", f"run ./inv desktop.start {self._target}")
        self.require_no_snapshots()
        self.disk.require_exchangeable()
        if not ask(machine, {"do": "look"})["home"]:
            reason = "its /home is on the system disk, and would be lost"
            raise SiteError("desktop", self._target, reason, f"run ./inv desktop.migrate-home {self._target} first")
        keys = key_delivery.wanted(declared, WorkspaceStack(machine.plan.name)) or {}
        customised = customise_delivery.wanted(declared)
        with_image = sorted(store.require(image.name).manifest["packages"])
        keep = machine.plan.desktop(machine.name).keep
        noted = ask(machine, {"do": "note", "packages": with_image, "keep": keep}, NOTE_SECONDS)
        if noted["too_large"]:
            names = ", ".join(map(str, noted["too_large"]))
            reason = f"would lose what it keeps, which is more than {guest_system.MOST_BYTES >> 20} MiB in all: {names}"
            raise SiteError("desktop", self._target, reason, "move it to /home, or take it out of `keep`")
        added = tuple(name for name in map(str, noted["packages"]) if PACKAGE.fullmatch(name))
        key = machine.machines.host_key(machine.domain)
        mine = keys.get(machine.name, {}), customised.get(machine.name)
        kept = tuple(map(str, noted["kept"]))
        return Was(str(self.disk.image()), key, frozenset(self._failing()), added, kept, *mine)

    def do(self, image: ImageSource, was: Was, watch: float) -> dict[str, float]:
        """Exchange the disk, and take the one of before back if the desktop is not as well for so many seconds.

        Returns the seconds in which its routes did not answer, and those of the swap itself.
        """
        machine, after = self._machine, f"{image.name}-{image.digest}"
        self.disk.forget()
        self._journal.write(Entry(was.image, after, "staged"))
        say(f"    {machine.name}: a disk of {after} is made beside the one of {was.image}")
        self.disk.stage(image, machine.plan.desktop(machine.name).machine.disk_gib)
        begin = time.monotonic()
        say(f"    {machine.name}: shuts down")
        try:
            machine.machines.shut_down(machine.domain, force=False)
        except SiteError:
            # It still runs, with the disk that it has.
            self.disk.forget()
            self._journal.close()
            raise
        off = time.monotonic()
        outcome = f"did not get {after}"
        try:
            self.disk.swap()
            swapped, outcome = time.monotonic(), f"was not well with {after}"
            self._journal.write(Entry(was.image, after, "swapped"))
            say(f"    {machine.name}: starts with {after}")
            self._start()
            if was.kept:
                self._bring(was.kept)
            answers = time.monotonic()
            say(f"    {machine.name}: its routes answer; it is compared with how it was")
            self._require_as_before(was, watch)
        except Exception as error:
            # Whatever it is: a desktop that is off, or that nobody has judged, helps nobody.
            self._give_up(outcome, error)
        self._journal.close()
        return {"down_seconds": round(answers - begin, 3), "swap_seconds": round(swapped - off, 4)}

    def back(self) -> None:
        """Give it the disk of before, if that is kept, and start it if it is wanted to run; the journal is closed."""
        machine = self._machine
        runs = machine.machines.desired()[machine.domain] is Power.RUNNING
        if self.disk.has_kept():
            try:
                machine.machines.shut_down(machine.domain, force=False)
            except SiteError:
                machine.machines.shut_down(machine.domain, force=True)
            try:
                self.disk.swap_back()
            except Exception:
                if runs:
                    # With the disk that it has: there is one under its name at each moment.
                    machine.machines.start(machine.domain)
                raise
        if runs:
            # Before anything else that may fail.
            self._start()
        self.disk.forget()
        self._journal.close()

    def _give_up(self, outcome: str, error: Exception) -> NoReturn:
        """Go the way back, and raise what was wrong; also what is wrong with the way."""
        why = _first_line(error)
        say(f"    {outcome}: {why}")
        try:
            self.back()
        except Exception as second:
            reason = f"{outcome}: {why}; and the way back to its system of before broke off: {_first_line(second)}"
            remedy = f"mend that, then run ./inv desktop.upgrade {self._target}: it ends this one first"
            raise SiteError("desktop", self._target, reason, remedy) from second
        reason = f"{outcome}, and has its system of before again: {why}"
        raise SiteError("desktop", self._target, reason, "see what is wrong there, then run it again") from error

    def _start(self) -> None:
        """Start it, and wait until its routes answer."""
        machine = self._machine
        machine.machines.start(machine.domain)
        readiness.wait(machine.plan, desktops=[machine.plan.desktop(machine.name)])

    def _bring(self, kept: Sequence[str]) -> None:
        """Bring the files that it keeps, and start it once more, so that it is judged with them in force."""
        machine = self._machine
        brought = set(ask(machine, {"do": "bring", "keep": kept}, NOTE_SECONDS)["files"])
        if lost := sorted(set(kept) - brought):
            raise SiteError("desktop", self._target, f"lost what it keeps: {', '.join(lost)}", "see /home/.deskyard")
        say(f"    {len(kept)} files of /etc as before; once more from the start, with them")
        machine.machines.shut_down(machine.domain, force=False)
        self._start()

    def _require_as_before(self, was: Was, watch: float) -> None:
        machine = self._machine
        if machine.machines.host_key(machine.domain) != was.host_key:
            raise SiteError("desktop", self._target, "has another host key", "see its console")
        self._deliver(was)
        if watch:
            say(f"    {machine.name}: it is watched for {watch:.0f} s")
        if worse := self._worse(was, watch):
            # Once it has its system of before again, `desktop.health` says nothing of this any more.
            said = "; ".join(f"{check}: {detail}" for check, detail in sorted(worse.items()))
            raise SiteError("desktop", self._target, f"is not well: {said}", "see desktop.health")

    def _worse(self, was: Was, watch: float) -> dict[str, str]:
        """The checks that fail and did not before: at the first look, or later in two looks one after another."""
        worse, last = dict[str, str](), None

        def is_worse() -> bool:
            nonlocal worse, last
            now = {check: detail for check, detail in self._failing().items() if check not in was.failing}
            # On a busy machine anything is late once.
            worse = now if last is None else {check: detail for check, detail in now.items() if check in last}
            last = now
            return bool(worse)

        Deadline(watch).wait_for(is_worse, LOOK_PAUSE)
        if last and not worse:
            is_worse()
        return worse

    def _deliver(self, was: Was) -> None:
        plan, name = self._machine.plan, self._machine.name
        process_cap.equip(plan, plan.desktop(name))
        if was.keys:
            key_delivery.deliver(plan, {name: was.keys})
        if was.customised is not None:
            customise_delivery.apply(plan, {name: was.customised}, How())

    def _failing(self) -> dict[str, str]:
        """The details of the checks that fail, by their names."""
        rows = health.look(self._machine.plan.name, self._machine.name)["machines"][self._machine.name]
        failed = {row["check"]: row["detail"] for row in rows if row["state"] == "failed"}
        return {check: detail for check, detail in failed.items() if check not in ELSEWHERE}


def watched(seconds: float | None) -> float:
    """The seconds for which a desktop is watched; raises `ConfigError` for what is too long."""
    if seconds is None:
        return WATCH_SECONDS
    if not 0 <= seconds <= MOST_WATCH_SECONDS:
        reason = f"is not between 0 and {MOST_WATCH_SECONDS:.0f} seconds"
        raise ConfigError("--watch", seconds, reason, "give another; with 0 it is one look")
    return seconds


def ask(machine: Machine, request: dict[str, Any], seconds: float = program.RUN_SECONDS) -> dict[str, Any]:
    """The answer of the program that looks after a desktop's system disk."""
    return program.ask(machine.plan, machine.name, guest_system, request, run_seconds=seconds)


def _first_line(error: Exception) -> str:
    text = error.reason if isinstance(error, DeskyardError) else f"{type(error).__name__}: {error}"
    return next(iter(text.splitlines()), type(error).__name__)
