"""The program that caps a desktop's processes: its account's parts alone, over a boot, at once, both ways."""

import getpass
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

from deskyard.guest import processes

ACCOUNT, UID = getpass.getuser(), str(os.getuid())
MINE = f"user-{UID}.slice"
DEFAULT = 9000


class Systemd:
    """A systemd with some units, which takes up files at a reload, and tells the kernel nothing of them then."""

    def __init__(self, system: Path, groups: Path) -> None:
        self.system, self.groups = system, groups
        self.units: dict[str, dict[str, str]] = {}
        self.reloads = 0
        self.add("agent.slice", Slice="-.slice", group="agent.slice")
        self.add(MINE, Slice="user.slice", group="")
        self.add("session-7.scope", Slice=f"user-{UID}1.slice", group="user.slice/session-7.scope")

    def add(self, name: str, *, group: str, **facts: str) -> None:
        """A unit, which runs if it has a control group."""
        about = {"Id": name, "Slice": "system.slice", "Transient": "no", "TasksMax": str(DEFAULT)}
        self.units[name] = {**about, "ControlGroup": f"/{group}" if group else "", "NeedDaemonReload": "no", **facts}
        if group:
            self.file(name).parent.mkdir(parents=True)
            self.file(name).write_text(f"{DEFAULT}\n")

    def file(self, name: str) -> Path:
        """Where the kernel has the number of a unit."""
        return self.groups / self.units[name]["ControlGroup"].lstrip("/") / "pids.max"

    def held(self, name: str) -> str:
        """What the kernel holds a unit to."""
        return self.file(name).read_text().strip()

    def run(self, argv: list[str], **_: Any) -> subprocess.CompletedProcess[str]:
        """Answer as systemctl."""
        assert argv[:2] == ["systemctl", "--no-pager"]
        if argv[2] == "daemon-reload":
            self._reload()
            return subprocess.CompletedProcess(argv, 0, "", "")
        wanted = argv[argv.index("--") + 1 :]
        shown = [
            unit for name, unit in self.units.items() if name in wanted or f"*.{name.rpartition('.')[2]}" in wanted
        ]
        shown += [unit for name, unit in self.units.items() if name.startswith("session-")]
        text = "\n\n".join("\n".join(f"{key}={value}" for key, value in unit.items()) for unit in shown)
        return subprocess.CompletedProcess(argv, 0, f"{text}\n", "")

    def _reload(self) -> None:
        self.reloads += 1
        for name, unit in self.units.items():
            part = "session-.scope" if name.startswith("session-") else name
            files = sorted((self.system / f"{part}.d").glob("*.conf"))
            numbers = [file.read_text().partition("TasksMax=")[2].strip() for file in files]
            unit.update(TasksMax=numbers[-1] if numbers else str(DEFAULT), NeedDaemonReload="no")


@pytest.fixture
def systemd(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Systemd:
    """The machine's systemd, with a session of the account."""
    systemd = Systemd(tmp_path / "system", tmp_path / "groups")
    systemd.add("session.service", group="system.slice/session.service", User=ACCOUNT)
    monkeypatch.setattr(processes, "SYSTEM", systemd.system)
    monkeypatch.setattr(processes, "TREES", (tmp_path / "no such version", systemd.groups))
    monkeypatch.setattr(subprocess, "run", systemd.run)
    return systemd


def files(systemd: Systemd) -> dict[str, str]:
    """What is there for the next boot, by its place."""
    return {str(path.relative_to(systemd.system)): path.read_text() for path in systemd.system.rglob("*.conf")}


def test_cap_is_kept_and_in_force_at_once_and_goes_as_it_came(systemd: Systemd) -> None:
    parts = sorted(["agent.slice", "session-.scope", "session.service", MINE])
    assert processes.bring(ACCOUNT, 300) == {"done": "changed", "parts": parts, "otherwise": {}}
    assert files(systemd) == {
        "agent.slice.d/90-deskyard-processes.conf": "[Slice]\nTasksMax=300\n",
        f"{MINE}.d/90-deskyard-processes.conf": "[Slice]\nTasksMax=300\n",
        "session.service.d/90-deskyard-processes.conf": "[Service]\nTasksMax=300\n",
        "session-.scope.d/90-deskyard-processes.conf": "[Scope]\nTasksMax=300\n",
    }
    running = ("agent.slice", "session-7.scope", "session.service")
    assert [systemd.held(name) for name in running] == ["300"] * 3
    assert processes.held(ACCOUNT) == dict.fromkeys([*running, MINE], 300)

    assert processes.bring(ACCOUNT, 300)["done"] == "unchanged"
    assert processes.bring(ACCOUNT, 400)["done"] == "changed"
    assert [systemd.held(name) for name in running] == ["400"] * 3

    assert processes.bring(ACCOUNT, None) == {"done": "removed", "parts": [], "otherwise": {}}
    assert (files(systemd), [systemd.held(name) for name in running]) == ({}, [str(DEFAULT)] * 3)
    assert processes.held(ACCOUNT) is None
    assert processes.bring(ACCOUNT, None)["done"] == "unchanged"
    # The number of before goes first, so that each part shows its own.
    assert systemd.reloads == 1 + 2 + 1


@pytest.mark.parametrize(
    ("facts", "capped"),
    [
        ({"User": ACCOUNT}, True),
        ({"User": UID}, True),
        ({"User": "somebody"}, False),
        ({}, False),
        ({"User": ACCOUNT, "Slice": "agent.slice"}, False),
        ({"User": ACCOUNT, "Slice": MINE}, False),
        ({"User": ACCOUNT, "Transient": "yes"}, False),
    ],
)
def test_services_of_the_account_that_no_slice_counts_are_found(
    systemd: Systemd, facts: dict[str, str], capped: bool
) -> None:
    user = facts.pop("User", "")
    systemd.add("other.service", group="system.slice/other.service", User=user, **facts)
    assert ("other.service" in processes.bring(ACCOUNT, 300)["parts"]) == capped
    assert (systemd.held("other.service") == "300") == capped


def test_service_that_is_no_more_the_accounts_is_let_go(systemd: Systemd) -> None:
    processes.bring(ACCOUNT, 300)
    systemd.units["session.service"]["User"] = "somebody"
    answer = processes.bring(ACCOUNT, 300)
    assert (answer["done"], answer["otherwise"], "session.service" in answer["parts"]) == ("changed", {}, False)
    assert (systemd.held("session.service"), systemd.held("agent.slice")) == (str(DEFAULT), "300")


def test_part_with_a_tighter_cap_of_its_own_keeps_that(systemd: Systemd) -> None:
    systemd.units["session.service"]["TasksMax"] = "50"
    theirs = systemd.system / "session.service.d" / "20-mine.conf"
    theirs.parent.mkdir(parents=True)
    theirs.write_text("[Service]\nTasksMax=50\n")
    for cap, capped in ((300, False), (40, True), (300, False)):
        answer = processes.bring(ACCOUNT, cap)
        assert (answer["otherwise"], "session.service" in answer["parts"]) == ({}, capped)
        assert systemd.held("session.service") == str(min(cap, 50))


def test_number_that_was_changed_past_systemd_is_set_again(systemd: Systemd) -> None:
    processes.bring(ACCOUNT, 300)
    systemd.file("agent.slice").write_text("max\n")
    held = processes.held(ACCOUNT)
    assert held is not None and held["agent.slice"] is None
    assert processes.bring(ACCOUNT, 300)["done"] == "changed"
    assert systemd.held("agent.slice") == "300"


def test_run_that_was_killed_before_its_reload_is_ended_by_the_next(
    systemd: Systemd, monkeypatch: pytest.MonkeyPatch
) -> None:
    processes.bring(ACCOUNT, 300)
    for part in processes.capped():
        (systemd.system / f"{part}.d" / processes.DROP_IN).unlink()
    for unit in systemd.units.values():
        unit["NeedDaemonReload"] = "yes"
    assert processes.bring(ACCOUNT, None)["done"] == "removed"
    assert systemd.held("session-7.scope") == str(DEFAULT)


def test_file_of_the_desktops_owner_stays_and_what_it_overrules_is_said(systemd: Systemd) -> None:
    theirs = systemd.system / "session.service.d" / "95-mine.conf"
    theirs.parent.mkdir(parents=True)
    theirs.write_text("[Service]\nTasksMax=7000\n")
    assert processes.bring(ACCOUNT, 300)["otherwise"] == {"session.service": 7000}
    processes.bring(ACCOUNT, None)
    assert list(files(systemd)) == ["session.service.d/95-mine.conf"]


def test_unit_that_ends_meanwhile_is_passed_over(systemd: Systemd, monkeypatch: pytest.MonkeyPatch) -> None:
    processes.bring(ACCOUNT, 300)
    systemd.file("session-7.scope").unlink()
    answer = processes.bring(ACCOUNT, 400)
    assert (answer["done"], answer["otherwise"]) == ("changed", {})
    monkeypatch.setattr(processes, "_kernel", lambda unit: systemd.groups / "gone" / "pids.max")
    assert processes.held(ACCOUNT) == {}
