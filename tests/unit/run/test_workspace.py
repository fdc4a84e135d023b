"""The guard of data, and small parts of access."""

import pytest
from pulumi.automation import CommandResult, errors

from deskyard.errors import ConfigError
from deskyard.run import access, workspace
from deskyard.run.pulumi_stack import Change, _clean, _clear_errors, _stale

DISK = "deskyard:libvirt:Volume"


def _change(operation: str, name: str, kind: str = DISK) -> Change:
    return Change(operation, kind, name, f"urn::{name}")


@pytest.mark.parametrize("operation", ["delete", "replace", "delete-replaced"])
def test_a_run_that_takes_a_desktops_disk_is_stopped(operation: str) -> None:
    with pytest.raises(ConfigError, match="disk of: dev1"):
        workspace._guard_data("lab", [_change(operation, "lab-desktop-dev1-disk")], [])


def test_a_named_desktop_may_go() -> None:
    workspace._guard_data("lab", [_change("delete", "lab-desktop-dev1-disk")], ["dev1"])


def test_naming_one_desktop_does_not_free_another() -> None:
    steps = [_change("delete", f"lab-desktop-{name}-disk") for name in ("dev1", "dev2")]
    with pytest.raises(ConfigError, match="disk of: dev2"):
        workspace._guard_data("lab", steps, ["dev1"])


def test_a_gateway_may_be_replaced_and_a_disk_may_grow() -> None:
    steps = [_change("replace", "lab-gateway-disk"), _change("update", "lab-desktop-dev1-disk")]
    workspace._guard_data("lab", steps, [])


def test_pulumis_own_protection_is_said_in_our_words() -> None:
    urn = "urn:pulumi:lab::deskyard::a$b::lab-desktop-dev1-disk"
    text = f'error: resource "{urn}" cannot be deleted\nbecause it is protected.'
    with pytest.raises(ConfigError, match="disk of: dev1"), _clear_errors("lab"):
        raise errors.CommandError(CommandResult(stdout=text, stderr="", code=1))


@pytest.mark.parametrize(("text", "expected"), [("90s", 90), ("30m", 1800), ("8h", 28_800), ("2d", 172_800)])
def test_durations_are_read(text: str, expected: int) -> None:
    assert access.seconds(text) == expected


@pytest.mark.parametrize("text", ["", "8", "0h", "-1h", "8 h", "8w", "1h30m"])
def test_what_is_no_duration_is_refused(text: str) -> None:
    with pytest.raises(ConfigError, match="is no duration"):
        access.seconds(text)


def test_a_provider_error_is_shown_without_its_trace() -> None:
    message = "Unexpected <class 'Exception'>: no space left:\n  File \"server.py\", line 1\n    raise\n"
    assert _clean(f"<{{%fg 1%}}>error: {message}<{{%reset%}}>") == "no space left"


def test_a_lock_of_another_machine_is_never_lifted() -> None:
    assert not _stale("created by root@another-machine (pid 4194999) at 2026")
