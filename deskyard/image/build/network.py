"""The part of this machine's network that a build VM takes over: authorities that it trusts, mirrors of npm and PyPI.

Debian's packages come from the mirror that the image declares. All of this is environment of the build's sessions and
files below /run: nothing of it is in the image.
"""

import os
import re
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from deskyard.errors import ConfigError

AUTHORITIES, NPM_REGISTRY, PYPI_INDEX = "DESKYARD_AUTHORITIES", "DESKYARD_NPM_REGISTRY", "DESKYARD_PYPI_INDEX"
# Where Debian has the authorities that its administrator added.
ADDED = Path("/usr/local/share/ca-certificates")
CERTIFICATE = re.compile(r"-----BEGIN CERTIFICATE-----\s[A-Za-z0-9+/=\s]+-----END CERTIFICATE-----")
# Nothing that a shell, systemd or sshd would read as more than a letter.
ADDRESS = re.compile(r"https?://[A-Za-z0-9.:/_~\[\]-]+")
# This machine, as its virtual machines see it over QEMU's user networking.
BUILDER = "10.0.2.2"
FOLDER = "/run/deskyard-build"
BUNDLE, APT = f"{FOLDER}/authorities.pem", f"{FOLDER}/apt.conf"
# Each program has its own name for it.
NAMES = ("SSL_CERT_FILE", "NODE_EXTRA_CA_CERTS", "PIP_CERT", "REQUESTS_CA_BUNDLE", "GIT_SSL_CAINFO")
TRUSTING = {**dict.fromkeys(NAMES, BUNDLE), "APT_CONFIG": APT}
TRUST = """mkdir -p {folder}
cat /etc/ssl/certs/ca-certificates.crt - >{bundle} <<'END'
{authorities}
END
printf 'Acquire::https::CAInfo "{bundle}";\\n' >{apt}
"""


@dataclass(frozen=True)
class BuildNetwork:
    """Certificates of authorities (PEM), and addresses of mirrors; what is empty is as Debian, npm and pip have it."""

    authorities: str = ""
    npm_registry: str = ""
    pypi_index: str = ""

    @property
    def environment(self) -> dict[str, str]:
        """The environment of the build's sessions."""
        mirrors = {"NPM_CONFIG_REGISTRY": self.npm_registry, "PIP_INDEX_URL": self.pypi_index}
        return {**(TRUSTING if self.authorities else {}), **{name: url for name, url in mirrors.items() if url}}

    @property
    def npm_registry_here(self) -> str:
        """The registry as this machine itself reaches it."""
        return _here(self.npm_registry)

    @property
    def pypi_index_here(self) -> str:
        """The index as this machine itself reaches it."""
        return _here(self.pypi_index)

    @property
    def sshd_options(self) -> str:
        """The options of sshd, as systemd reads them, that give the environment to its sessions."""
        # Of several SetEnv sshd takes the first alone.
        pairs = " ".join(f"{name}={value}" for name, value in self.environment.items())
        return f' -o "SetEnv={pairs}"' if pairs else ""

    @property
    def script(self) -> str:
        """Shell that makes the files that the environment names."""
        if not self.authorities:
            return ""
        return TRUST.format(folder=FOLDER, bundle=BUNDLE, apt=APT, authorities=self.authorities)


def build_network() -> BuildNetwork:
    """Read what the user chose, and the authorities that this machine trusts beside the distribution's."""
    return BuildNetwork(_authorities(), _address(NPM_REGISTRY), _address(PYPI_INDEX))


def _here(address: str) -> str:
    parts = urlsplit(address)
    if parts.hostname != BUILDER:
        return address
    return parts._replace(netloc=parts.netloc.replace(BUILDER, "127.0.0.1", 1)).geturl()


def _authorities() -> str:
    chosen = os.environ.get(AUTHORITIES)
    try:
        files = [Path(chosen)] if chosen else sorted(ADDED.rglob("*.crt"))
        found = [CERTIFICATE.findall(file.read_text(errors="replace")) for file in files]
    except OSError as error:
        reason = f"cannot be read: {error.strerror}"
        raise ConfigError(AUTHORITIES, chosen or ADDED, reason, "name a file of certificates (PEM)") from error
    if chosen and not any(found):
        raise ConfigError(AUTHORITIES, chosen, "holds no certificate", "name a file of certificates (PEM)")
    return "\n".join(certificate for certificates in found for certificate in certificates)


def _address(variable: str) -> str:
    value = os.environ.get(variable, "")
    if not value:
        return ""
    # It may hold a password, so it is not shown.
    if "@" in value:
        reason = "holds an account, which would be in the build's logs"
        raise ConfigError(variable, None, reason, "name a mirror that asks for none")
    if not ADDRESS.fullmatch(value):
        raise ConfigError(variable, value, "is no address of a registry", "write https://HOST/PATH")
    if urlsplit(value).hostname in ("localhost", "127.0.0.1", "::1"):
        reason = "is the build VM itself, as that sees it"
        raise ConfigError(variable, value, reason, f"write {BUILDER}, which is this machine")
    return value
