"""Whether a desktop is well: findings from what it and its gateway say. Pure; what a guest says may be anything."""

import math
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from deskyard.model.care import BackupSchedule
from deskyard.plan.power import Power
from deskyard.plan.printable import printable

State = Literal["ok", "warning", "failed"]
MIB = 1024**2
# In percent of the whole: below the first a warning, below the second a failure.
DISK_FREE, FILES_FREE, MEMORY_FREE = (15.0, 5.0), (15.0, 5.0), (8.0, 2.0)
# A clock that is off by more breaks TLS and logs.
CLOCK_SECONDS = (2.0, 30.0)
CERTIFICATE_DAYS = (14.0, 3.0)
BACKUP_SECONDS = 7 * 86_400
MOST_UNITS = 20
MOST_SAID = 80
MOST_SHOWN = 300
# Without it nobody sees how the desktop is.
GATEWAY = "gateway"
# What fails there says nothing of a system: its backups, its gateway, and a clock that is compared with this host's.
ELSEWHERE = frozenset({"backup", "clock", GATEWAY})
# What a person fills who works there meanwhile.
FILLED = frozenset({"disk", "files", "home", "memory"})
# What may be in trouble only for as long as everything starts.
SETTLING = frozenset({"services"})
# How a finding begins that says of an agent that somebody has stopped it.
STOPPED = "stopped by"


@dataclass(frozen=True)
class Finding:
    """A fact that was looked at: how it is, and what to do about it."""

    check: str
    state: State
    detail: str
    remedy: str = ""


@dataclass
class Comparison:
    """The checks that fail and did not before an exchange: at the first look, or later in two looks one after another.

    `last` is what failed at the last look that saw the desktop; None means that nobody has seen it yet. `silent` is
    what kept the last look from seeing it.
    """

    before: Collection[str]
    last: Mapping[str, str] | None = None
    worse: dict[str, str] = field(default_factory=dict)
    silent: str = ""

    def take(self, failed: Mapping[str, str]) -> None:
        """Take in a look, as the details of the checks that fail, by their names."""
        self.silent = failed.get(GATEWAY, "")
        if self.silent:
            return
        now = _without(failed, ELSEWHERE.union(self.before))
        if self.last is None:
            self.worse = _without(now, SETTLING)
        else:
            now = _without(now, FILLED)
            # On a busy machine anything is late once.
            self.worse = _without(now, now.keys() - self.last.keys())
        self.last = now


def power(state: str, desired: str, target: str) -> Finding:
    """Whether a machine runs if it is wanted to."""
    if desired != Power.RUNNING:
        return Finding(
            "power", "ok", f"{state}, as it is wanted" if state != "running" else "running, though wanted off"
        )
    if state == "running":
        return Finding("power", "ok", "running")
    if state == "io-error":
        return Finding("power", "failed", "halted: its host has no room", f"make room, then ./inv care.run {target}")
    return Finding("power", "failed", state, f"./inv desktop.start {target}")


def routes(answers: Mapping[str, Mapping[str, Any]], wanted: Iterable[str]) -> list[Finding]:
    """Whether each route answers its gateway."""
    found = []
    for route in wanted:
        answer = answers.get(route, {})
        detail = printable(str(answer.get("detail") or "did not answer"))
        good = bool(answer.get("ready"))
        remedy = "" if good else "./inv desktop.restart, or look at its console"
        found.append(Finding(f"route {route}", "ok" if good else "failed", detail, remedy))
    return found


def inside(
    answer: Mapping[str, Any], between: tuple[float, float], target: str, processes: int | None = None
) -> list[Finding]:
    """Judge what a desktop said between two moments; an answer that makes no sense is a failure of that check.

    `processes` is the cap of its tier.
    """
    looks: dict[str, Callable[[], Finding]] = {
        "disk": lambda: _share("disk", answer["disk"], DISK_FREE, "delete what is not needed, or choose a larger tier"),
        "home": lambda: _share("home", answer["home"], DISK_FREE, "delete what is not needed, or choose a larger tier"),
        "files": lambda: _share("files", _files(answer["files"]), FILES_FREE, "delete many small files"),
        "memory": lambda: _share("memory", answer["memory"], MEMORY_FREE, "close programs, or choose a larger tier"),
        "file system": lambda: _writable(answer["read_only"], target),
        "units": lambda: _units(answer["failed_units"]),
        "services": lambda: _services(answer["unsteady"]),
        "browser": lambda: _browser(answer["browser"], target),
        "clock": lambda: _clock(_off(float(answer["time"]), between), target),
        "restart": lambda: _restart(answer["restart_required"], target),
        "processes": lambda: _processes(answer["processes"], processes, target),
    }
    found = []
    for name, look in looks.items():
        try:
            found.append(look())
        except (KeyError, TypeError, ValueError, AttributeError, ZeroDivisionError, OverflowError):
            found.append(Finding(name, "failed", "the desktop's answer makes no sense", "see what runs in it"))
    return found


def certificate(days: float) -> Finding:
    """How long the certificate of the door is good."""
    detail = f"good for {days:.0f} days" if days > 0 else "has expired"
    return Finding(
        "certificate", _below(days, CERTIFICATE_DAYS), detail, _if_bad(days, CERTIFICATE_DAYS, "./inv workspace.up")
    )


def backup(
    newest: float | None, verified: float | None, target: str, schedule: BackupSchedule | None = None
) -> Finding:
    """How old, in seconds, a desktop's newest backup and its newest verified one are; None for none at all.

    What is too old its schedule says, if it has one.
    """
    if newest is None or verified is None:
        what, remedy = ("none", "run") if newest is None else ("none is verified", "verify")
        return Finding("backup", "warning", what, f"./inv backup.{remedy} {target}")
    most, most_verified, remedy = BACKUP_SECONDS, BACKUP_SECONDS, f"./inv backup.run {target}, then backup.verify"
    if schedule is not None:
        most, most_verified = schedule.every_seconds, schedule.verify_seconds
        remedy = f"./inv care.run {target} --due says what is wrong; see that its timer runs"
    late = newest > most or verified > most_verified
    detail = f"{_old(newest)} old, the last verified one {_old(verified)}"
    return Finding("backup", "warning" if late else "ok", detail, remedy if late else "")


def upgrade(step: str, target: str) -> Finding:
    """An upgrade that has not come to its end: a task is at it, or it broke off."""
    return Finding("upgrade", "warning", f"under way, or broke off ({step})", f"./inv desktop.upgrade {target} ends it")


def stopped_agent(stopped: Mapping[str, Any], target: str) -> Finding:
    """An agent that somebody has stopped, as its gateway says; what else is wrong may be of that."""
    still = "" if stopped.get("still") else ", and not known to stand still"
    return Finding(
        "agent", "warning", f"{STOPPED} {printable(str(stopped.get('by')))}{still}", f"./inv desktop.thaw {target}"
    )


def worst(findings: Iterable[Finding]) -> State:
    """The worst state among findings."""
    states = {finding.state for finding in findings}
    return "failed" if "failed" in states else "warning" if "warning" in states else "ok"


def _old(seconds: float) -> str:
    return f"{seconds / 86_400:.0f} days" if seconds >= 2 * 86_400 else f"{seconds / 3600:.0f} hours"


def _share(name: str, sizes: Mapping[str, Any], limits: tuple[float, float], remedy: str) -> Finding:
    size, free = int(sizes["size"]), int(sizes["free"])
    percent = 100 * free / size
    detail = f"{percent:.0f} % free" if name == "files" else f"{free // MIB} of {size // MIB} MiB free"
    return Finding(name, _below(percent, limits), detail, _if_bad(percent, limits, remedy))


def _files(files: Mapping[str, Any]) -> dict[str, int]:
    # A file system that does not count them says 0.
    most = int(files["most"])
    return {"size": most, "free": int(files["free"])} if most else {"size": 1, "free": 1}


def _writable(read_only: Any, target: str) -> Finding:
    if read_only is True:
        return Finding("file system", "failed", "is read-only: it met an error", f"./inv desktop.restart {target}")
    return Finding("file system", "ok", "can be written")


def _units(units: Any) -> Finding:
    names = [printable(str(name)) for name in list(units)[:MOST_UNITS]]
    if not names:
        return Finding("units", "ok", "none has failed")
    return Finding("units", "failed", f"failed: {', '.join(names)}", f"on the desktop: journalctl --unit {names[0]}")


def _services(rows: Any) -> Finding:
    """Those that systemd starts again and again are a failure; one that is off may be so by somebody's wish."""
    loops, off = list[str](), list[str]()
    for row in list(rows)[:MOST_UNITS]:
        unit, restarts = printable(str(row["unit"]))[:MOST_SAID], int(row["restarts"])
        if row["state"] == "inactive":
            off.append(unit)
        else:
            loops.append(f"{unit} ({restarts} times)")
    said = [f"start again and again: {', '.join(loops)}"] if loops else []
    said += [f"off, though enabled: {', '.join(off)}"] if off else []
    if not said:
        return Finding("services", "ok", "run steadily")
    unit = (loops or off)[0].partition(" ")[0]
    remedy = f"on the desktop: journalctl --unit {unit}"
    remedy += "" if loops else f"; then systemctl start {unit}, or disable it if it is not wanted"
    return Finding("services", "failed" if loops else "warning", "; ".join(said)[:MOST_SHOWN], remedy)


def _browser(answer: Mapping[str, Any] | None, target: str) -> Finding:
    if answer is None:
        return Finding("browser", "ok", "none in its image")
    said = printable(str(answer["said"]))[:MOST_SAID]
    if answer["starts"] is True:
        return Finding("browser", "ok", said)
    return Finding("browser", "failed", f"does not start: {said}", f"./inv desktop.reinstall {target}")


def _off(answer: float, between: tuple[float, float]) -> float:
    """How far a clock is off at least: how long its answer was on the way is not known."""
    if not math.isfinite(answer):
        raise ValueError(answer)
    begin, end = between
    return answer - begin if answer < begin else max(0.0, answer - end)


def _clock(off: float, target: str) -> Finding:
    limits = (-CLOCK_SECONDS[0], -CLOCK_SECONDS[1])
    remedy = f"./inv desktop.pause {target} and resume set it"
    return Finding("clock", _below(-abs(off), limits), f"{off:+.1f} s", _if_bad(-abs(off), limits, remedy))


def _restart(required: Any, target: str) -> Finding:
    if required is True:
        return Finding("restart", "warning", "updates wait for one", f"./inv desktop.restart {target}")
    return Finding("restart", "ok", "none is due")


def _processes(held: Mapping[str, int | None] | None, cap: int | None, target: str) -> Finding:
    """Whether no unit of its account and its agent may have more than its tier; `held` is None where none was set."""
    remedy = f"./inv workspace.up {target.partition('/')[0]}"
    if held is None:
        missing = f"no cap is set, its tier has {cap}"
        return Finding("processes", "warning", missing, remedy) if cap else Finding("processes", "ok", "no cap")
    if cap is None:
        return Finding("processes", "warning", "capped, though its tier has no cap", remedy)
    numbers = {printable(str(unit)): None if value is None else int(value) for unit, value in held.items()}
    wrong = sorted((unit, value) for unit, value in numbers.items() if value is None or value > cap)
    if wrong:
        shown = ", ".join(f"{unit} {'any number' if value is None else value}" for unit, value in wrong)
        return Finding("processes", "warning", f"its tier has {cap}: {shown}"[:MOST_SHOWN], remedy)
    return Finding("processes", "ok", f"{cap} at most in each of {len(held)} parts")


def _below(value: float, limits: tuple[float, float]) -> State:
    return "failed" if value < limits[1] else "warning" if value < limits[0] else "ok"


def _if_bad(value: float, limits: tuple[float, float], remedy: str) -> str:
    return remedy if _below(value, limits) != "ok" else ""


def _without(failed: Mapping[str, str], names: Collection[str]) -> dict[str, str]:
    return {check: detail for check, detail in failed.items() if check not in names}
