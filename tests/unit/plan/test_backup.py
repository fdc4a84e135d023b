"""What is a backup, and what of backups stays."""

from typing import Any

import pytest

from deskyard.errors import ConfigError
from deskyard.plan import backup as plan
from deskyard.plan.backup import Backup, Disk

DISK = Disk("vda", 20 << 30, 3 << 30, "d1")


def made(name: str, time: int, **more: Any) -> Backup:
    fields = {"running": True, "nonce": f"n-{name}", "disks": (DISK,), "manifest": f"m-{name}", **more}
    return Backup(name, "dev1", time, **fields)


def row(backup: Backup) -> dict[str, Any]:
    return {"id": backup.manifest, "tags": backup.tags}


def disk_row(backup: str, snapshot: str, desktop: str = "dev1") -> dict[str, Any]:
    return {"id": snapshot, "tags": plan.disk_tags(desktop, backup)}


@pytest.mark.parametrize(
    "fields",
    [{}, {"running": False}, {"nonce": ""}, {"verified": 1_800_000_000, "added": 7}],
    ids=["running", "off", "without nonce", "verified"],
)
def test_what_is_written_of_a_backup_is_read_again(fields: dict[str, Any]) -> None:
    backup = made("a", 1, **fields)
    assert plan.backups([disk_row("a", "d1"), row(backup)]) == [backup]


def test_only_what_has_a_manifest_and_all_its_disks_is_a_backup() -> None:
    two = made("a", 1, disks=(DISK, Disk("vdc", 1, 1, "d2")))
    assert plan.backups([disk_row("a", "d1"), disk_row("a", "d2")]) == []
    assert plan.backups([disk_row("a", "d1"), row(two)]) == []
    assert plan.backups([disk_row("a", "d1"), disk_row("a", "d2"), row(two)]) == [two]


def test_backups_of_another_desktop_and_foreign_snapshots_are_not_shown() -> None:
    rows = [disk_row("a", "d1"), row(made("a", 1)), {"id": "x"}, {"id": "y", "tags": [plan.MANIFEST, "disk=1"]}]
    assert plan.backups(rows, "dev2") == []
    assert [backup.id for backup in plan.backups(rows, "dev1")] == ["a"]


def test_manifest_whose_tags_were_being_changed_counts_once_and_the_other_is_left_over() -> None:
    before, after = made("a", 1), made("a", 1, verified=5, manifest="m-new")
    rows = [disk_row("a", "d1"), row(after), row(before)]
    assert plan.backups(rows) == [after]
    assert plan.leftovers(rows, "dev1") == ["m-a"]


def test_disks_of_interrupted_runs_are_left_over() -> None:
    rows = [disk_row("a", "d1"), row(made("a", 1)), disk_row("b", "d9"), disk_row("c", "d8", "dev2"), {"id": "x"}]
    assert plan.leftovers(rows, "dev1") == ["d9"]


def test_backup_is_found_by_its_id_and_the_newest_by_a_word() -> None:
    present = [made("a", 1), made("b", 2)]
    assert plan.find("a", present, "lab/dev1").id == "a"
    assert plan.find("latest", present, "lab/dev1").id == "b"
    with pytest.raises(ConfigError, match="take one of these: a, b"):
        plan.find("c", present, "lab/dev1")


def test_backup_of_a_desktop_that_was_off_holds_any_nonce_of_before() -> None:
    first, second, later = made("a", 1), made("b", 2), made("d", 4)
    off = made("c", 3, running=False, nonce=plan.last_nonce([first, second]))
    present = [first, second, off, later]
    assert off.nonce == "n-b"
    # A restored snapshot may have brought an older one back.
    assert plan.nonces(off, present) == {"n-a", "n-b"}
    assert plan.nonces(first, present) == {"n-a"}
    assert plan.nonces(made("e", 0, running=False, nonce=""), present) == set()


def test_last_verified_stays_whatever_the_policy_says() -> None:
    old, proved, new = made("a", 1, verified=9), made("b", 2, verified=9), made("c", 3)
    assert plan.spared([old, proved], [old, proved, new]) == [old]
    assert plan.spared([old], [new]) == [old]


def test_policy_that_keeps_nothing_is_refused() -> None:
    assert plan.kept({"last": 2, "daily": 7, "yearly": 0}) == ["--keep-last=2", "--keep-daily=7"]
    for policy, reason in (({}, "nothing would be kept"), ({"last": 0}, "nothing"), ({"last": -1}, "is no number")):
        with pytest.raises(ConfigError, match=reason):
            plan.kept(policy)


@pytest.mark.parametrize(
    ("output", "wrong"),
    [
        ("errors vda1 0\nmount / ext4 rw,relatime\n", []),
        ("errors vda1 3\nmount / ext4 rw,relatime\n", ["vda1 has met errors"]),
        ("mount / ext4 ro,relatime\n", ["/ is read-only"]),
        ("mount / ext4 rw\nmount /boot/efi vfat ro\n", []),
        ("", ["nothing is mounted on /"]),
        ("errors \x1b[2J 1\nmount / ext4 rw\n", ["[2J has met errors"]),
    ],
)
def test_faults_of_file_systems_are_seen(output: str, wrong: list[str]) -> None:
    assert [fault.lstrip("?\ufffd ") for fault in plan.faults(output)] == wrong
