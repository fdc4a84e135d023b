"""The environment of the engine's plugin for a cluster: the token, and whom to trust. Both in its environment alone."""

import hashlib
import ssl
from pathlib import Path

from deskyard.errors import SiteError
from deskyard.host.places import places
from deskyard.host.secret_file import write_secret
from deskyard.model.site import Site
from deskyard.site.proxmox.token import read_token

# The program maps these to the names that the plugin reads, so that no other process of the run acts on them.
TOKEN_VARIABLE, ROOTS_VARIABLE = "DESKYARD_PLUGIN_TOKEN", "DESKYARD_PLUGIN_ROOTS"
SECONDS = 10


def plugin_environment(site: Site) -> dict[str, str]:
    """The variables of the plugin; raises `ConfigError` without a token, `SiteError` for another certificate."""
    token = read_token(site.cluster)
    roots = roots_file(site)
    trusted = {} if roots is None else {ROOTS_VARIABLE: str(roots)}
    return {TOKEN_VARIABLE: f"{token.id}={token.secret}", **trusted}


def roots_file(site: Site) -> Path | None:
    """The certificates that the plugin trusts for this cluster, and no others; None: those of this machine.

    The plugin cannot compare fingerprints: the certificate is fetched and compared here, and is then its only root.
    """
    cluster = site.cluster
    if cluster.ca is not None:
        return cluster.ca.expanduser().resolve()
    if cluster.fingerprint is None:
        return None
    host, port = (cluster.endpoint.host or "").strip("[]"), cluster.endpoint.port or 443
    try:
        pem = ssl.get_server_certificate((host, port), timeout=SECONDS)
    except OSError as error:
        remedy = "check proxmox.endpoint in the site's file"
        raise SiteError("proxmox.endpoint", f"{host}:{port}", f"does not answer: {error}", remedy) from error
    found = hashlib.sha256(ssl.PEM_cert_to_DER_cert(pem)).hexdigest()
    if found != cluster.fingerprint.replace(":", "").lower():
        reason = f"the API of site {site.name} shows another certificate, {found}"
        remedy = "find out why before you change the fingerprint in the site's file"
        raise SiteError("proxmox.fingerprint", cluster.fingerprint, reason, remedy)
    path = places().sites / site.name / "api.pem"
    write_secret(path, pem.encode())
    return path
