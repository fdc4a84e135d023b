"""Two disks are compared file by file; what may differ between builds of the same sources says why."""

import pytest

from deskyard.plan.image.difference import Difference, compare
from deskyard.plan.image.file_diff import (
    OF_A_PACKAGE,
    REASONS,
    DiskFiles,
    FileChange,
    FileFacts,
    file_changes,
    reason_of,
)

FILE, OTHER = FileFacts("100644", "0:0", 3, "a" * 64), FileFacts("100644", "0:0", 7, "b" * 64)


def changes(
    first: dict[str, FileFacts], second: dict[str, FileFacts], packages: Difference | None = None
) -> tuple[FileChange, ...]:
    """The differences of two disks on which sudo brought one file."""
    owned = {"/usr/bin/sudo": "sudo"}
    return file_changes(DiskFiles(first, owned), DiskFiles(second, owned), packages or compare({}, {}))


def test_equal_disks_do_not_differ() -> None:
    assert changes({"/etc/hosts": FILE}, {"/etc/hosts": FILE}) == ()


def test_added_and_removed_paths_are_told_with_their_size() -> None:
    found = changes({"/opt/old": FILE}, {"/opt/new": OTHER})
    assert found == (FileChange("added", "/opt/new", (0, 7)), FileChange("removed", "/opt/old", (3, 0)))


@pytest.mark.parametrize(
    ("after", "change"),
    [
        (FileFacts("100644", "0:0", 3, "b" * 64), "content"),
        (FileFacts("120777", "0:0", 3, "a" * 64), "content"),  # a link now
        (FileFacts("100755", "0:0", 3, "a" * 64), "permission"),
        (FileFacts("100644", "0:42", 3, "a" * 64), "permission"),
    ],
)
def test_change_of_content_or_kind_is_told_apart_from_one_of_permissions(after: FileFacts, change: str) -> None:
    (found,) = changes({"/etc/hosts": FILE}, {"/etc/hosts": after})
    assert found.change == change


def test_known_reason_is_told_and_an_unknown_one_is_empty() -> None:
    path = next(iter(REASONS)).replace("*", "x")
    assert reason_of(path) == REASONS[next(iter(REASONS))]
    assert reason_of("/usr/bin/sudo") == ""


def test_no_reason_covers_programs_and_settings_of_people() -> None:
    for path in ("/usr/bin/env", "/etc/passwd", "/etc/ssh/sshd_config", "/home/agent/.profile", "/opt/node/bin/node"):
        assert reason_of(path) == ""


def test_files_of_a_package_that_differs_are_told_apart() -> None:
    before, after = {"/usr/bin/sudo": FILE, "/usr/bin/env": FILE}, {"/usr/bin/sudo": OTHER, "/usr/bin/env": OTHER}
    found = changes(before, after, compare({"sudo": "1"}, {"sudo": "2"}))
    assert [(change.path, change.reason) for change in found] == [("/usr/bin/env", ""), ("/usr/bin/sudo", OF_A_PACKAGE)]


def test_files_of_a_package_that_is_the_same_differ_for_no_known_reason() -> None:
    (found,) = changes({"/usr/bin/sudo": FILE}, {"/usr/bin/sudo": OTHER}, compare({"vim": "1"}, {"vim": "2"}))
    assert found.reason == ""
