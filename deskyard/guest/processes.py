"""Runs as root on a desktop: caps the processes of its account and its agent, lifts that cap, or says what holds.

systemd has the kernel count processes and threads by slices and units, so the cap is one of each: of the agent's
slice, of each service that runs as the account outside of it, of the account's own logins together, and of every other
login by itself. Nothing above them is capped: root still comes in and forks, to end what is too much or lift the cap.

Sent over standard input and run by `python3`, so it knows only the standard library of Python 3.10 and later. It reads
a request (one line of JSON) and answers one line of JSON. Without the whole request it does nothing.
"""

import contextlib
import errno
import pwd
import subprocess
from collections.abc import Collection, Iterator
from pathlib import Path

from deskyard.guest.request import Answer, serve_action
from deskyard.guest.root_file import alone, put, read

SYSTEM = Path("/etc/systemd/system")
# A file of our own in each unit's folder: what its owner has set by `systemctl set-property` stays theirs.
DROP_IN = "90-deskyard-processes.conf"
MODE = 0o644
SECTIONS = {"slice": "Slice", "service": "Service", "scope": "Scope"}
AGENT_SLICE = "agent.slice"
# systemd's word for all scopes that begin so: a login has one, with a number that nobody knows before.
EVERY_LOGIN, LOGINS = "session-.scope", "session-*.scope"
# Of version 1 of control groups each controller has a tree of its own.
TREES = (Path("/sys/fs/cgroup/pids"), Path("/sys/fs/cgroup"))
ABOUT = ("Id", "User", "Slice", "Transient", "TasksMax", "ControlGroup", "NeedDaemonReload")
SECONDS = 60

Unit = dict[str, str]


def bring(account: str, processes: int | None) -> Answer:
    """Cap each part, or lift the cap where there is no number; `otherwise` is what may have more all the same.

    A part that has a tighter cap of its own keeps that.
    """
    with alone(SYSTEM):
        before = capped()
        own = {EVERY_LOGIN, *(unit["Id"] for unit in _units(account, ()))}
        kept = {part for part in before if processes is not None and part in own and _has(part, processes)}
        gone = {*before} - kept
        for part in gone:
            put(_file(part), None, MODE)
        # Without files of other numbers, so that each part shows what it has by itself.
        units = _reloaded(account, before, needed=bool(gone))
        new = set() if processes is None else (_looser(units, processes) & own) - kept
        for part in new:
            put(_file(part), _text(part, processes), MODE)
        units = _reloaded(account, before, needed=bool(new))
        enforced = [unit["Id"] for unit in units if _enforce(unit)]
    done = "unchanged" if not (gone or new or enforced) else "removed" if processes is None else "changed"
    ours = [unit for unit in units if unit["Id"] in own or unit["Id"].endswith(".scope")]
    otherwise = {} if processes is None else _more(ours, processes)
    return {"done": done, "parts": sorted(kept | new), "otherwise": otherwise}


def held(account: str) -> dict[str, int | None] | None:
    """The processes that each unit of the account may have, None being any number; None if nothing was capped."""
    before = capped()
    return _held(_units(account, before)) if before else None


def capped() -> list[str]:
    """The parts that were capped."""
    return sorted(path.parent.name.removesuffix(".d") for path in SYSTEM.glob(f"*.d/{DROP_IN}"))


def _held(units: list[Unit]) -> dict[str, int | None]:
    values = {unit["Id"]: _value(unit) for unit in units}
    return {name: int(value) if value.isdecimal() else None for name, value in values.items() if value}


def _more(units: list[Unit], processes: int) -> dict[str, int | None]:
    return {name: value for name, value in _held(units).items() if value is None or value > processes}


def _value(unit: Unit) -> str:
    """The kernel's word where the unit runs, and else systemd's for when it will; nothing if it ended meanwhile."""
    file = _kernel(unit)
    if file is None:
        return unit["TasksMax"]
    with _ending():
        return file.read_text().strip()
    return ""


def _enforce(unit: Unit) -> bool:
    """Have the kernel hold what systemd says, which tells it only when it starts a unit; whether that was needed."""
    file, wanted = _kernel(unit), unit["TasksMax"] if unit["TasksMax"].isdecimal() else "max"
    with _ending():
        if file is not None and file.read_text().strip() != wanted:
            file.write_text(wanted)
            return True
    return False


@contextlib.contextmanager
def _ending() -> Iterator[None]:
    """A unit may end while it is looked at."""
    try:
        yield
    except OSError as error:
        if error.errno not in (errno.ENOENT, errno.ENODEV):
            raise


def _kernel(unit: Unit) -> Path | None:
    """The file in which the kernel keeps the cap of a unit; None for one that does not run."""
    files = (tree / unit["ControlGroup"].lstrip("/") / "pids.max" for tree in TREES if unit["ControlGroup"])
    return next((file for file in files if file.exists()), None)


def _looser(units: list[Unit], processes: int) -> set[str]:
    """The parts that may have more processes; a login has no number of its own until it has ours."""
    loose = {unit["Id"] for unit in units if not unit["TasksMax"].isdecimal() or int(unit["TasksMax"]) > processes}
    return {EVERY_LOGIN, *(name for name in loose if not name.endswith(".scope"))}


def _reloaded(account: str, before: Collection[str], *, needed: bool) -> list[Unit]:
    """The units, once systemd has taken up what is in its files; a run that was killed may not have come so far."""
    units = [] if needed else _units(account, before)
    if needed or any(unit["NeedDaemonReload"] == "yes" for unit in units):
        _systemctl("daemon-reload")
        units = _units(account, before)
    return units


def _units(account: str, before: Collection[str]) -> list[Unit]:
    """The units that have a cap each, as systemd has them, and those that had one `before`."""
    who = pwd.getpwnam(account)
    slices = (AGENT_SLICE, f"user-{who.pw_uid}.slice")
    named = {*slices, *before} - {EVERY_LOGIN}
    shown = _systemctl("show", "--property", ",".join(ABOUT), "--", *sorted(named), "*.service", LOGINS)
    units = {unit["Id"]: unit for unit in map(_unit, shown.split("\n\n")) if unit.keys() >= {*ABOUT} - {"User"}}
    return [
        unit
        for name, unit in units.items()
        if name in named or not name.endswith(".service") or _is_of(unit, {account, str(who.pw_uid)})
    ]


def _is_of(service: Unit, names: Collection[str]) -> bool:
    """Whether it runs as the account, and is in no slice that is counted as a whole; a transient one has no file."""
    counted = service["Slice"].startswith(("agent.", "agent-", "user-"))
    return service.get("User", "") in names and not counted and service["Transient"] != "yes"


def _unit(text: str) -> Unit:
    return {name: value for name, _, value in (line.partition("=") for line in text.splitlines())}


def _file(part: str) -> Path:
    return SYSTEM / f"{part}.d" / DROP_IN


def _text(part: str, processes: int | None) -> str:
    return f"[{SECTIONS[part.rpartition('.')[2]]}]\nTasksMax={processes}\n"


def _has(part: str, processes: int | None) -> bool:
    """Whether its file has that number."""
    found = read(_file(part))
    return found is not None and found[:2] == (_text(part, processes).encode(), MODE)


def _systemctl(*arguments: str) -> str:
    argv = ["systemctl", "--no-pager", *arguments]
    return subprocess.run(argv, capture_output=True, text=True, timeout=SECONDS, check=True).stdout


if __name__ == "__main__":
    serve_action({"bring": bring})
