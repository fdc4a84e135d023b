"""Settings -> the text of each generated file. Pure: reads templates, touches nothing."""

from collections.abc import Mapping, Sequence
from functools import cache
from ipaddress import IPv4Network, collapse_addresses
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from deskyard.gateway.actions import table
from deskyard.gateway.actions.line import HASHED_BYTES, MOST_LINE, WAKING
from deskyard.gateway.config import tracking
from deskyard.gateway.config.servers import ports_by_backend, servers
from deskyard.gateway.egress import counters
from deskyard.gateway.egress.nflog import LOG_GROUP
from deskyard.gateway.machine.layout import Layout
from deskyard.wire import actions, computer
from deskyard.wire.egress_list import NAME, WEB_PORTS, Entry
from deskyard.wire.egress_rules import ASK_PAGE, exact, suffixes
from deskyard.wire.gateway_settings import Desktop, Settings
from deskyard.wire.routes import COMPUTER, DESKTOP, RECORDINGS, ROUTES
from deskyard.wire.talk import MOST_REQUEST

SSH = 22
# Over so long a program may ask faster, as at its start, if it then rests.
RATE_SECONDS = 10
# So long a program that wakes a desktop may wait before it asks again.
WAKING_SECONDS = 5


def firewall(settings: Settings, egress_user: str = Layout.egress_user, acme_user: str = Layout.acme_user) -> str:
    """The whole nftables ruleset."""
    rules = settings.egress_rules
    addresses = [settings.workspace_address, *(forward.address for forward in rules.forwards)]
    web = [(address, port) for address in addresses for port in WEB_PORTS]
    own = [(forward.address, port) for forward in rules.forwards for port in forward.ports]
    return _render(
        "firewall.nft.j2",
        s=settings,
        denied=_collapsed(settings.denied_networks),
        exceptions=_collapsed(rules.exceptions),
        reached=[f"{d.address} . {port}" for d in settings.desktops for port in _reached(d)],
        ways_out=[f"{address} . {port}" for address, port in web + own],
        egress_user=egress_user,
        acme_user=acme_user,
        log_group=LOG_GROUP,
        tracking=tracking,
    )


def _reached(desktop: Desktop) -> list[int]:
    """The ports of a desktop that the gateway connects to."""
    halts = [computer.HALT_PORT] if COMPUTER.name in desktop.routes else []
    return [SSH, *sorted(desktop.routes.values()), *halts]


def egress(settings: Settings, layout: Layout, closed: Sequence[Entry] = ()) -> str:
    """The router of a locked workspace; without any frontend in other modes, so that its unit does not start.

    `closed` are names that are refused whatever the settings say.
    """
    if settings.egress != "locked":
        return f"# Written by deskyard-gateway apply. egress: {settings.egress}, so nothing is routed here.\n"
    rules = settings.egress_rules
    own = [settings.uplink_network, settings.workspace_network, *map(IPv4Network, rules.forward_networks)]
    return _render(
        "egress.cfg.j2",
        s=settings,
        layout=layout,
        rules=rules,
        addresses=[settings.workspace_address, *(forward.address for forward in rules.forwards)],
        denied=_collapsed(settings.denied_networks),
        exceptions=_collapsed(rules.exceptions),
        own=[str(network) for network in own],
        name_pattern=NAME,
        exact=exact,
        suffixes=suffixes,
        closings=closed,
        exactly_closed=exact(closed, WEB_PORTS[0]),
        closed_below=suffixes(closed, WEB_PORTS[0]),
        closed_forwards=[
            forward.name for forward in rules.forwards if any(entry.covers(forward.name) for entry in closed)
        ],
        ask_page=ASK_PAGE,
        table=counters.TABLE,
        others=counters.OTHERS,
        row_bytes=counters.ROW_BYTES,
        rows_listed=(len(settings.desktops) + 1) * (len(rules.allow) + len(rules.ask) + 1),
        rows_below=counters.ROWS_BELOW,
        counts="gpt0,conn_cnt,bytes_in_cnt,bytes_out_cnt",
    )


def ssh(settings: Settings) -> str:
    """For sshd: the uplink alone, so that port 22 of every other address is the router's to give."""
    return f"# Written by deskyard-gateway apply.\nListenAddress {settings.uplink_address}\n"


def egress_routes(settings: Settings) -> str:
    """For `ip -batch`: the addresses of names with a port are the gateway's own."""
    return "".join(f"route replace local {network} dev lo\n" for network in settings.egress_rules.forward_networks)


def _collapsed(networks: Sequence[str]) -> list[str]:
    return [str(network) for network in collapse_addresses(map(IPv4Network, networks))]


def dnsmasq(settings: Settings) -> str:
    """Leases and names."""
    return _render("dnsmasq.conf.j2", s=settings, name_lines=tracking.NAME_LINES)


def forwarding(settings: Settings, door_sockets: int = Layout.door_sockets) -> str:
    """The kernel forwards only if something may leave, and has room for what door and desktops may have open.

    A kernel that stops forwarding starts to believe ICMP redirects by itself: that is taken back.
    """
    forward = {"net.ipv4.ip_forward": int(settings.egress == "open"), "net.ipv4.conf.all.accept_redirects": 0}
    return "".join(
        f"{key} = {value}\n" for key, value in {**forward, **tracking.kernel(settings, door_sockets)}.items()
    )


def haproxy(settings: Settings, layout: Layout, kids: Sequence[str], bundle: Path) -> str:
    """The door; `kids` are the ids of signing keys, `bundle` is the certificate with its key."""
    return _render(
        "haproxy.cfg.j2",
        s=settings,
        layout=layout,
        kids=kids,
        bundle=bundle,
        routes=tuple(ROUTES.values()),
        stream=f"{DESKTOP.place}/{computer.STREAM_ID}",
        recordings=RECORDINGS,
        recorded=computer.RECORDED,
        see=computer.SEE,
        files=computer.FILES,
        screen=DESKTOP.name,
        people=[route for route in ROUTES.values() if not route.for_programs],
        programs=[route for route in ROUTES.values() if route.for_programs],
        action_line=MOST_LINE,
        rate_seconds=RATE_SECONDS,
        uses=table.TABLE,
        uses_seconds=table.KEEP_SECONDS,
        hashed_bytes=HASHED_BYTES,
        say_bytes=MOST_REQUEST,
    )


def backends(settings: Settings, layout: Layout, sessions: Mapping[tuple[str, str], Sequence[str]]) -> str:
    """The backends: one per desktop and route, and one of its recordings, with one server per session id."""
    lists = {
        (desktop.name, backend): list(sessions.get((desktop.name, backend), ()))
        for desktop in settings.desktops
        for backend in ports_by_backend(desktop)
    }
    return _render(
        "backends.cfg.j2",
        s=settings,
        sessions=lists,
        routes=ROUTES,
        addresses=servers(settings, layout),
        most=layout.streams_per_desktop,
        private_file=layout.private_file,
        stopped_file=layout.stopped_file,
        private_over=computer.PRIVACY_OFF,
        stream_id=computer.STREAM_ID,
        stream_header=computer.STREAM_HEADER,
        streams_path=computer.STREAMS_PATH,
        page_header=computer.PAGE_HEADER,
        recordings=RECORDINGS,
        recordings_path=computer.RECORDINGS_PATH,
        session_header=computer.SESSION_HEADER,
        scopes_header=computer.SCOPES_HEADER,
        wait_path=computer.WAIT_PATH,
        claims=actions.HEADER,
        most_claims=actions.MOST_HEADER,
        uses=table.TABLE,
        working=table.WORKING,
        waking=WAKING,
        waking_seconds=WAKING_SECONDS,
    )


@cache
def _environment() -> Environment:
    # These are configuration files, not HTML: escaping would break them, and every value was checked by `parse`.
    return Environment(
        loader=FileSystemLoader(Path(__file__).parent / "templates"),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        autoescape=False,
    )


def _render(template: str, **values: Any) -> str:
    return _environment().get_template(template).render(**values)
