"""Settings come into force whole or not at all."""

import fcntl
import json
import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from deskyard.errors import GatewayError
from deskyard.gateway.config import keys, tracking
from deskyard.gateway.config.apply import apply, change_list
from deskyard.gateway.config.certificate import install
from deskyard.gateway.config.egress_grants import Grant
from deskyard.gateway.machine.layout import Layout
from deskyard.gateway.machine.system import Answer
from deskyard.wire.gateway_settings import Settings
from tests.unit.gateway.support import parsed


class Notes:
    """Notes what would run; what contains `failing` fails as often as `times` says."""

    def __init__(self, failing: str = "", times: int = 1) -> None:
        self.ran: list[str] = []
        self.failing = failing
        self.times = times
        self.macs = {"uplink": parsed().uplink_mac, "workspace": parsed().workspace_mac}

    def run(self, argv: Sequence[str]) -> Answer:
        command = " ".join(argv)
        self.ran.append(command)
        if self.failing and self.failing in command and self.times > 0:
            self.times -= 1
            return Answer(1, "made to fail")
        return Answer(0, "active")

    def mac(self, interface: str) -> str | None:
        return self.macs.get(interface)


@pytest.fixture
def layout(tmp_path: Path) -> Layout:
    import grp

    return Layout(root=tmp_path, service_user=grp.getgrgid(os.getegid()).gr_name)


def snapshot(layout: Layout) -> dict[str, str]:
    paths = (layout.firewall_file, layout.forward_file, layout.dns_file, layout.settings_file, layout.proxy_file)
    return {path.name: path.read_text() for path in paths if path.exists()}


def test_firewall_comes_first_and_everything_is_checked_before(layout: Layout) -> None:
    system = Notes()
    result = apply(parsed(), layout, system)
    assert result["changed"] == ["firewall", "ssh", "forwarding", "egress_routes", "dns", "egress", "settings", "proxy"]
    assert result["needs_certificate"] is True
    kinds = [
        Path(command.split()[0]).name + (" check" if {"-c", "-t", "--test"} & set(command.split()) else "")
        for command in system.ran
    ]
    assert kinds == [
        "nft check",
        "dnsmasq check",
        "haproxy check",
        "sshd check",
        "nft",
        "systemctl",
        "sysctl",
        "systemctl",
        "systemctl",
        "systemctl",
    ]


def test_second_apply_changes_nothing(layout: Layout) -> None:
    apply(parsed(), layout, Notes())
    system = Notes()
    assert apply(parsed(), layout, system)["changed"] == []
    assert not any("restart" in command or "nft -f" in command for command in system.ran)


def test_only_what_changed_is_loaded(layout: Layout) -> None:
    apply(parsed("open"), layout, Notes())
    system = Notes()
    assert apply(parsed("none"), layout, system)["changed"] == ["firewall", "forwarding", "dns", "egress", "settings"]


@pytest.mark.parametrize("checker", ["nft -c", "dnsmasq --test", "haproxy -c"])
def test_refused_file_leaves_everything_as_it_was(layout: Layout, checker: str) -> None:
    apply(parsed("open"), layout, Notes())
    before = snapshot(layout)
    system = Notes(failing=checker)
    with pytest.raises(GatewayError, match="made to fail"):
        apply(parsed("none"), layout, system)
    assert snapshot(layout) == before
    assert not any("restart" in command or "nft -f" in command for command in system.ran)


@pytest.mark.parametrize("loader", ["nft -f", "sysctl", "restart deskyard-dns", "restart deskyard-session"])
def test_failed_load_puts_the_last_good_configuration_back(layout: Layout, loader: str) -> None:
    apply(parsed("open"), layout, Notes())
    before = snapshot(layout)
    system = Notes(failing=loader)
    with pytest.raises(GatewayError, match="last good configuration is in force"):
        apply(parsed("none"), layout, system)
    assert snapshot(layout) == before
    assert system.ran[-1].startswith(loader.split()[0]) or "systemctl" in system.ran[-1]
    assert apply(parsed("none"), layout, Notes())["changed"] == ["firewall", "forwarding", "dns", "egress", "settings"]


def test_old_configuration_that_fails_too_is_said(layout: Layout) -> None:
    apply(parsed("open"), layout, Notes())
    with pytest.raises(GatewayError, match="could not be loaded again either"):
        apply(parsed("none"), layout, Notes(failing="restart deskyard-dns", times=2))


def test_apply_that_was_cut_short_is_finished_by_the_next(layout: Layout) -> None:
    apply(parsed("open"), layout, Notes())

    class PowerCut(Notes):
        def run(self, argv: Sequence[str]) -> Answer:
            if "deskyard-dns.service" in argv and "restart" in argv:
                raise SystemExit
            return super().run(argv)

    with pytest.raises(SystemExit):
        apply(parsed("none"), layout, PowerCut())
    system = Notes()
    assert apply(parsed("none"), layout, system)["changed"] == ["firewall", "forwarding", "dns", "egress", "settings"]


def test_change_of_the_list_leaves_to_the_next_apply_what_was_cut_short(layout: Layout) -> None:
    apply(parsed("locked", ("a.example.org",)), layout, Notes())

    class PowerCut(Notes):
        def run(self, argv: Sequence[str]) -> Answer:
            if "deskyard-session.service" in argv and "restart" in argv:
                raise SystemExit
            return super().run(argv)

    other = parsed("locked", ("b.example.org",))
    with pytest.raises(SystemExit):
        apply(other, layout, PowerCut())
    grant = Grant("c.example.org", None, False, "ada", 0)
    assert change_list(lambda settings, grants: grants.allowing(grant), layout, Notes()) == ["dns", "egress"]
    assert apply(other, layout, Notes())["changed"] == ["settings"]


def let_others_in_first(monkeypatch: pytest.MonkeyPatch, other: Settings, layout: Layout) -> None:
    """Have other settings come into force while the next program waits for those to be done."""
    lock = fcntl.flock

    def wait(descriptor: int, how: int) -> None:
        monkeypatch.undo()
        apply(other, layout, Notes())
        lock(descriptor, how)

    monkeypatch.setattr("deskyard.gateway.config.lock.fcntl.flock", wait)


def test_change_of_the_list_leaves_in_force_the_settings_that_came_while_it_waited(
    layout: Layout, monkeypatch: pytest.MonkeyPatch
) -> None:
    apply(parsed("locked", ("a.example.org",)), layout, Notes())
    other = parsed("locked", ("b.example.org",))
    other = replace(other, desktops=other.desktops[:1])
    let_others_in_first(monkeypatch, other, layout)
    grant = Grant("c.example.org", None, False, "ada", 0)
    change_list(lambda settings, grants: grants.allowing(grant), layout, Notes())
    dns = layout.dns_file.read_text()
    assert "b.example.org" in dns and "c.example.org" in dns
    assert "a.example.org" not in dns and "research-2" not in dns


@pytest.mark.parametrize("change", ["rotate", "retire"])
def test_change_of_a_key_leaves_in_force_the_settings_that_came_while_it_waited(
    layout: Layout, monkeypatch: pytest.MonkeyPatch, change: str
) -> None:
    monkeypatch.setattr("deskyard.gateway.config.keys.line.ask", lambda *_: None)
    layout.tls.mkdir(parents=True)
    layout.tls_bundle.write_text("a certificate")
    apply(parsed(), layout, Notes())
    keys.rotate(layout, Notes(), at_once=False, actor="ada")
    (layout.signing_keys / "retired.json").write_text(json.dumps({"k1": 0}))
    assert "__Host-deskyard-research-2" in layout.proxy_file.read_text()
    with monkeypatch.context() as waiting:
        let_others_in_first(waiting, replace(parsed(), desktops=parsed().desktops[:1]), layout)
        if change == "rotate":
            keys.rotate(layout, Notes(), at_once=False, actor="ada")
        else:
            assert keys.retire(layout, Notes())["dropped"] == ["k1"]
    text = layout.proxy_file.read_text()
    assert "__Host-deskyard-d1" in text and "__Host-deskyard-research-2" not in text


def test_stopped_service_is_started_again(layout: Layout) -> None:
    apply(parsed(), layout, Notes())
    system = Notes(failing="is-active --quiet deskyard-dns")
    assert apply(parsed(), layout, system)["changed"] == ["dns"]


def test_machine_with_other_nics_is_refused(layout: Layout) -> None:
    system = Notes()
    system.macs["workspace"] = "52:54:00:00:00:99"
    with pytest.raises(GatewayError) as caught:
        apply(parsed(), layout, system)
    assert caught.value.field == "workspace_mac"
    assert snapshot(layout) == {}


def test_door_opens_only_with_a_certificate(layout: Layout) -> None:
    first = Notes()
    apply(parsed(), layout, first)
    assert not any("haproxy.service" in command for command in first.ran)
    with pytest.raises(GatewayError):
        install("no certificate", parsed(), layout, Notes())
    assert not layout.tls_bundle.exists()


def test_private_keys_are_for_those_who_need_them(layout: Layout) -> None:
    apply(parsed(), layout, Notes())
    assert (layout.tls / "key.pem").stat().st_mode & 0o777 == 0o600
    assert (layout.signing_keys / "k1.key").stat().st_mode & 0o777 == 0o640
    assert "PRIVATE" not in json.dumps(snapshot(layout))
    assert replace(layout, trusts_system=False).etc == layout.etc


def test_table_of_connections_is_sized_by_the_doors_sockets_of_this_machine(layout: Layout) -> None:
    apply(parsed("none"), replace(layout, door_sockets=200), Notes())
    (line,) = [line for line in layout.forward_file.read_text().splitlines() if "nf_conntrack_max" in line]
    assert int(line.split()[-1]) == tracking.entries(parsed("none"), 200)
