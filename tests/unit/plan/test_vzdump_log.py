"""The log of vzdump says which volume it made, and whether that has its notes; any other log says nothing."""

import pytest

from deskyard.plan.proxmox.vzdump_log import Made, made

JOB = (
    "INFO: starting new backup job: vzdump 100 --remove 0 --storage safe "
    "--notes-template 'deskyard-unfinished site=rack' --mode snapshot"
)
FILE = "INFO: creating vzdump archive '/mnt/pve/safe/dump/vzdump-qemu-100-2026_11_30-01_02_03.vma.zst'"
SERVER = "INFO: creating Proxmox Backup Server archive 'vm/100/2026-11-30T01:02:03Z'"
ADDS, FAILS = "INFO: adding notes to backup", "WARN: unable to add notes - Input/output error"
NOTES = "deskyard-unfinished site=rack"
ON_SERVER = "safe:backup/vm/100/2026-11-30T01:02:03Z"


@pytest.mark.parametrize(
    ("end", "ended_well", "is_noted"),
    [
        ((ADDS,), True, True),
        ((ADDS, FAILS), True, False),
        ((), False, False),
        # Whether it had got so far when it died, nobody knows.
        ((ADDS,), False, False),
    ],
)
def test_volume_is_known_by_its_name_and_has_its_notes_if_the_task_says_so(
    end: tuple[str, ...], ended_well: bool, is_noted: bool
) -> None:
    file = "safe:backup/vzdump-qemu-100-2026_11_30-01_02_03.vma.zst"
    assert made([JOB, FILE, *end], ended_well=ended_well) == Made(file, NOTES, is_noted)
    assert made([JOB, SERVER, *end], ended_well=ended_well) == Made(ON_SERVER, NOTES, is_noted)


@pytest.mark.parametrize(
    "lines",
    [
        [],
        [JOB],
        [SERVER],
        ["INFO: starting new backup job: vzdump 100 --storage safe", SERVER],
        ["INFO: starting new backup job: vzdump 100 --notes-template 'x'", SERVER],
        ["INFO: starting new backup job: vzdump 100 --storage safe --notes-template 'x", SERVER],
        # What a guest's name may look like stands behind other words.
        [f"INFO: VM Name: {JOB}", SERVER],
    ],
)
def test_log_that_does_not_say_what_was_made_for_whom_names_no_volume(lines: list[str]) -> None:
    assert made(lines, ended_well=True) is None
