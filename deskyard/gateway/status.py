"""The health of the gateway, as one document."""

import contextlib
import functools
from collections.abc import Callable, Collection, Mapping, Sequence
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
# Who does not answer is waited for by a thread, and all of them at once.
MOST_AT_ONCE = 256


def status_in_force(
    layout: Layout, system: System, timeout: float, desktops: Collection[str] | None = None
) -> dict[str, Any]:
    """The status by the settings that are in force, or of a gateway that has none yet."""
    settings = in_force(layout) if layout.settings_file.exists() else None
    return status(settings, layout, system, timeout, desktops)


def status(
    settings: Settings | None, layout: Layout, system: System, timeout: float, desktops: Collection[str] | None = None
) -> dict[str, Any]:
    """Ask every part, of the desktops all or those that are named.

    `ready` is true only if the gateway and every route that is awaited of these desktops answer.
    """
    units = UNITS | (LOCKED_UNITS if settings is not None and settings.egress == "locked" else {})
    with ThreadPoolExecutor(1) as beside:
        # A desktop takes its time to answer.
        asked = beside.submit(_services, units) if layout.trusts_system else None
        answers = _desktops(settings, timeout, desktops) if settings else {}
        services = asked.result() if asked else {}
    sessions = _service(layout)
    services["session_service"] = sessions["state"]
    expires = _expires(layout, system)
    gateway_ready = settings is not None and expires is not None and sessions["digest"] == settings.digest
    gateway_ready = gateway_ready and all(state in ("active", "answers") for state in services.values())
    return {
        "ready": gateway_ready and _are_ready(answers),
        "gateway_ready": gateway_ready,
        "workspace": settings.workspace if settings else None,
        "digest": settings.digest if settings else None,
        "services": services,
        "certificate_expires": expires.isoformat() if expires else None,
        "acme": _acme(settings, layout) if settings and settings.acme else None,
        "desktops": answers,
        # By desktop: who has stopped its agent, and whether that stands still.
        "stopped": {halt["desktop"]: halt for halt in sessions.get("stopped", []) if halt.get("stopped")},
    }


def among(found: Mapping[str, Any], desktops: Collection[str]) -> dict[str, Any]:
    """The status of fewer desktops than were looked at."""
    answers = {name: routes for name, routes in found["desktops"].items() if name in desktops}
    return {**found, "ready": found["gateway_ready"] and _are_ready(answers), "desktops": answers}


def _are_ready(answers: Mapping[str, Mapping[str, Any]]) -> bool:
    return all(
        answer["ready"] for routes in answers.values() for route, answer in routes.items() if ROUTES[route].awaited
    )


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


def _desktops(settings: Settings, timeout: float, names: Collection[str] | None) -> dict[str, dict[str, Any]]:
    looked_at = [desktop for desktop in settings.desktops if names is None or desktop.name in names]
    with ThreadPoolExecutor(MOST_AT_ONCE) as pool:
        asked = {
            desktop.name: {
                route: pool.submit(probe.route, route, desktop.address, port, timeout)
                for route, port in sorted(desktop.routes.items())
            }
            for desktop in looked_at
        }
        return {
            name: {route: asdict(answer.result()) for route, answer in routes.items()} for name, routes in asked.items()
        }
