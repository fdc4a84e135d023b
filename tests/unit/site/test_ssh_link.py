"""SSH: one config, host keys pinned and never trusted on first use."""

import tempfile
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from deskyard.errors import SiteError
from deskyard.host import deadline
from deskyard.host.command import Result
from deskyard.site import ssh_link
from deskyard.site.libvirt import daemon
from deskyard.site.ssh_link import SshLink


@pytest.fixture
def link(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> SshLink:
    monkeypatch.setenv("DESKYARD_HOME", str(tmp_path))
    monkeypatch.setattr(daemon, "namespace", lambda: "x")
    monkeypatch.setattr(daemon, "inside", lambda: ["nsenter", "--net=/run/netns/x"])
    return SshLink("local", "lab")


def test_desktops_are_reached_through_the_gateway(link: SshLink) -> None:
    link.write_config("10.80.1.250", [("dev1", "10.80.1.20")])
    text = link.config.read_text()
    assert "ProxyCommand env DESKYARD_PROGRAM= nsenter --net=/run/netns/x socat - TCP:%h:%p" in text
    assert "Host dev1\n  HostName 10.80.1.20\n  HostKeyAlias lab.dev1\n  ProxyJump gateway\n" in text


def test_unknown_host_keys_are_refused(link: SshLink) -> None:
    link.write_config("10.80.1.250", [])
    text = link.config.read_text()
    assert "StrictHostKeyChecking yes" in text
    assert "GlobalKnownHostsFile /dev/null" in text


def test_a_new_key_replaces_the_old_one_of_that_host_only(link: SshLink) -> None:
    link.pin("gateway", "ssh-ed25519 AAA1")
    link.pin("dev1", "ssh-ed25519 AAA2")
    link.pin("gateway", "ssh-ed25519 AAA3")
    assert sorted(link.known_hosts.read_text().splitlines()) == [
        "lab.dev1 ssh-ed25519 AAA2",
        "lab.gateway ssh-ed25519 AAA3",
    ]
    assert link.pinned("dev1")
    assert not link.pinned("dev2")


def test_remote_arguments_are_quoted(link: SshLink) -> None:
    assert link.command("gateway", ["echo", "a b; reboot"])[-1] == "echo 'a b; reboot'"


def test_waiting_ends_when_its_time_is_over_however_long_a_try_takes(
    link: SshLink, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock, each = [0.0], 90.0

    def hang(*_: object, **__: object) -> None:
        clock[0] += each
        raise SiteError("machine", "lab/gateway", "cannot be reached over SSH: timed out", "see its console")

    monkeypatch.setattr(SshLink, "run", hang)
    monkeypatch.setattr(deadline, "time", SimpleNamespace(monotonic=lambda: clock[0]))
    with pytest.raises(SiteError, match="timed out"):
        link.wait("gateway", 600, lambda _: None)
    assert 600 <= clock[0] <= 600 + 2 * each


def test_a_kept_connection_has_a_short_path_of_its_own(link: SshLink, monkeypatch: pytest.MonkeyPatch) -> None:
    paths = {SshLink(site, name).control for site in ("local", "rack") for name in ("lab", "other")}
    assert len(paths) == 4
    # What a socket's path may be long, less what ssh adds to it while it makes one.
    assert all(len(str(path)) <= 108 - 18 for path in paths)
    assert not any(option.startswith("-oControl") for option in link.command("gateway", ["true"]))


@pytest.mark.parametrize("mode", [0o700, 0o750, 0o707])
def test_a_connection_is_kept_only_where_nobody_else_can_put_a_socket(
    link: SshLink, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, mode: int
) -> None:
    monkeypatch.setattr(tempfile, "gettempdir", lambda: str(tmp_path))
    link.control.parent.mkdir()
    link.control.parent.chmod(mode)
    kept = [option for option in link.command("gateway", ["true"], kept=True) if "ControlPath" in option]
    assert kept == ([f"-oControlPath={link.control}"] if mode == 0o700 else [])


GONE = "mux_client_request_session: read from master failed: Broken pipe\nFailed to connect to new control master"


@pytest.mark.parametrize(
    ("said", "kept", "tries"), [(GONE, True, 2), ("Connection timed out", True, 1), (GONE, False, 1)]
)
def test_command_whose_kept_connection_is_gone_gets_one_of_its_own_and_no_other_is_run_twice(
    link: SshLink, monkeypatch: pytest.MonkeyPatch, said: str, kept: bool, tries: int
) -> None:
    run: list[bool] = []

    def try_it(argv: list[str], **_: Any) -> Result:
        run.append(any("ControlPath" in word for word in argv))
        return Result((), 255, "", said, 0.0) if len(run) == 1 else Result((), 0, "done", "", 0.0)

    monkeypatch.setattr(ssh_link, "run", try_it)
    if tries == 2:
        assert link.run("gateway", ["true"], timeout=5, kept=kept).stdout == "done"
        assert run == [True, False]
    else:
        with pytest.raises(SiteError, match="cannot be reached over SSH"):
            link.run("gateway", ["true"], timeout=5, kept=kept)
        assert run == [kept]
