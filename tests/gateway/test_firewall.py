"""The gateway's rules in a real kernel: what passes, what is refused, and the whole ruleset."""

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from deskyard.gateway.config import render
from deskyard.wire.gateway_settings import Settings
from tests.gateway.nets import Flow, Nets
from tests.gateway.support import wait_for
from tests.support.requirements import need_root
from tests.unit.gateway.support import parsed

PUBLIC, METADATA, PRIVATE = "198.51.100.7", "169.254.169.254", "10.99.0.1"
FILES = Path(__file__).resolve().parents[2] / "ansible/roles/firewall/files"
# Sets that the kernel fills as it sees addresses.
SEEN_SETS = ("https_sources", "new_connections", "open_flows", "open_name_lines", "questions", "refusals")
SEEN = {f"set {name} {{" for name in SEEN_SETS}
BASE, SYSCTL = FILES / "firewall-base.nft", FILES / "sysctl.conf"
D1, D2, GATEWAY = "10.80.1.10", "10.80.1.11", "10.80.1.1"
HOST, UPLINK = "10.80.1.249", "10.80.1.250"

INTO_GATEWAY = {
    Flow("host", "tcp", UPLINK, 443),
    Flow("host", "tcp", UPLINK, 22),
    Flow("d1", "tcp", GATEWAY, 53),
    Flow("d1", "udp", GATEWAY, 53),
    Flow("d1", "udp", GATEWAY, 67, 68),
}
OUT_OF_GATEWAY = {Flow("gw", "tcp", address, port) for address in (D1, D2) for port in (22, 6080, 7681)}
TO_RESOLVER = {Flow("gw", "tcp", HOST, 53), Flow("gw", "udp", HOST, 53)}
TO_INTERNET = {Flow("d1", "tcp", PUBLIC, 80), Flow("d1", "udp", PUBLIC, 53), Flow("d1", "tcp", PUBLIC, 22)}
NEVER = {
    *(Flow("d1", "tcp", address, port) for address in (GATEWAY, UPLINK) for port in (22, 443, 8700, 9999)),
    *(Flow("d1", kind, UPLINK, 53) for kind in ("tcp", "udp")),
    *(Flow("d1", "tcp", address, port) for address in (HOST, METADATA, PRIVATE) for port in (22, 53, 80, 8006)),
    *(Flow("d1", "udp", address, 53) for address in (HOST, METADATA, PRIVATE)),
    *(Flow("d1", "tcp", D2, port) for port in (22, 6080, 7681, 9999)),
    *(Flow("host", "tcp", address, port) for address in (D1, GATEWAY) for port in (22, 53, 443, 6080)),
    *(Flow("host", "tcp", UPLINK, port) for port in (53, 8700, 9999)),
    Flow("host", "udp", UPLINK, 53),
    Flow("gw", "tcp", D1, 9999),
    Flow("gw", "tcp", HOST, 22),
    Flow("gw", "tcp", HOST, 8006),
    Flow("gw", "tcp", PUBLIC, 80),
    Flow("gw", "tcp", METADATA, 80),
}


@pytest.fixture(scope="module", params=["open", "none"])
def nets(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Settings, Nets]]:
    """A gateway with its rules in force, in both modes of egress."""
    settings = parsed(request.param)
    with run_nets(settings) as built:
        built.load(render.firewall(settings), tmp_path_factory.mktemp("rules"))
        yield settings, built


@contextmanager
def run_nets(settings: Settings) -> Iterator[Nets]:
    """Namespaces in which everybody answers on every port, and no rules yet."""
    need_root("makes network namespaces")
    first = [Flow(start, "tcp", GATEWAY, 53) for start in ("host", "d1", "research-2")]
    with Nets(settings, (PUBLIC, METADATA, PRIVATE)) as built:
        # IPv6 stays on: here the rules must refuse it without the kernel's help.
        lines = (SYSCTL.read_text() + render.forwarding(settings)).splitlines()
        kernel = [line.replace(" ", "") for line in lines if line.startswith("net.ipv4")]
        built.run("gw", "sysctl", "-q", "-w", *kernel)
        # A hostile desktop sends what is for its neighbour to the gateway, and the host routes into the workspace.
        built.run("d1", "ip", "route", "add", f"{D2}/32", "via", GATEWAY)
        built.run("research-2", "ip", "route", "add", f"{D1}/32", "via", GATEWAY)
        built.run("host", "ip", "route", "add", "10.80.1.0/25", "via", UPLINK)
        _serve(built)
        # The kernel may take a second to let a new cable carry anything.
        wait_for("the cables", lambda: all(built.passes(first, seconds=0.5).values()))
        yield built


def _serve(built: Nets) -> None:
    tcp = [("tcp", "", port) for port in (22, 53, 80, 443, 6080, 7681, 8006, 8700, 9999)]
    # An answer over UDP must come from the address that was asked.
    built.serve("host", *tcp, *(("udp", address, 53) for address in (HOST, PUBLIC, METADATA, PRIVATE)))
    built.serve(
        "gw", *tcp, ("tcp", "::", 22), *(("udp", address, 53) for address in (UPLINK, GATEWAY)), ("udp", GATEWAY, 67)
    )
    for desktop in ("d1", "research-2"):
        built.serve(desktop, *tcp)


def expected(settings: Settings) -> dict[str, bool]:
    """Every flow that was thought of, and whether the rules must let it pass."""
    allowed = INTO_GATEWAY | OUT_OF_GATEWAY
    if settings.egress == "open":
        allowed = allowed | TO_RESOLVER | TO_INTERNET
    flows = INTO_GATEWAY | OUT_OF_GATEWAY | TO_RESOLVER | TO_INTERNET | NEVER
    return {str(flow): flow in allowed for flow in sorted(flows, key=str)}


def every_flow() -> list[Flow]:
    return sorted(INTO_GATEWAY | OUT_OF_GATEWAY | TO_RESOLVER | TO_INTERNET | NEVER, key=str)


def test_allowed_flows_pass_and_all_others_are_refused(nets: tuple[Settings, Nets]) -> None:
    settings, built = nets
    found = built.settled(every_flow(), 1.5, expected(settings))
    assert found == expected(settings), built.run("gw", "nft", "list", "ruleset")


def test_loaded_rules_are_the_rendered_ones_and_nothing_else(nets: tuple[Settings, Nets], tmp_path: Path) -> None:
    settings, built = nets
    (tmp_path / "rules.nft").write_text(render.firewall(settings))
    load = f"nft -f {tmp_path}/rules.nft && nft -s list ruleset"
    fresh = subprocess.run(["unshare", "-n", "sh", "-c", load], capture_output=True, text=True, check=True, timeout=30)
    loaded = built.run("gw", "nft", "-s", "list", "ruleset")
    assert without_sources(loaded) == without_sources(fresh.stdout)


def without_sources(listing: str) -> list[str]:
    """The listing without the addresses that were seen, which come and go."""
    kept, inside = [], False
    for line in listing.splitlines():
        inside = line.strip() in SEEN or (inside and line.strip() != "}")
        if not inside:
            kept.append(line.rstrip())
    return kept


def test_forged_source_is_refused(nets: tuple[Settings, Nets]) -> None:
    _, built = nets
    built.run("d1", "ip", "address", "add", "10.80.1.77/25", "dev", "eth0")
    built.run("d1", "ip", "route", "add", f"{GATEWAY}/32", "dev", "eth0", "src", "10.80.1.77")
    built.run("d1", "ip", "route", "add", f"{PUBLIC}/32", "via", GATEWAY, "src", "10.80.1.77")
    try:
        flows = [Flow("d1", "udp", GATEWAY, 53), Flow("d1", "tcp", GATEWAY, 53), Flow("d1", "tcp", PUBLIC, 80)]
        assert set(built.passes(flows, seconds=1).values()) == {False}
    finally:
        built.run("d1", "ip", "address", "del", "10.80.1.77/25", "dev", "eth0")


def test_forged_mac_is_refused(nets: tuple[Settings, Nets]) -> None:
    settings, built = nets
    built.run("d1", "ip", "link", "set", "eth0", "address", "52:54:00:66:66:66")
    try:
        flows = [Flow("d1", "udp", GATEWAY, 53), Flow("d1", "tcp", PUBLIC, 80)]
        assert set(built.passes(flows, seconds=1).values()) == {False}
    finally:
        built.run("d1", "ip", "link", "set", "eth0", "address", settings.desktops[0].mac)
        built.run("d1", "ip", "route", "replace", "default", "via", GATEWAY)
        built.run("d1", "ip", "route", "replace", f"{D2}/32", "via", GATEWAY)


def test_ipv6_is_refused(nets: tuple[Settings, Nets]) -> None:
    _, built = nets
    assert not any(built.passes([ipv6(built)], seconds=1).values())


def ipv6(built: Nets) -> Flow:
    """From the desktop to the gateway's own IPv6 address."""
    return Flow("d1", "tcp", f"{built.link_local('gw', 'workspace')}%eth0", 22)


@pytest.mark.parametrize("removed", ["ip daddr @denied jump refuse", "policy drop"])
def test_weakened_rules_are_caught(nets: tuple[Settings, Nets], removed: str, tmp_path: Path) -> None:
    settings, built = nets
    rules = render.firewall(settings)
    assert removed in rules or settings.egress == "none"
    if removed not in rules:
        return  # with egress: none nothing is forwarded, so there is nothing to deny
    weak = rules.replace(removed, "policy accept" if "policy" in removed else "")
    if "policy" in removed:
        # The last rule of each chain drops as well: both must go for the rules to be open.
        weak = weak.replace("\t\tcounter drop\n\t}", "\t\taccept\n\t}")
    try:
        built.load(weak, tmp_path)
        assert built.passes(every_flow(), seconds=1) != expected(settings)
    finally:
        built.load(rules, tmp_path)


def test_gateway_without_settings_lets_only_ssh_in(tmp_path: Path) -> None:
    with run_nets(parsed("open")) as built:
        built.load(BASE.read_text(), tmp_path)
        found = built.passes(every_flow(), seconds=1)
        ssh = {str(Flow("host", "tcp", address, 22)) for address in (UPLINK, GATEWAY)}
        assert {flow for flow, passed in found.items() if passed} == ssh


def test_without_rules_every_flow_would_pass() -> None:
    with run_nets(parsed("open")) as built:
        wait_for("the gateway's IPv6 address", lambda: any(built.passes([ipv6(built)], seconds=0.5).values()))
        found = built.passes(every_flow(), seconds=2)
        refused = [flow for flow, passed in found.items() if not passed]
        assert not refused, "\n".join(refused)
