"""Grants and refusals, without a gateway."""

import itertools
import json
import struct
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from deskyard.errors import GatewayError
from deskyard.gateway.cli import main
from deskyard.gateway.config import egress_grants, render
from deskyard.gateway.config.egress_grants import Grant, Grants
from deskyard.gateway.egress import refusals
from deskyard.gateway.egress.nflog import Logged, packets
from deskyard.gateway.egress.refusals import Carried, Log, Refusal
from deskyard.gateway.egress.watch import Watcher
from deskyard.gateway.machine import clock as machine_clock
from deskyard.gateway.machine.layout import Layout
from deskyard.wire.gateway_settings import Settings
from tests.support.clock import Clock
from tests.unit.gateway.support import document, parsed

D1 = bytes((10, 80, 1, 10))
NEWS = Grant("news.example.org", 100, False, "ada", 0)


def packet(target: tuple[int, ...], port: int, protocol: int = 6, source: bytes = D1) -> bytes:
    head = struct.pack(">BBHHHBBH", 0x45, 0, 40, 0, 0, 64, protocol, 0) + source + bytes(target)
    return head + struct.pack(">HH", 40000, port) + bytes(16)


def rule(egress: str, target: tuple[int, ...], port: int, protocol: int = 6) -> tuple[str, str]:
    settings = parsed("locked", ("a.example.org", "git.example.org:22")) if egress == "locked" else parsed("open")
    if egress == "none":
        settings = parsed("none")
    found = refusals.from_firewall(Logged("refused", packet(target, port, protocol)), settings)
    assert found is not None
    assert found.desktop == "d1"
    return found.rule, found.allow


@pytest.mark.parametrize(
    ("egress", "target", "port", "protocol", "wanted"),
    [
        ("locked", (198, 51, 100, 7), 443, 6, ("direct", "./inv egress.allow demo NAME")),
        ("locked", (198, 51, 100, 7), 22, 6, ("direct", "./inv egress.allow demo NAME:22")),
        ("locked", (198, 51, 100, 7), 443, 17, ("quic", "")),
        ("locked", (8, 8, 8, 8), 53, 17, ("resolver", "")),
        ("locked", (8, 8, 8, 8), 853, 6, ("resolver", "")),
        ("locked", (10, 80, 1, 1), 8700, 6, ("gateway", "")),
        ("locked", (10, 80, 1, 250), 22, 6, ("gateway", "")),
        ("locked", (10, 80, 1, 1), 443, 6, ("rate", "")),
        ("locked", (198, 51, 100, 7), 0, 47, ("direct", "")),
        ("open", (169, 254, 169, 254), 80, 6, ("denied", "")),
        ("open", (198, 51, 100, 7), 80, 6, ("rate", "")),
        ("none", (198, 51, 100, 7), 80, 6, ("egress", "")),
    ],
)
def test_refused_packet_names_its_rule(
    egress: str, target: tuple[int, ...], port: int, protocol: int, wanted: tuple[str, str]
) -> None:
    assert rule(egress, target, port, protocol) == wanted


@pytest.mark.parametrize(("port", "protocol"), [(53, 6), (53, 17), (443, 6), (22, 6)])
def test_one_too_many_is_told_as_such_wherever_it_goes(port: int, protocol: int) -> None:
    settings = parsed("locked", ("a.example.org", "git.example.org:22"))
    (forward,) = settings.egress_rules.forwards
    for target in ((10, 80, 1, 1), tuple(map(int, forward.address.split(".")))):
        found = refusals.from_firewall(Logged("many", packet(target, port, protocol)), settings)
        assert found is not None
        assert (found.rule, found.allow) == ("many", "")


@pytest.mark.parametrize("data", [b"", b"\x45" * 19, bytes(60), b"\x60" + bytes(60), b"\x4f" + bytes(30)])
def test_broken_packets_are_survived(data: bytes) -> None:
    for prefix in ("refused", "name"):
        refusals.from_firewall(Logged(prefix, data), parsed("none"))


@pytest.mark.parametrize("data", [b"", bytes(3), bytes(40), b"\xff" * 64, struct.pack("=IHHII", 24, 0x400, 0, 0, 0)])
def test_broken_messages_of_the_kernel_are_survived(data: bytes) -> None:
    list(packets(data))


def test_lines_of_the_router_are_read_and_others_are_not() -> None:
    settings = parsed("locked", ("a.example.org",))
    refused = refusals.from_router("tls 10.80.1.10 10.80.1.1 443 evil.test list -", settings)
    assert isinstance(refused, Refusal)
    assert (refused.desktop, refused.target, refused.rule) == ("d1", "evil.test:443", "list")
    carried = refusals.from_router("tls 10.80.1.10 10.80.1.1 443 a.example.org allowed 198.51.100.7", settings)
    assert carried == Carried("a.example.org", 443)
    for line in ("", "Proxy tls started.", "tls 1 2 x 4 5 6", "a b c 443 e f g h"):
        assert refusals.from_router(line, settings) is None


def test_record_has_its_bound_and_is_read_in_order(tmp_path: Path) -> None:
    path = tmp_path / "refusals.jsonl"
    log = Log(path, max_bytes=2000)
    for number in range(100):
        log.add(Refusal("", "d1", "", str(number), "list", "", ""))
    assert sum(path.stat().st_size for path in tmp_path.iterdir()) <= 4000
    targets = [int(json.loads(line)["target"]) for line in refusals.read(path)]
    assert targets == list(range(targets[0], 100))


def test_following_goes_on_over_a_change_of_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "refusals.jsonl"
    log = Log(path, max_bytes=1000)
    written = itertools.count()

    def more(_: float) -> None:
        log.add(Refusal("", "d1", "", str(next(written)), "list", "", ""))

    monkeypatch.setattr("deskyard.gateway.egress.refusals.time.sleep", more)
    seen = [int(json.loads(line)["target"]) for line in itertools.islice(refusals.follow(path), 40)]
    assert seen == list(range(40))


def test_grants_end_and_come_back_from_disk(tmp_path: Path) -> None:
    layout = Layout(root=tmp_path)
    grants = Grants().allowing(NEWS).allowing(Grant("b.example.org", None, True, "ada", 0))
    egress_grants.save(grants, layout)
    assert egress_grants.stored(layout.grants_file.read_text()) == grants
    assert layout.grants_file.stat().st_mode & 0o777 == 0o600
    assert [grant.entry for grant in grants.live(101).granted] == ["b.example.org"]
    assert grants.next_end == 100
    assert grants.used("b.example.org", 80).granted == (NEWS,)
    assert grants.used("c.example.org", 80) == grants


def test_grant_lasts_no_longer_because_the_clock_was_set_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    layout, clock, real = Layout(root=tmp_path), Clock(), Clock()
    fails: list[bool] = [True]

    def change(edit: Callable[[Settings, Grants], Grants], *_: object) -> list[str]:
        if fails:
            fails.pop()
            raise GatewayError("disk", None, "is full", "make room")
        egress_grants.save(edit(parsed("locked"), egress_grants.load(layout)), layout)
        return []

    monkeypatch.setattr("deskyard.gateway.config.apply.change_list", change)
    monkeypatch.setattr("deskyard.gateway.egress.watch.time.time", clock)
    monkeypatch.setattr("deskyard.gateway.egress.watch.RETRY_SECONDS", 0)
    layout.settings_file.parent.mkdir(parents=True)
    layout.settings_file.write_text(json.dumps(document("locked")))
    stays = Grant("stays.example.org", None, False, "ada", 0)
    now = int(clock())
    egress_grants.save(Grants((stays, replace(NEWS, until=now + 900, since=now))), layout)
    system: Any = None
    watcher = Watcher(layout, system)
    watcher._clock = machine_clock.Clock(clock, real)
    clock.now -= 3600
    # The change that failed is made at the next look.
    for _ in range(2):
        watcher._look()
    (first, second) = egress_grants.load(layout).granted
    assert first == stays and second.until == now + 900 - 3600
    for passed, left in ((899, (stays, second)), (2, (stays,))):
        clock.now, real.now = clock.now + passed, real.now + passed
        watcher._look()
        assert egress_grants.stored(layout.grants_file.read_text()).granted == left


def test_grant_replaces_what_was_forbidden_and_the_other_way_round() -> None:
    declared = ("news.example.org", "a.example.org")
    forbidden = Grants().forbidding("news.example.org", declared)
    assert forbidden.withdrawn == ("news.example.org",)
    settings = parsed("locked", declared)
    assert forbidden.effective(settings).egress_rules.allow == ("a.example.org",)
    again = forbidden.allowing(NEWS)
    assert again.withdrawn == ()
    assert again.effective(settings).egress_rules.allow == declared
    assert again.timed() == Grants((NEWS,))


def test_names_with_a_port_get_free_addresses_until_there_is_none() -> None:
    settings = parsed("locked", ("git.example.org:22",))
    grants = Grants(tuple(Grant(f"n{number}.example.org:22", None, False, "ada", 0) for number in range(119)))
    rules = grants.effective(settings).egress_rules
    assert len({forward.address for forward in rules.forwards}) == 120
    assert settings.egress_rules.forwards[0] in rules.forwards
    with pytest.raises(GatewayError, match="no free address"):
        grants.allowing(Grant("more.example.org:22", None, False, "ada", 0)).effective(settings)


def test_closings_outlive_new_settings_and_each_stands_for_its_reason() -> None:
    closed = Grants().closing(["news.example.org", "*.a.example.org"], "budget", "ada")
    both = closed.allowing(NEWS).forbidding("news.example.org", ()).closing(["news.example.org"], "", "bob")
    kept = both.timed()
    assert [(closing.entry, closing.reason) for closing in kept.closed] == [
        ("news.example.org", "budget"),
        ("*.a.example.org", "budget"),
        ("news.example.org", ""),
    ]
    assert [str(entry) for entry in kept.closings] == ["*.a.example.org", "news.example.org"]
    again = kept.reopening(["news.example.org"], "budget")
    assert [(closing.entry, closing.reason) for closing in again.closed] == [
        ("*.a.example.org", "budget"),
        ("news.example.org", ""),
    ]
    with pytest.raises(GatewayError, match="is not closed for the reason 'budget'"):
        again.reopening(["news.example.org"], "budget")


def test_closings_are_kept_and_bounded(tmp_path: Path) -> None:
    many = Grants().closing([f"n{number}.example.org" for number in range(200)], "", "ada")
    layout = Layout(root=tmp_path)
    egress_grants.save(many, layout)
    assert egress_grants.load(layout) == many
    # Closed already: none more.
    assert many.closing(["n7.example.org"], "", "bob") == many
    with pytest.raises(GatewayError, match="more than 200 closed names"):
        many.closing(["more.example.org"], "", "ada")


def test_grants_of_before_names_could_be_closed_are_read() -> None:
    assert egress_grants.stored('{"granted": [], "withdrawn": ["a.example.org"]}') == Grants(
        withdrawn=("a.example.org",)
    )


def test_each_way_out_refuses_closed_names_before_it_asks_anybody(tmp_path: Path) -> None:
    settings = parsed("locked", ("git.example.org:22", "b.example.org"))
    rules = replace(settings.egress_rules, ask=("c.example.org",))
    closings = Grants().closing(["*.example.org"], "", "ada").closings
    text = render.egress(replace(settings, egress_rules=rules), Layout(root=tmp_path), closings)
    frontends = [part.split("\nbackend ")[0] for part in text.split("\nfrontend ")[1:]]
    assert len(frontends) == 5
    for frontend in frontends:
        refusal = frontend.index("set-var(txn.why) str(closed)")
        for later in ("str(ask)", "str(list)", "do-resolve"):
            assert later not in frontend[:refusal], frontend


@pytest.mark.parametrize("seconds", [0, -1, 366 * 86_400])
def test_grant_for_no_sensible_time_is_refused(seconds: int) -> None:
    with pytest.raises(GatewayError, match="from a second to a year"):
        egress_grants.grant("a.example.org", seconds, False, "ada")


@pytest.mark.parametrize("command", [[word, "a.example.org"] for word in ("allow", "forbid", "close", "reopen")])
def test_there_is_no_list_to_change_in_an_open_workspace(
    command: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    layout = Layout(root=tmp_path)
    layout.etc.mkdir(parents=True)
    layout.settings_file.write_text(parsed("open").as_json())
    (tmp_path / "layout.json").write_text(json.dumps({"root": str(tmp_path)}))
    monkeypatch.setenv("DESKYARD_GATEWAY_LAYOUT", str(tmp_path / "layout.json"))
    assert main(command) == 1
    assert "there is no list" in json.loads(capsys.readouterr().out)["error"]["reason"]


@pytest.mark.parametrize("entry", ["a.example.org", "*.example.org"])
def test_names_are_closed_without_a_port_alone(entry: str) -> None:
    egress_grants.check_closable(entry)
    with pytest.raises(GatewayError, match="has a port") as refused:
        egress_grants.check_closable(f"{entry}:443")
    assert (refused.value.field, refused.value.value) == ("name", f"{entry}:443")
    assert refused.value.remedy == "write the name alone: it is closed on each of its ports"
