"""Gives a desktop another system disk, of a newer image or of the same one; /home, machine-id and keys stay."""

from collections.abc import Sequence
from typing import Any

from deskyard.declaration import declaration
from deskyard.errors import ConfigError, SiteError
from deskyard.host.places import tree
from deskyard.host.progress import say
from deskyard.life import power
from deskyard.life.backup import final
from deskyard.life.exchange import NOTE_SECONDS, Exchange, Was, ask, watched
from deskyard.life.journal import Journal
from deskyard.life.power import Machine
from deskyard.workspace import smaller

INSTALL_SECONDS = 1800.0
# For each so many bytes of a disk mke2fs makes room for a file (inode_ratio in Debian's mke2fs.conf).
BYTES_PER_FILE = 16384
ROLE = "ansible/roles/home_volume/files"
# Where role `home_volume` puts its files, and their modes.
HOME_FILES = {
    "home-volume.sh": ("/usr/local/lib/deskyard/home-volume", 0o755),
    "home-volume.service": ("/etc/systemd/system/home-volume.service", 0o644),
    "cloud-init.yaml": ("/etc/cloud/cloud.cfg.d/91-deskyard-home.cfg", 0o644),
}


def upgrade(
    target: str,
    *,
    again: bool = False,
    packages: bool = False,
    dry_run: bool = False,
    only: str | None = None,
    watch: float | None = None,
) -> dict[str, Any]:
    """Give a desktop a system disk of its image as built now, and keep the one of before.

    It has to answer on every route and be as well as before, and stay so for `watch` seconds (by default a minute; with
    0 it is one look); if not, the disk of before comes back. `again` takes the same image too; `packages` installs what
    its owner had installed; `dry_run` only says what would be done. With `only`, raises `ConfigError` if another image
    is built by now. An exchange that broke off is ended first; one whose watch broke off stays if the desktop is well.
    """
    seconds = watched(watch)
    machine = power.behind_gateway(target)
    declared = declaration.read(machine.plan.name)
    image = declared.image_sources()[machine.plan.desktop(machine.name).machine.image]
    wanted = f"{image.name}-{image.digest}"
    exchange = Exchange(machine)
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
        times = exchange.do(image, was, seconds)
    if packages and was.packages:
        _install(machine, was.packages)
    elif was.packages:
        say(f"    its owner had installed: {' '.join(was.packages)}")
        say("    --packages installs them again; changed files of /etc are in /home/.deskyard/before/etc.tar.gz")
    return {**_report(machine, was.image, wanted, was), **times}


def roll_back(target: str) -> dict[str, Any]:
    """Give a desktop the system disk back that it had before its last exchange; one that is wanted off stays off."""
    machine = power.behind_gateway(target)
    exchange = Exchange(machine)
    with machine.alone(), machine.shown():
        now = str(exchange.disk.image())
        if not exchange.disk.has_kept():
            reason = "no system disk of before is kept"
            raise SiteError("desktop", target, reason, "one is kept from desktop.upgrade to the next one")
        exchange.require_way_back()
        silent = exchange.back()
    if silent:
        reason = f"has its system of before, and its routes do not all answer: {silent}"
        raise SiteError("desktop", target, reason, f"see ./inv desktop.health {target}")
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
    if ask(machine, {"do": "look"})["home"]:
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
    ask(machine, {"do": "move_home", "files": files})
    power.restart(target)
    if not ask(machine, {"do": "look"})["home"]:
        remedy = f"see `journalctl -u home-volume` in it; if it has no such disk, run {up}, then this again"
        raise SiteError("desktop", target, "did not find its volume for /home", remedy)
    return {"desktop": target, "home": "on its volume; the old files lie below, on the system disk"}


def _require_home_fits(machine: Machine, size_gib: int) -> None:
    """Raise `SiteError` if a volume of this size takes less than /home holds: its copy would break off in the boot."""
    held = ask(machine, {"do": "measure_home"}, NOTE_SECONDS)
    most, files = smaller.room_of(size_gib), size_gib * smaller.GIB // BYTES_PER_FILE
    if int(held["bytes"]) > most or int(held["files"]) > files:
        holds = f"its /home holds {int(held['bytes']) >> 20} MiB in {held['files']} files"
        reason = f"{holds}; a volume of {size_gib} GiB takes {most >> 20} MiB in {files}"
        remedy = "free some of it, or give it a tier with a larger home_gib"
        raise SiteError("desktop", f"{machine.plan.name}/{machine.name}", reason, remedy)


def _install(machine: Machine, packages: Sequence[str]) -> None:
    failed = ask(machine, {"do": "install", "packages": list(packages)}, INSTALL_SECONDS)["failed"]
    if failed:
        say(f"    could not be installed again: {' '.join(map(str, failed))}")


def _report(machine: Machine, before: str, after: str, was: Was | None = None) -> dict[str, Any]:
    packages, kept = (list(was.packages), list(was.kept)) if was is not None else ([], [])
    return {**machine.state(), "before": before, "after": after, "packages": packages, "kept": kept}
