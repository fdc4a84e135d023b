"""Installs the door's certificate and opens or reloads the door with it."""

from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from deskyard.errors import GatewayError
from deskyard.gateway.config import backends, render
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
    before = files.read(layout.tls_bundle)
    if before == bundle and _runs(layout, system):
        return {"changed": [], "expires": expires}
    kids = signing.kids(layout.signing_keys)
    _check(bundle, settings, layout, kids, system)
    files.write(layout.tls_bundle, bundle, 0o600)
    answer = system.run(("systemctl", "reload-or-restart", "haproxy.service"))
    if answer.code != 0:
        _restore(before, layout, system)
        reason = f"HAProxy does not take it: {answer.output}"
        raise GatewayError("certificate", None, reason, REMEDY)
    files.write(layout.tls / "key.pem", pair.key, 0o600)
    return {"changed": ["certificate"], "expires": expires}


def _check(bundle: str, settings: Settings, layout: Layout, kids: list[str], system: System) -> None:
    with TemporaryDirectory(prefix="deskyard-certificate.") as name:
        folder = Path(name)
        files.write(folder / "new.pem", bundle, 0o600)
        (folder / "haproxy.cfg").write_text(render.haproxy(settings, layout, kids, folder / "new.pem"))
        (folder / "backends.cfg").write_text(backends.text(settings, layout))
        backends.ensure_revoked(layout)
        argv = ("haproxy", "-c", "-f", str(folder / "haproxy.cfg"), "-f", str(folder / "backends.cfg"))
        answer = system.run(argv)
    if answer.code != 0:
        raise GatewayError("certificate", None, f"HAProxy refuses it:\n{answer.output}", REMEDY)


def _runs(layout: Layout, system: System) -> bool:
    return system.run(("systemctl", "is-active", "--quiet", "haproxy.service")).code == 0


def _restore(before: str | None, layout: Layout, system: System) -> None:
    if before is None:
        layout.tls_bundle.unlink()
        return
    files.write(layout.tls_bundle, before, 0o600)
    system.run(("systemctl", "reload-or-restart", "haproxy.service"))
