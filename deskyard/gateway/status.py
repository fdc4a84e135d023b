"""The health of the gateway, as one document."""

import contextlib
import functools
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict
from datetime import datetime
from pathlib import Path
from typing import Any

from deskyard.errors import GatewayError
from deskyard.gateway import probe
from deskyard.gateway.config.in_force import in_force
from deskyard.gateway.machine.layout import Layout
from deskyard.gateway.machine.system import Answer, System
from deskyard.gateway.session import line
from deskyard.wire.gateway_settings import Settings
from deskyard.wire.routes import ROUTES

UNITS = {
    "firewall": "deskyard-firewall.service",
    "dns": "deskyard-dns.service",
    "sessions": "deskyard-session.service",
    "view": "deskyard-view.service",
    "proxy": "haproxy.service",
    "egress_watch": "deskyard-egress-watch.service",
    "ask": "deskyard-ask.service",
}
LOCKED_UNITS = {"egress": "deskyard-egress.service"}


def status_in_force(layout: Layout, system: System, timeout: float) -> dict[str, Any]:
    """The status by the settings that are in force, or of a gateway that has none yet."""
    settings = in_force(layout) if layout.settings_file.exists() else None
    return status(settings, layout, system, timeout)


def status(settings: Settings | None, layout: Layout, system: System, timeout: float) -> dict[str, Any]:
    """Ask every part; `ready` is true only if the gateway and every route of every desktop that is awaited answer."""
    units = UNITS | (LOCKED_UNITS if settings is not None and settings.egress == "locked" else {})
    with ThreadPoolExecutor(1) as beside:
        # A desktop takes its time to answer.
        asked = beside.submit(_services, units) if layout.trusts_system else None
        desktops = _desktops(settings, timeout) if settings else {}
        services = asked.result() if asked else {}
    sessions = _service(layout)
    services["session_service"] = sessions["state"]
    expires = _expires(layout, system)
    gateway_ready = settings is not None and expires is not None and sessions["digest"] == settings.digest
    gateway_ready = gateway_ready and all(state in ("active", "answers") for state in services.values())
    routes = [
        answer["ready"] for answers in desktops.values() for route, answer in answers.items() if ROUTES[route].awaited
    ]
    return {
        "ready": gateway_ready and all(routes),
        "gateway_ready": gateway_ready,
        "workspace": settings.workspace if settings else None,
        "digest": settings.digest if settings else None,
        "services": services,
        "certificate_expires": expires.isoformat() if expires else None,
        "acme": _acme(settings, layout) if settings and settings.acme else None,
        "desktops": desktops,
        # By desktop: who has stopped its agent, and whether that stands still.
        "stopped": {halt["desktop"]: halt for halt in sessions.get("stopped", []) if halt.get("stopped")},
    }


def _services(units: dict[str, str]) -> dict[str, str]:
    """The state of each unit, by one question."""
    # Late: only a machine with systemd has it to ask.
    from deskyard.gateway.machine.units import unit_states

    return dict(zip(units, unit_states(tuple(units.values())), strict=True))


def _expires(layout: Layout, system: System) -> datetime | None:
    """When the installed certificate ends; None if there is none."""
    with contextlib.suppress(OSError, ValueError):
        found = layout.tls_bundle.stat()
        return _end(layout.tls_bundle, (found.st_ino, found.st_size, found.st_mtime_ns), system.run)
    return None


@functools.lru_cache(maxsize=1)
def _end(bundle: Path, file: tuple[int, int, int], run: Callable[[Sequence[str]], Answer]) -> datetime:
    """When the certificate in this very file ends; raises `ValueError`, which is not kept, if there is none in it.

    openssl says it: to import what parses certificates would keep an emulated gateway busy for a second.
    """
    words = ("openssl", "x509", "-in", str(bundle), "-noout", "-enddate", "-dateopt", "iso_8601")
    name, _, moment = run(words).output.partition("=")
    if name != "notAfter":
        raise ValueError(f"{bundle} holds no certificate")
    return datetime.fromisoformat(moment)


def _acme(settings: Settings, layout: Layout) -> dict[str, Any] | None:
    from deskyard.gateway.config import acme_record

    return acme_record.state(settings, layout)


def _service(layout: Layout) -> dict[str, Any]:
    try:
        return {"state": "answers", **line.ask(layout.admin_socket, {"command": "ping"}, timeout=5)}
    except GatewayError as error:
        return {"state": error.reason, "digest": None}


def _desktops(settings: Settings, timeout: float) -> dict[str, dict[str, Any]]:
    with ThreadPoolExecutor(max_workers=16) as pool:
        asked = {
            (desktop.name, route): pool.submit(probe.route, route, desktop.address, port, timeout)
            for desktop in settings.desktops
            for route, port in sorted(desktop.routes.items())
        }
        answers = {key: asdict(future.result()) for key, future in asked.items()}
    return {
        desktop.name: {route: answers[desktop.name, route] for route in sorted(desktop.routes)}
        for desktop in settings.desktops
    }
