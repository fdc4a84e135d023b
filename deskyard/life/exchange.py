"""Exchanges the system disk of a desktop, and goes the way back unless it is as well as before."""

import re
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
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
from deskyard.plan.health import Comparison
from deskyard.plan.image.source import ImageSource
from deskyard.plan.power import Power
from deskyard.workspace import readiness

NOTE_SECONDS = 300.0
# So long a desktop is watched with another system: what dies a moment after it came is seen then. A look takes seconds.
WATCH_SECONDS, MOST_WATCH_SECONDS, LOOK_PAUSE = 60.0, 3600.0, 10.0
# The step of the journal once a look has found the desktop well: who looks on was killed, not the desktop.
WATCHING = "watching"
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
        """Bring an exchange that broke off to its end: before the swap nothing has happened, after it all goes back.

        One that was found well before its watch broke off is judged again, and goes back only if it is not well now.
        """
        entry = self._journal.read()
        if entry is None or (entry.step == WATCHING and self._is_still_well(entry)):
            return
        if self.disk.has_kept():
            self.require_way_back()
        say(f"    an exchange from {entry.before} to {entry.after} broke off ({entry.step}): back to {entry.before}")
        if silent := self.back():
            say(f"    {self._machine.name}: its routes do not all answer: {silent}")

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
        self._require_running()
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
            entry = Entry(was.image, after, "swapped", sorted(was.failing))
            self._journal.write(entry)
            say(f"    {machine.name}: starts with {after}")
            self._start()
            if was.kept:
                self._bring(was.kept)
            answers = time.monotonic()
            say(f"    {machine.name}: its routes answer; it is compared with how it was")
            self._require_as_before(was, watch, replace(entry, step=WATCHING))
        except Exception as error:
            # Whatever it is: a desktop that is off, or that nobody has judged, helps nobody.
            self._give_up(outcome, error)
        self._journal.close()
        return {"down_seconds": round(answers - begin, 3), "swap_seconds": round(swapped - off, 4)}

    def back(self) -> str:
        """Give it the disk of before, if that is kept, and start it if it is wanted to run; the journal is closed.

        Then its routes are waited for. Returns what is wrong with them: one that was silent before is so again, and
        has to keep no exchange open.
        """
        machine = self._machine
        runs = machine.machines.desired()[machine.domain] is Power.RUNNING
        entry = self._journal.read()
        if entry is not None and entry.step == WATCHING:
            # Whoever is killed on this way leaves nothing to be judged.
            self._journal.write(replace(entry, step="swapped"))
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
            machine.machines.start(machine.domain)
        self.disk.forget()
        self._journal.close()
        try:
            if runs:
                self._wait()
        except Exception as error:
            return _first_line(error)
        return ""

    def _give_up(self, outcome: str, error: Exception) -> NoReturn:
        """Go the way back, and raise what was wrong; also what is wrong with the way."""
        why = _first_line(error)
        say(f"    {outcome}: {why}")
        try:
            silent = self.back()
        except Exception as second:
            reason = f"{outcome}: {why}; and the way back to its system of before broke off: {_first_line(second)}"
            remedy = f"mend that, then run ./inv desktop.upgrade {self._target}: it ends this one first"
            raise SiteError("desktop", self._target, reason, remedy) from second
        reason = f"{outcome}, and has its system of before again: {why}"
        reason += f"; its routes do not all answer: {silent}" if silent else ""
        raise SiteError("desktop", self._target, reason, "see what is wrong there, then run it again") from error

    def _start(self) -> None:
        """Start it, and wait until its routes answer."""
        self._machine.machines.start(self._machine.domain)
        self._wait()

    def _wait(self) -> None:
        plan = self._machine.plan
        readiness.wait(plan, desktops=[plan.desktop(self._machine.name)])

    def _bring(self, kept: Sequence[str]) -> None:
        """Bring the files that it keeps, and start it once more, so that it is judged with them in force."""
        machine = self._machine
        brought = set(ask(machine, {"do": "bring", "keep": kept}, NOTE_SECONDS)["files"])
        if lost := sorted(set(kept) - brought):
            raise SiteError("desktop", self._target, f"lost what it keeps: {', '.join(lost)}", "see /home/.deskyard")
        say(f"    {len(kept)} files of /etc as before; once more from the start, with them")
        machine.machines.shut_down(machine.domain, force=False)
        self._start()

    def _require_as_before(self, was: Was, watch: float, watching: Entry) -> None:
        machine = self._machine
        if machine.machines.host_key(machine.domain) != was.host_key:
            raise SiteError("desktop", self._target, "has another host key", "see its console")
        self._deliver(was)
        if watch:
            say(f"    {machine.name}: it is watched for {watch:.0f} s")
        looks = self._looks(Comparison(was.failing), watch, watching)
        if looks.last is None:
            say(f"    {machine.name}: its gateway let nobody see how it is, which says nothing of its system")
        if looks.worse:
            # Once it has its system of before again, `desktop.health` says nothing of this any more.
            raise SiteError("desktop", self._target, f"is not well: {_said(looks.worse)}", "see desktop.health")

    def _looks(self, looks: Comparison, watch: float, watching: Entry) -> Comparison:
        """Look for so many seconds, or until it is worse; `watching` is written once a look has found it well."""
        is_noted = False

        def is_worse() -> bool:
            nonlocal is_noted
            looks.take(self._failing())
            if looks.last == {} and not is_noted:
                self._journal.write(watching)
                is_noted = True
            return bool(looks.worse)

        Deadline(watch).wait_for(is_worse, LOOK_PAUSE)
        if looks.last != {} and not looks.worse:
            is_worse()
        return looks

    def _is_still_well(self, entry: Entry) -> bool:
        """Whether a desktop whose watch broke off is well and so keeps its system; the journal is closed then.

        Raises `SiteError`, with nothing touched, if nobody can see how it is.
        """
        self._require_running()
        looks = self._looks(Comparison(entry.failing, {}), 0.0, entry)
        if looks.silent:
            reason = f"got {entry.after}, whose watch broke off, and nobody can see how it is: {looks.silent}"
            raise SiteError("desktop", self._target, reason, f"see ./inv workspace.status {self._machine.plan.name}")
        if looks.worse:
            say(f"    the watch of {entry.after} broke off, and the desktop is not well: {_said(looks.worse)}")
            return False
        say(f"    the watch of {entry.after} broke off; the desktop is well and keeps it")
        self._journal.close()
        return True

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
        return {row["check"]: row["detail"] for row in rows if row["state"] == "failed"}

    def _require_running(self) -> None:
        state = self._machine.machines.states()[self._machine.domain]
        if (state["state"], state["desired"]) != ("running", Power.RUNNING):
            raise SiteError("desktop", self._target, f"is {state['state']}", f"run ./inv desktop.start {self._target}")


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


def _said(worse: Mapping[str, str]) -> str:
    return "; ".join(f"{check}: {detail}" for check, detail in sorted(worse.items()))


def _first_line(error: Exception) -> str:
    text = error.reason if isinstance(error, DeskyardError) else f"{type(error).__name__}: {error}"
    return next(iter(text.splitlines()), type(error).__name__)
