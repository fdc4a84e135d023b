"""The address of a PostgreSQL elsewhere: which, whose certificate it shows, who makes roles there; no secret."""

import os
import ssl
import urllib.parse
from dataclasses import dataclass
from pathlib import Path

from deskyard.control.store.cluster import DATABASE
from deskyard.errors import ConfigError

VARIABLE = "DESKYARD_DATABASE"
FORM = f"postgresql://ADMINISTRATOR@HOST:PORT/{DATABASE}?sslrootcert=FILE"
PORT = 5432
PASSWORD_VARIABLE = "PGPASSWORD"


@dataclass(frozen=True)
class Address:
    """A server that is verified by its name and an authority; `administrator` makes roles there, once."""

    host: str
    port: int
    administrator: str
    authority: Path

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        query = urllib.parse.urlencode({"sslrootcert": self.authority}, safe="/")
        name = urllib.parse.quote(self.administrator, safe="")
        return f"postgresql://{name}@{host}:{self.port}/{DATABASE}?{query}"

    def certificates(self) -> bytes:
        """The authority's certificates (PEM); raises `ConfigError` if the named file has none."""
        remedy = "name a PEM file with the certificate of the authority that signed the server's"
        try:
            content = self.authority.read_bytes()
            ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT).load_verify_locations(cadata=content.decode("ascii", "ignore"))
        except (ssl.SSLError, ValueError) as error:
            raise ConfigError(VARIABLE, str(self.authority), "its sslrootcert holds no certificate", remedy) from error
        except OSError as error:
            reason = f"its sslrootcert cannot be read: {error.strerror}"
            raise ConfigError(VARIABLE, str(self.authority), reason, remedy) from error
        return content


def wanted() -> Address | None:
    """The address that the environment names; None if it names none."""
    text = os.environ.get(VARIABLE)
    return parsed(text) if text else None


def require_no_password() -> None:
    """Raise `ConfigError` if the environment holds a password, which PostgreSQL's library would use for every role."""
    if PASSWORD_VARIABLE in os.environ:
        remedy = f"unset {PASSWORD_VARIABLE}: the administrator's password is asked for, or stands in ~/.pgpass"
        raise ConfigError(PASSWORD_VARIABLE, None, "would be used for every role, and is seen by each process", remedy)


def parsed(text: str) -> Address:
    """An address as it is written; what is refused is not repeated, since there may be a password in it."""
    try:
        url = urllib.parse.urlsplit(text)
        port, query = url.port or PORT, dict(urllib.parse.parse_qsl(url.query, strict_parsing=bool(url.query)))
    except ValueError as error:
        raise _refused("is no address") from error
    if url.password is not None or "password" in query:
        remedy = f"take it out: it is asked for, or stands in ~/.pgpass; write {FORM}"
        raise ConfigError(VARIABLE, None, "has a password in it, which others can read", remedy)
    if url.scheme not in ("postgresql", "postgres") or not url.hostname or not url.username or url.fragment:
        raise _refused("is no address of a PostgreSQL with its administrator")
    if "," in url.netloc or url.path.strip("/") not in ("", DATABASE):
        raise _refused(f"names several servers, or a database that is not called {DATABASE}")
    if query.pop("sslmode", "verify-full") != "verify-full":
        raise _refused("wants less than verify-full, with which whoever stands between reads and changes all of it")
    authority = Path(query.pop("sslrootcert", ""))
    if query or not authority.is_absolute():
        raise _refused("has to say sslrootcert, a file by its whole path, and nothing else")
    return Address(url.hostname, port, urllib.parse.unquote(url.username), authority)


def _refused(reason: str) -> ConfigError:
    return ConfigError(VARIABLE, None, reason, f"write {FORM}")
