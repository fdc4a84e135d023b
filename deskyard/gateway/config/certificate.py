"""Installs the door's certificate and opens or reloads the door with it."""

from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from deskyard.gateway.config import render
from deskyard.gateway.config.replacement import RELOAD_DOOR, Part, door_check, judge, replace
from deskyard.gateway.machine import files, tls
from deskyard.gateway.machine.layout import Layout
from deskyard.gateway.machine.system import System
from deskyard.gateway.session import signing
from deskyard.wire.gateway_settings import Settings

REMEDY = "mend the cause; the last good certificate is in force"


def install(text: str, settings: Settings, layout: Layout, system: System) -> dict[str, Any]:
    """Check the chain, let HAProxy judge it, install it, reload; or keep the old one and raise `GatewayError`."""
    pair = tls.check(text, files.read(layout.tls / "key.pem"), settings.hostname)
    bundle = pair.chain + pair.key
    expires = pair.expires.isoformat()
    if files.read(layout.tls_bundle) == bundle and _runs(layout, system):
        return {"changed": [], "expires": expires}
    kids = signing.kids(layout.signing_keys)
    _check(bundle, settings, layout, kids, system)
    replace([Part("certificate", layout.tls_bundle, bundle, (RELOAD_DOOR,), mode=0o600)], system, REMEDY)
    files.write(layout.tls / "key.pem", pair.key, 0o600)
    return {"changed": ["certificate"], "expires": expires}


def _check(bundle: str, settings: Settings, layout: Layout, kids: list[str], system: System) -> None:
    with TemporaryDirectory(prefix="deskyard-certificate.") as name:
        folder = Path(name)
        files.write(folder / "new.pem", bundle, 0o600)
        staged = folder / "haproxy.cfg"
        staged.write_text(render.haproxy(settings, layout, kids, folder / "new.pem"))
        judge("certificate", door_check(staged, settings, layout), system, REMEDY)


def _runs(layout: Layout, system: System) -> bool:
    return system.run(("systemctl", "is-active", "--quiet", "haproxy.service")).code == 0
