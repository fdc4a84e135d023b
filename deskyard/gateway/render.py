"""Settings -> the text of each generated file. Pure: reads templates, touches nothing."""

from collections.abc import Mapping, Sequence
from functools import cache
from ipaddress import IPv4Network, collapse_addresses
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from deskyard.gateway.layout import Layout
from deskyard.gateway.settings import Settings

SOCKET_PATHS = {"desktop": "/websockify", "terminal": "/ws"}
FILTERED = "desktop"  # the route whose connections go through the filter


def firewall(settings: Settings) -> str:
    """The whole nftables ruleset."""
    denied = collapse_addresses(IPv4Network(network) for network in settings.denied_networks)
    return _render("firewall.nft.j2", s=settings, denied=[str(network) for network in denied])


def dnsmasq(settings: Settings) -> str:
    """Leases and names."""
    return _render("dnsmasq.conf.j2", s=settings)


def forwarding(settings: Settings) -> str:
    """The kernel forwards only if something may leave.

    A kernel that stops forwarding starts to believe ICMP redirects by itself: that is taken back.
    """
    forward = 1 if settings.egress == "open" else 0
    return f"net.ipv4.ip_forward = {forward}\nnet.ipv4.conf.all.accept_redirects = 0\n"


def haproxy(settings: Settings, layout: Layout, kids: Sequence[str], bundle: Path) -> str:
    """The door; `kids` are the ids of signing keys, `bundle` is the certificate with its key."""
    return _render(
        "haproxy.cfg.j2",
        s=settings,
        layout=layout,
        kids=kids,
        bundle=bundle,
        socket_routes=tuple(SOCKET_PATHS),
    )


def servers(settings: Settings, layout: Layout) -> dict[tuple[str, str], str]:
    """Where HAProxy takes a session, by desktop and route: VNC to the filter, never to the desktop itself.

    Always weight 0: no other session may ever fall through to it.
    """
    places = {
        (desktop.name, route): (desktop, port)
        for desktop in settings.desktops
        for route, port in desktop.routes.items()
    }
    return {
        (name, route): f"127.0.0.1:{layout.view_port} weight 0"
        if route == FILTERED
        else f"{desktop.address}:{port} weight 0 maxconn {layout.streams_per_session}"
        for (name, route), (desktop, port) in places.items()
    }


def backends(settings: Settings, layout: Layout, sessions: Mapping[tuple[str, str], Sequence[str]]) -> str:
    """The backends: one per desktop and route, with one server per session id."""
    lists = {
        (desktop.name, route): list(sessions.get((desktop.name, route), ()))
        for desktop in settings.desktops
        for route in desktop.routes
    }
    return _render(
        "backends.cfg.j2",
        s=settings,
        sessions=lists,
        paths=SOCKET_PATHS,
        addresses=servers(settings, layout),
        filtered=FILTERED,
        most=layout.streams_per_desktop,
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
