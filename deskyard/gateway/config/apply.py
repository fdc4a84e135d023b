"""Puts settings into force: render, check everything, install, load; or keep what was good and say so."""

import json
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from deskyard.errors import GatewayError
from deskyard.gateway.config import egress_grants, render
from deskyard.gateway.config.egress_grants import Grants
from deskyard.gateway.config.in_force import in_force
from deskyard.gateway.config.lock import alone
from deskyard.gateway.config.replacement import RELOAD_DOOR, Part, door_check, judge, replace
from deskyard.gateway.machine import files
from deskyard.gateway.machine.layout import Layout
from deskyard.gateway.machine.system import System
from deskyard.gateway.session import signing
from deskyard.wire.gateway_settings import Settings

REMEDY = "mend the cause; the last good configuration is in force"


def apply(settings: Settings, layout: Layout, system: System) -> dict[str, Any]:
    """Put `settings` into force; the result names what changed. Raises `GatewayError`, with the old ones in force."""
    with alone(layout):
        _check_interfaces(settings, layout, system)
        kids = signing.ensure(layout.signing_keys, layout.signing_group)
        kept = egress_grants.load(layout)
        if files.read(layout.settings_file) != settings.as_json():
            kept = kept.timed()
        changed = _enforce(_parts(settings, kept, layout, kids), settings, layout, system)
        egress_grants.save(kept, layout)
        return {
            "changed": [part.name for part in changed],
            "digest": settings.digest,
            "needs_certificate": not layout.tls_bundle.exists(),
        }


def change_list(edit: Callable[[Settings, Grants], Grants], layout: Layout, system: System) -> list[str]:
    """Put another list of allowed names into force; the names of what changed. Raises as `apply` does."""
    with alone(layout):
        # Read here: while this waited, others may have come into force.
        settings = in_force(layout)
        grants = edit(settings, egress_grants.load(layout))
        changed = _enforce(_list_parts(settings, grants, layout), settings, layout, system)
        egress_grants.save(grants, layout)
        return [part.name for part in changed]


def _enforce(parts: list[Part], settings: Settings, layout: Layout, system: System) -> list[Part]:
    """Check all, then install what differs."""
    with tempfile.TemporaryDirectory(prefix="deskyard-apply.") as folder:
        _check(settings, parts, layout, system, Path(folder))
    changed = [part for part in parts if _must_change(part, layout, system)]
    _install(changed, layout, system)
    return changed


def _list_parts(settings: Settings, grants: Grants, layout: Layout) -> list[Part]:
    """The files that hold the list of allowed names."""
    effective = grants.effective(settings)
    rules = render.firewall(effective, layout.egress_user, layout.acme_user)
    return [
        Part("firewall", layout.firewall_file, rules, (("nft", "-f", str(layout.firewall_file)),)),
        Part("dns", layout.dns_file, render.dnsmasq(effective), *_service("deskyard-dns.service")),
        Part("egress", layout.egress_file, render.egress(effective, layout, grants.closings), *_router(effective)),
    ]


def _router(effective: Settings) -> tuple[tuple[tuple[str, ...], ...], str | None]:
    unit = "deskyard-egress.service"
    if effective.egress != "locked":
        return (("systemctl", "stop", unit),), None
    return (("systemctl", "reload-or-restart", unit),), unit


def _parts(settings: Settings, grants: Grants, layout: Layout, kids: Sequence[str]) -> list[Part]:
    """The files in the order they come into force: the firewall before anything it must guard."""
    forward, kernel = str(layout.forward_file), render.forwarding(settings, layout.door_sockets)
    has_certificate = layout.tls_bundle.exists()
    text = render.haproxy(settings, layout, kids, layout.tls_bundle)
    firewall, dns, egress = _list_parts(settings, grants, layout)
    return [
        firewall,
        # A restart ends no connection, and it ends only when the new daemon listens.
        Part("ssh", layout.ssh_file, render.ssh(settings), (("systemctl", "try-restart", "ssh.service"),)),
        Part("forwarding", layout.forward_file, kernel, (("sysctl", "-q", "-p", forward),)),
        # The unit of the router reads it each time it starts.
        Part("egress_routes", layout.egress_routes_file, render.egress_routes(settings), ()),
        dns,
        egress,
        Part("settings", layout.settings_file, settings.as_json(), *_service("deskyard-session.service")),
        # Without a certificate there is no door at all: HAProxy starts when `certificate` has installed one.
        Part("proxy", layout.proxy_file, text, (RELOAD_DOOR,) if has_certificate else (), _unit(has_certificate)),
    ]


def _service(unit: str) -> tuple[tuple[tuple[str, ...], ...], str]:
    return (("systemctl", "restart", unit),), unit


def _unit(has_certificate: bool) -> str | None:
    return "haproxy.service" if has_certificate else None


def _check(settings: Settings, parts: list[Part], layout: Layout, system: System, folder: Path) -> None:
    """Let each program judge its file before any of them is replaced."""
    staged = {part.name: folder / part.path.name for part in parts}
    for part in parts:
        staged[part.name].write_text(part.text)
    bundle = layout.tls_bundle
    if "proxy" in staged and not bundle.exists():
        # Once in a gateway's life.
        from deskyard.gateway.machine import tls

        key = tls.ensure_key(layout.tls / "key.pem")
        bundle = folder / "bootstrap.pem"
        files.write(bundle, tls.self_signed(key, settings.hostname) + key, 0o600)
        kids = signing.kids(layout.signing_keys)
        staged["proxy"].write_text(render.haproxy(settings, layout, kids, bundle))
    checks = {
        "firewall": ("nft", "-c", "-f", str(staged["firewall"])),
        "dns": ("dnsmasq", "--test", f"--conf-file={staged['dns']}"),
    }
    if "frontend" in staged["egress"].read_text():
        checks["egress"] = ("haproxy", "-c", "-f", str(staged["egress"]))
    if "proxy" in staged:
        checks["proxy"] = door_check(staged["proxy"], settings, layout)
    if layout.trusts_system and "ssh" in staged:
        checks["ssh"] = ("/usr/sbin/sshd", "-t", "-f", str(staged["ssh"]))
    for name, argv in checks.items():
        judge(name, argv, system, REMEDY)


def _must_change(part: Part, layout: Layout, system: System) -> bool:
    if files.read(part.path) != part.text or part.name in _pending(layout):
        return True
    if part.unit is None or not layout.trusts_system:
        return False
    return system.run(("systemctl", "is-active", "--quiet", part.unit)).code != 0


def _install(changed: list[Part], layout: Layout, system: System) -> None:
    """Write and activate in order; on a failure put everything back as it was."""
    if not changed:
        return
    # If power fails between writing and loading, the next apply sees from this list what was left half done.
    # What an earlier one left stays on the list, unless it is done now.
    others = [name for name in _pending(layout) if name not in {part.name for part in changed}]
    files.write(_pending_file(layout), json.dumps([*others, *(part.name for part in changed)]))
    try:
        replace(changed, system, REMEDY)
    except GatewayError:
        _leave_pending(others, layout)
        raise
    _leave_pending(others, layout)


def _check_interfaces(settings: Settings, layout: Layout, system: System) -> None:
    if not layout.trusts_system:
        return
    for name, mac in (("uplink", settings.uplink_mac), ("workspace", settings.workspace_mac)):
        found = system.mac(name)
        if found != mac:
            reason = f"the interface called {name} is {found or 'absent'}"
            raise GatewayError(f"{name}_mac", mac, reason, "check the NICs of this machine and its cloud-init data")


def _pending_file(layout: Layout) -> Path:
    return layout.etc / ".pending.json"


def _leave_pending(names: list[str], layout: Layout) -> None:
    if names:
        files.write(_pending_file(layout), json.dumps(names))
    else:
        _pending_file(layout).unlink()


def _pending(layout: Layout) -> list[str]:
    text = files.read(_pending_file(layout))
    return [str(name) for name in json.loads(text)] if text else []
