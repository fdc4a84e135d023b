"""Gives a desktop another system disk, of a newer image or of the same one; /home, machine-id and keys stay."""

import re
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from deskyard.declaration import declaration
from deskyard.declaration.declaration import Declared
from deskyard.desktop import customise_delivery, key_delivery, process_cap, program
from deskyard.desktop.customise_delivery import How
from deskyard.engine.backend import SystemDisk
from deskyard.engine.stack import WorkspaceStack
from deskyard.errors import CommandError, ConfigError, SiteError
from deskyard.guest import system as guest_system
from deskyard.host.places import tree
from deskyard.host.progress import say
from deskyard.image.store import store
from deskyard.life import health, power
from deskyard.life.backup import final
from deskyard.life.journal import Entry, Journal
from deskyard.life.power import Machine
from deskyard.plan.customisation import Customisation
from deskyard.plan.image.source import ImageSource
from deskyard.plan.power import Power
from deskyard.workspace import readiness, smaller

NOTE_SECONDS, INSTALL_SECONDS = 300.0, 1800.0
# For each so many bytes of a disk mke2fs makes room for a file (inode_ratio in Debian's mke2fs.conf).
BYTES_PER_FILE = 16384
PACKAGE = re.compile(r"[a-z0-9][a-z0-9+.-]*(:[a-z0-9]+)?")
ROLE = "ansible/roles/home_volume/files"
# Where role `home_volume` puts its files, and their modes.
HOME_FILES = {
    "home-volume.sh": ("/usr/local/lib/deskyard/home-volume", 0o755),
    "home-volume.service": ("/etc/systemd/system/home-volume.service", 0o644),
    "cloud-init.yaml": ("/etc/cloud/cloud.cfg.d/91-deskyard-home.cfg", 0o644),
}


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


def upgrade(
    target: str, *, again: bool = False, packages: bool = False, dry_run: bool = False, only: str | None = None
) -> dict[str, Any]:
    """Give a desktop a system disk of its image as built now, and keep the one of before.

    It has to answer on every route and be as well as before; if not, the disk of before comes back. `again` takes the
    same image too; `packages` installs what its owner had installed; `dry_run` only says what would be done. With
    `only`, raises `ConfigError` if another image is built by now. An exchange that broke off is ended first.
    """
    machine = power.behind_gateway(target)
    declared = declaration.read(machine.plan.name)
    image = declared.image_sources()[machine.plan.desktop(machine.name).machine.image]
    wanted = f"{image.name}-{image.digest}"
    exchange = _Exchange(machine)
    with machine.alone(), machine.shown():
        if not dry_run:
            exchange.end_broken()
        if only not in (None, wanted):
            raise ConfigError("image", only, f"is not what is built now: {wanted}", "look again, then repeat it")
        if exchange.disk.image() == wanted and not again:
            return _report(machine, wanted, wanted)
        was = exchange.look(declared, image)
        if dry_run:
            return _report(machine, was.image, wanted, was)
        times = exchange.do(image, was)
    if packages and was.packages:
        _install(machine, was.packages)
    elif was.packages:
        say(f"    its owner had installed: {' '.join(was.packages)}")
        say("    --packages installs them again; changed files of /etc are in /home/.deskyard/before/etc.tar.gz")
    return {**_report(machine, was.image, wanted, was), **times}


def roll_back(target: str) -> dict[str, Any]:
    """Give a desktop the system disk back that it had before its last exchange."""
    machine = power.behind_gateway(target)
    exchange = _Exchange(machine)
    with machine.alone(), machine.shown():
        now = str(exchange.disk.image())
        if not exchange.disk.has_kept():
            reason = "no system disk of before is kept"
            raise SiteError("desktop", target, reason, "one is kept from desktop.upgrade to the next one")
        exchange.require_no_snapshots()
        exchange.back()
    return _report(machine, now, str(exchange.disk.image()))


def kept(target: str) -> dict[str, Any]:
    """The image that a desktop's system started from, and whether the system of before is kept."""
    machine = power.opened(target)
    disk = machine.machines.system(machine.domain)
    entry = Journal(machine).read()
    return {"desktop": target, "image": disk.image(), "kept": disk.has_kept(), "broken_off": entry is not None}


def migrate_home(target: str, *, backup: bool = True, dry_run: bool = False) -> dict[str, Any]:
    """Take /home of a desktop that was made without a volume for it to its volume, by a restart.

    If there is none yet, `workspace.up` is to make it first. With `backup` one is made and proved before the move.
    Raises `SiteError`, with nothing touched, if that cannot be, or if the volume is too small. `dry_run` only says what
    would be done.
    """
    machine = power.behind_gateway(target)
    if _ask(machine, {"do": "look"})["home"]:
        return {"desktop": target, "home": "on its volume already"}
    without, up = f"./inv desktop.migrate-home {target} --no-backup", f"./inv workspace.up {machine.plan.name}"
    volume = machine.machines.disk_sizes(machine.domain).get("/home")
    size_gib = volume or machine.plan.desktop(machine.name).machine.home_gib or 0
    _require_home_fits(machine, size_gib)
    if dry_run:
        notice = final.notice(machine.plan.name, [machine.name], without, backup=backup)
        first = "" if volume else f"{up} would make its volume of {size_gib} GiB, then "
        return {
            "desktop": target,
            "home": f"on its system disk; {first}a restart would move it",
            "notice": notice,
        }
    if not volume:
        machine.machines.promise_home(machine.domain, size_gib)
        return {"desktop": target, "home": f"on its system disk; {up} makes its volume now: then run this again"}
    if backup:
        final.keep(machine.plan.name, [machine.name], without)
    files = [
        {"path": path, "mode": mode, "text": (tree() / ROLE / name).read_text()}
        for name, (path, mode) in HOME_FILES.items()
    ]
    _ask(machine, {"do": "move_home", "files": files})
    power.restart(target)
    if not _ask(machine, {"do": "look"})["home"]:
        remedy = f"see `journalctl -u home-volume` in it; if it has no such disk, run {up}, then this again"
        raise SiteError("desktop", target, "did not find its volume for /home", remedy)
    return {"desktop": target, "home": "on its volume; the old files lie below, on the system disk"}


def _require_home_fits(machine: Machine, size_gib: int) -> None:
    """Raise `SiteError` if a volume of this size takes less than /home holds: its copy would break off in the boot."""
    held = _ask(machine, {"do": "measure_home"}, NOTE_SECONDS)
    most, files = smaller.room_of(size_gib), size_gib * smaller.GIB // BYTES_PER_FILE
    if int(held["bytes"]) > most or int(held["files"]) > files:
        holds = f"its /home holds {int(held['bytes']) >> 20} MiB in {held['files']} files"
        reason = f"{holds}; a volume of {size_gib} GiB takes {most >> 20} MiB in {files}"
        remedy = "free some of it, or give it a tier with a larger home_gib"
        raise SiteError("desktop", f"{machine.plan.name}/{machine.name}", reason, remedy)


class _Exchange:
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
            self.require_no_snapshots()
        say(f"    an exchange from {entry.before} to {entry.after} broke off ({entry.step}): back to {entry.before}")
        self.back()

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
        if not _ask(machine, {"do": "look"})["home"]:
            reason = "its /home is on the system disk, and would be lost"
            raise SiteError("desktop", self._target, reason, f"run ./inv desktop.migrate-home {self._target} first")
        keys = key_delivery.wanted(declared, WorkspaceStack(machine.plan.name)) or {}
        customised = customise_delivery.wanted(declared)
        with_image = sorted(store.require(image.name).manifest["packages"])
        keep = machine.plan.desktop(machine.name).keep
        noted = _ask(machine, {"do": "note", "packages": with_image, "keep": keep}, NOTE_SECONDS)
        if noted["too_large"]:
            names = ", ".join(map(str, noted["too_large"]))
            reason = f"would lose what it keeps, which is more than {guest_system.MOST_BYTES >> 20} MiB in all: {names}"
            raise SiteError("desktop", self._target, reason, "move it to /home, or take it out of `keep`")
        added = tuple(name for name in map(str, noted["packages"]) if PACKAGE.fullmatch(name))
        key = machine.machines.host_key(machine.domain)
        mine = keys.get(machine.name, {}), customised.get(machine.name)
        kept = tuple(map(str, noted["kept"]))
        return Was(str(self.disk.image()), key, frozenset(self._failing()), added, kept, *mine)

    def do(self, image: ImageSource, was: Was) -> dict[str, float]:
        """Exchange the disk, and take the one of before back if the desktop is not as well with the new one.

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
        self.disk.swap()
        swapped = time.monotonic()
        self._journal.write(Entry(was.image, after, "swapped"))
        say(f"    {machine.name}: starts with {after}")
        try:
            machine.machines.start(machine.domain)
            readiness.wait(machine.plan, desktops=[machine.plan.desktop(machine.name)])
            if was.kept:
                self._bring(was.kept)
            answers = time.monotonic()
            say(f"    {machine.name}: its routes answer; it is compared with how it was")
            self._require_as_before(was)
        except (SiteError, CommandError) as error:
            say(f"    {after}: {error.reason.splitlines()[0]}")
            self.back()
            reason = f"was not well with {after}, and has its system of before again: {error.reason.splitlines()[0]}"
            raise SiteError("desktop", self._target, reason, "see what is wrong with the image") from error
        self._journal.close()
        return {"down_seconds": round(answers - begin, 3), "swap_seconds": round(swapped - off, 4)}

    def back(self) -> None:
        """Start with the disk of before, if it is kept; the journal is closed then."""
        machine = self._machine
        if self.disk.has_kept():
            try:
                machine.machines.shut_down(machine.domain, force=False)
            except SiteError:
                machine.machines.shut_down(machine.domain, force=True)
            self.disk.swap_back()
        self.disk.forget()
        machine.machines.start(machine.domain)
        readiness.wait(machine.plan, desktops=[machine.plan.desktop(machine.name)])
        self._journal.close()

    def _bring(self, kept: Sequence[str]) -> None:
        """Bring the files that it keeps, and start it once more, so that it is judged with them in force."""
        machine = self._machine
        brought = set(_ask(machine, {"do": "bring", "keep": kept}, NOTE_SECONDS)["files"])
        if lost := sorted(set(kept) - brought):
            raise SiteError("desktop", self._target, f"lost what it keeps: {', '.join(lost)}", "see /home/.deskyard")
        say(f"    {len(kept)} files of /etc as before; once more from the start, with them")
        machine.machines.shut_down(machine.domain, force=False)
        machine.machines.start(machine.domain)
        readiness.wait(machine.plan, desktops=[machine.plan.desktop(machine.name)])

    def _require_as_before(self, was: Was) -> None:
        machine = self._machine
        if machine.machines.host_key(machine.domain) != was.host_key:
            raise SiteError("desktop", self._target, "has another host key", "see its console")
        self._deliver(was)
        failing = self._failing()
        # Once it has its system of before again, `desktop.health` says nothing of this any more.
        if worse := [f"{check}: {detail}" for check, detail in sorted(failing.items()) if check not in was.failing]:
            raise SiteError("desktop", self._target, f"is not well: {'; '.join(worse)}", "see desktop.health")

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


def _install(machine: Machine, packages: Sequence[str]) -> None:
    failed = _ask(machine, {"do": "install", "packages": list(packages)}, INSTALL_SECONDS)["failed"]
    if failed:
        say(f"    could not be installed again: {' '.join(map(str, failed))}")


def _ask(machine: Machine, request: dict[str, Any], seconds: float = program.RUN_SECONDS) -> dict[str, Any]:
    return program.ask(machine.plan, machine.name, guest_system, request, run_seconds=seconds)


def _report(machine: Machine, before: str, after: str, was: Was | None = None) -> dict[str, Any]:
    packages, kept = (list(was.packages), list(was.kept)) if was is not None else ([], [])
    return {**machine.state(), "before": before, "after": after, "packages": packages, "kept": kept}
