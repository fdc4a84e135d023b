"""Gets the door's certificate from an ACME server and renews it: certbot asks, `certificate.install` judges.

certbot runs as a user of its own and sees a signing request, never the key. The server looks whether the gateway
answers on its name (http-01): the door's port 80 leads to certbot while it asks, and nowhere else.
"""

import shutil
import sys
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from deskyard.errors import GatewayError
from deskyard.gateway.config import acme_record, certificate
from deskyard.gateway.config.in_force import in_force
from deskyard.gateway.config.lock import alone
from deskyard.gateway.machine import files, tls
from deskyard.gateway.machine.layout import Layout
from deskyard.gateway.machine.system import System
from deskyard.gateway.session import line
from deskyard.wire.gateway_settings import Acme, Settings

UNIT = "deskyard-renew.service"
RENEW_AT = 3  # when less than a third of its life is left
CHAIN_LIMIT = 256 * 1024
REMEDY = "mend the cause, then run deskyard-gateway renew; the last good certificate is in force"


def renew(
    settings: Settings, layout: Layout, system: System, *, at_once: bool = False, now: datetime | None = None
) -> dict[str, Any]:
    """Order a certificate if it is time to; raises `GatewayError` with the last good one in force."""
    acme, moment = settings.acme, now or datetime.now(UTC)
    if acme is None:
        return {"changed": [], "reason": "the site does not use ACME"}
    if not at_once and not _due(acme, layout, moment):
        return {"changed": [], "reason": "it is not time yet"}
    record = replace(acme_record.load(layout), tried=moment.isoformat(timespec="seconds"), error=None)
    try:
        chain = _order(acme, settings, layout, system)
        with alone(layout):
            done = _install(chain, settings, layout, system)
            given = tls.fingerprint(layout.tls_bundle)
    except GatewayError as error:
        acme_record.save(replace(record, error=f"{error.field}: {error.reason}"), layout)
        _tell(layout, result="refused", reason=error.reason)
        raise
    acme_record.save(replace(record, certificate=given, directory=acme.directory), layout)
    _tell(layout, result="installed", expires=done["expires"])
    return done


def start(settings: Settings, system: System) -> None:
    """Let the unit order in the background."""
    if settings.acme is not None:
        system.run(("systemctl", "start", "--no-block", UNIT))


def _due(acme: Acme, layout: Layout, now: datetime) -> bool:
    validity, record = tls.validity(layout.tls_bundle), acme_record.load(layout)
    if validity is None or record.directory != acme.directory:
        return True
    if record.certificate != tls.fingerprint(layout.tls_bundle):
        return True
    begin, end = validity
    return (end - now) * RENEW_AT < end - begin


def _order(acme: Acme, settings: Settings, layout: Layout, system: System) -> str:
    """The chain that the server gives for the gateway's own key."""
    order = layout.acme_client / "order"
    shutil.rmtree(order, ignore_errors=True)
    for folder in (layout.acme_client, order):
        folder.mkdir(parents=True, mode=0o700, exist_ok=True)
        shutil.chown(folder, layout.acme_user)
    request = layout.acme / "request.csr"
    files.write(request, tls.request(tls.ensure_key(layout.tls / "key.pem"), settings.hostname))
    authority = layout.acme / "authority.pem"
    files.write(authority, acme.ca)
    answer = system.run(_command(acme, layout, request, authority if acme.ca else None, order))
    chain = order / "chain.pem"
    if answer.code != 0 or not chain.exists():
        raise GatewayError("acme", acme.directory, f"gave no certificate:\n{answer.output}", REMEDY)
    with chain.open() as stream:
        return stream.read(CHAIN_LIMIT)


def _install(chain: str, ordered: Settings, layout: Layout, system: System) -> dict[str, Any]:
    """Install it by the settings in force: others may have come during the order, which takes minutes."""
    settings = in_force(layout)
    if (settings.acme, settings.hostname) != (ordered.acme, ordered.hostname):
        reason = f"is by settings that others took the place of while it was ordered for {ordered.hostname}"
        raise GatewayError("certificate", ordered.hostname, reason, "run deskyard-gateway renew, or wait for its timer")
    return certificate.install(chain, settings, layout, system)


def _command(acme: Acme, layout: Layout, request: Path, authority: Path | None, order: Path) -> tuple[str, ...]:
    user, client = layout.acme_user, layout.acme_client
    trust = (f"REQUESTS_CA_BUNDLE={authority}",) if authority else ()
    return (
        *("setpriv", f"--reuid={user}", f"--regid={layout.acme_group}", "--clear-groups", "--no-new-privs"),
        *("env", f"HOME={client}", *trust),
        *("certbot", "certonly", "--non-interactive", "--agree-tos", "--no-eff-email", "--email", acme.email),
        *("--server", acme.directory, "--csr", str(request)),
        *("--standalone", "--preferred-challenges", "http"),
        *("--http-01-address", "127.0.0.1", "--http-01-port", str(layout.acme_port)),
        *("--config-dir", str(client / "config"), "--work-dir", str(client / "work")),
        *("--logs-dir", str(client / "logs"), "--max-log-backups", "5"),
        *("--fullchain-path", str(order / "chain.pem")),
        *("--cert-path", str(order / "leaf.pem"), "--chain-path", str(order / "authorities.pem")),
    )


def _tell(layout: Layout, **facts: str) -> None:
    """Have it written down. A session service that is away holds up no certificate; the journal has it then."""
    try:
        line.ask(layout.admin_socket, {"command": "certificate", "facts": facts}, timeout=10)
    except GatewayError as error:
        print(f"not in the audit: certificate {facts}: {error}", file=sys.stderr)
