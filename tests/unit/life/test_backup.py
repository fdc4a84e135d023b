"""Backups on the real restic: listed when whole, counted when booted; a desktop goes back to one or stays as it was."""

import shutil
from types import SimpleNamespace
from typing import Any

import pytest

from deskyard.declaration import declaration
from deskyard.errors import CommandError, ConfigError, DeskyardError, HostError, SiteError
from deskyard.life import power
from deskyard.life.backup import backup, restoration, retention, shown
from deskyard.life.backup.repository import repository_of
from deskyard.life.backup.vault import vault_of
from deskyard.plan.backup import NoVerdict
from deskyard.plan.power import Power
from deskyard.plan.snapshot import Snapshot
from tests.unit.life.desk import TARGET, Desk
from tests.unit.life.machines import DEV1, PLAN, Machines


def listed() -> list[tuple[str, bool]]:
    return [(row["id"], row["verified"] is not None) for row in backup.listing(TARGET)["backups"]]


def test_backup_is_listed_and_counts_once_it_was_booted(desk: Desk, capsys: pytest.CaptureFixture[str]) -> None:
    assert backup.text(backup.listing(TARGET)) == "lab/dev1 has no backups"
    made = backup.run(TARGET)["backup"]
    assert listed() == [(made["id"], False)]
    key = next((desk.folder / "state/sites/local/backup-keys").iterdir())
    said = capsys.readouterr().err
    # Nobody sits before it: a log would keep the key.
    assert str(key) in said
    assert key.read_text() not in said
    assert restoration.verify(TARGET)["backup"]["verified"] is not None
    assert listed() == [(made["id"], True)]
    assert "verified" in backup.text(backup.listing(TARGET))


def test_what_outlives_the_workspace_is_said_before_it_goes(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    declared = SimpleNamespace(site=PLAN.site, persistent=lambda: PLAN.desktops)
    monkeypatch.setattr(declaration, "read_workspace", lambda _: declared)
    assert backup.survivors("lab") == ["dev1: no verified backup", "dev2: no verified backup"]
    backup.run(TARGET)
    assert backup.survivors("lab")[0] == "dev1: no verified backup"
    restoration.verify(TARGET)
    first, second = backup.survivors("lab")
    assert first.startswith("dev1: a verified backup of ")
    assert second == "dev2: no verified backup"
    repository = repository_of(PLAN.site, PLAN.name)
    repository.key.write_text("another key")
    (trouble,) = backup.survivors("lab")
    assert trouble.startswith("its backups cannot be looked at: ")


@pytest.mark.parametrize("free_mib", [100, 1024 + 1])
def test_backup_without_room_in_its_repository_is_refused_before_the_desktop_is_read(
    desk: Desk, monkeypatch: pytest.MonkeyPatch, free_mib: int
) -> None:
    monkeypatch.setattr(shutil, "disk_usage", lambda _: SimpleNamespace(free=free_mib << 20))
    if free_mib > 1024:
        # Enough for what is new since a backup before, and the first is all new.
        repository_of(PLAN.site, PLAN.name).require_room(0)
        with pytest.raises(SiteError, match="a backup may take 1026"):
            repository_of(PLAN.site, PLAN.name).require_room(2 << 20)
        return
    with pytest.raises(SiteError, match="100 MiB are free on its disk") as caught:
        backup.run(TARGET)
    assert caught.value.field == "backups" and "backup.prune" in caught.value.remedy
    assert not list(desk.folder.rglob("backup-keys/*"))
    monkeypatch.undo()


def test_half_a_backup_is_not_listed(desk: Desk) -> None:
    desk.reader = "head -c 1000000"
    with pytest.raises(SiteError, match="1000000 bytes came"):
        backup.run(TARGET)
    assert listed() == []
    desk.reader = "false"
    with pytest.raises(CommandError):
        backup.run(TARGET)
    assert listed() == []


@pytest.mark.parametrize(
    ("fault", "reason"),
    [({"wrong": ["/ is read-only"]}, "read-only"), ({"boots": False}, "did not boot")],
)
def test_backup_that_fails_its_trial_counts_no_more(desk: Desk, fault: dict[str, Any], reason: str) -> None:
    backup.run(TARGET)
    restoration.verify(TARGET)
    for name, value in fault.items():
        setattr(desk, name, value)
    with pytest.raises(SiteError, match=reason):
        restoration.verify(TARGET)
    assert [proved for _, proved in listed()] == [False]


SAYS_NOTHING = [
    NoVerdict("machine", "dev1", "100 MiB of memory are free", "stop a desktop meanwhile"),
    ConfigError("backups", "sftp:away", "its host cannot be reached", "try sftp HOST"),
    HostError("program", "restic", "is not installed", "run ./inv host.prepare"),
]


@pytest.mark.parametrize("error", SAYS_NOTHING, ids=lambda error: type(error).__name__)
def test_trial_that_could_not_be_held_takes_no_proof_away_and_the_only_proved_backup_stays(
    desk: Desk, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], error: DeskyardError
) -> None:
    first = backup.run(TARGET)["backup"]["id"]
    restoration.verify(TARGET)
    second = backup.run(TARGET)["backup"]["id"]

    def scratch(_: Any) -> Any:
        raise error

    monkeypatch.setattr(desk, "scratch", scratch)
    with pytest.raises(type(error), match=error.reason):
        restoration.verify(TARGET, first)
    assert f"{first} could not be tried out: what is known of it stays" in capsys.readouterr().err
    assert listed() == [(first, True), (second, False)]
    retention.prune(TARGET, (1, 0, 0, 0, 0, 0), really=True)
    assert listed() == [(first, True), (second, False)]


def test_nonce_of_another_moment_is_no_proof(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(desk, "write", lambda *_: None)
    backup.run(TARGET)
    with pytest.raises(SiteError, match="not of this backup"):
        restoration.verify(TARGET)
    assert [proved for _, proved in listed()] == [False]


def test_backup_of_a_desktop_that_is_off_is_proved_by_what_it_was_given_before(
    desk: Desk, capsys: pytest.CaptureFixture[str]
) -> None:
    power.stop(TARGET)
    unproved = backup.run(TARGET)["backup"]
    assert "cannot be verified" in capsys.readouterr().err
    with pytest.raises(SiteError, match="while the desktop was off"):
        restoration.verify(TARGET, unproved["id"])
    power.start(TARGET, wait=False)
    given = backup.run(TARGET)["backup"]
    power.stop(TARGET)
    off = backup.run(TARGET)["backup"]
    assert (off["running"], off["nonce"]) == (False, given["nonce"])
    assert restoration.verify(TARGET)["backup"]["id"] == off["id"]


def test_desktop_goes_back_to_a_backup(desk: Desk, waits: list[Any]) -> None:
    made = backup.run(TARGET)["backup"]
    desk.write("second")
    done = restoration.restore(TARGET, made["id"])
    assert (desk.text(), waits) == ("first", [["dev1"]])
    assert done["machines"] == [{"name": "dev1", "state": "running", "desired": Power.RUNNING}]


def test_disks_of_a_backup_are_made_anothers_where_they_were_restored_and_its_desktop_stays(desk: Desk) -> None:
    backup.run(TARGET)
    desk.write("second")
    machine, seen = power.opened(TARGET), list[str]()
    vault = vault_of(PLAN.site, PLAN.name)
    (found,) = vault.present("dev1")
    identity = {"NONCE": "another", "TEXT": "another's"}
    # Its own desktop stands for the other one here; what a run that broke off had left of that goes.
    desk.kept = True
    with vault.copied(machine, found, "dev2", lambda guest: seen.append(guest.nonce()), identity) as into:
        assert (desk.text(), seen, desk.kept) == ("second", [found.nonce], True)
        machine.machines.shut_down(DEV1, force=True)
        staged = into(machine)
        with staged.swap(), staged.guest() as guest:
            assert (guest.nonce(), desk.text(), desk.kept) == ("another", "another's", False)
    assert [path.name for path in desk.folder.iterdir() if path.is_dir() and path.name.startswith("copy-")] == []


def test_dry_run_of_a_restore_says_what_is_lost_and_touches_nothing(desk: Desk, machines: Machines) -> None:
    made = backup.run(TARGET)["backup"]["id"]
    machines.kept = [Snapshot("before")]
    desk.write("second")
    found = restoration.would_restore(TARGET, "latest")
    assert (found["backup"]["id"], found["snapshots"], found["would_run"]) == (made, ["before"], True)
    said = shown.would_text(found)
    assert "dev1 would go back to this backup, and run; lost is what changed since, and on libvirt its" in said
    assert f"{made} " in said and "not verified" in said
    assert (machines.moves, desk.text()) == ([], "second")
    with pytest.raises(ConfigError):
        restoration.would_restore(TARGET, "19990101-000000")
    machines.now[DEV1] = "saved"
    with pytest.raises(SiteError, match="is saved: its memory belongs"):
        restoration.would_restore(TARGET, "latest")


def test_restore_that_fails_leaves_the_desktop_as_it_was(desk: Desk, waits: list[Any]) -> None:
    made = backup.run(TARGET)["backup"]
    desk.write("second")
    desk.boots = False
    with pytest.raises(SiteError, match="did not boot"):
        restoration.restore(TARGET, made["id"])
    assert (desk.text(), desk.machines.now[DEV1], waits) == ("second", "running", [])


def test_nothing_moves_while_an_interrupted_restore_keeps_what_it_held_before(desk: Desk) -> None:
    backup.run(TARGET)
    desk.kept = True
    with pytest.raises(SiteError, match="a restore was interrupted"):
        restoration.restore(TARGET, "latest")
    assert (desk.machines.moves, desk.machines.now[DEV1]) == ([], "running")


def test_desktop_that_is_wanted_off_is_off_again_after_its_restore(desk: Desk, waits: list[Any]) -> None:
    made = backup.run(TARGET)["backup"]
    desk.write("second")
    power.stop(TARGET)
    restoration.restore(TARGET, made["id"])
    assert (desk.text(), desk.machines.now[DEV1], waits) == ("first", "stopped", [])


def test_gateway_is_told_that_a_desktop_is_off_after_its_restore(
    desk: Desk, waits: list[Any], heard: list[tuple[str, str]]
) -> None:
    made = backup.run(TARGET)["backup"]["id"]
    power.stop(TARGET)
    heard.clear()
    restoration.restore(TARGET, made)
    assert heard == [("dev1", "stopped")]


def test_nothing_moves_for_a_backup_that_is_not_there_or_a_desktop_whose_memory_is_kept(desk: Desk) -> None:
    with pytest.raises(ConfigError, match="no such backup"):
        restoration.restore(TARGET, "20200101-000000")
    backup.run(TARGET)
    power.pause(TARGET, to_disk=True)
    moves = list(desk.machines.moves)
    with pytest.raises(SiteError, match="is saved"):
        restoration.restore(TARGET, "latest")
    assert desk.machines.moves == moves


def test_two_at_once_are_refused(desk: Desk) -> None:
    with power.opened(TARGET).alone(), pytest.raises(HostError, match="another task"):
        backup.run(TARGET)


def test_old_backups_go_when_it_is_said_and_the_last_verified_stays(desk: Desk) -> None:
    names = [backup.run(TARGET)["backup"]["id"] for _ in range(3)]
    restoration.verify(TARGET, names[1])
    last = (1, 0, 0, 0, 0, 0)
    shown = retention.prune(TARGET, last)
    assert [row["id"] for row in shown["removed"]] == [names[0]]
    assert [name for name, _ in listed()] == names
    assert retention.prune(TARGET, last, really=True)["done"]
    assert listed() == [(names[1], True), (names[2], False)]
    assert retention.prune(TARGET, last)["half"] == 0
