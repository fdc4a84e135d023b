"""A bucket of an S3 server in which a repository lies: what restic needs to reach it, and whether it can be reached.

restic tries for a quarter of an hour before it says that a server is not there or takes no such key, and makes a bucket
that is missing. So the bucket is asked for first: who cannot be reached is named at once, with what helps.
"""

import configparser
import os
import re
import ssl
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from deskyard.errors import ConfigError
from deskyard.host.secret_file import read_secret
from deskyard.life.backup.signature import Keys
from deskyard.model.site import ObjectStore

VARIABLES = ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN")
# Where restic would find other keys before those of the file.
_OTHERS = (*VARIABLES, "MINIO_ROOT_USER", "MINIO_ROOT_PASSWORD", "MINIO_ACCESS_KEY", "MINIO_SECRET_KEY")
REGION = "AWS_DEFAULT_REGION"
FILE = "backups_s3.credentials_file"
_ADDRESS = re.compile(r"s3:(?:(?P<scheme>https?)://)?(?P<host>[^/]+)/(?P<name>[^/]+)/?(?P<prefix>.*)")
# Who has buckets before the host's name, where nothing else is said (minio-go, as restic has it).
_AMAZON = re.compile(r"(.+\.)?amazonaws\.com(\.cn)?")


@dataclass(frozen=True)
class Bucket:
    """The bucket of an address `s3:https://host/bucket/prefix`, and how it is reached."""

    location: str
    store: ObjectStore

    @property
    def url(self) -> str:
        """The server's address."""
        found = self._parts
        return f"{found['scheme'] or 'https'}://{found['host']}"

    @property
    def name(self) -> str:
        """The bucket's name."""
        return self._parts["name"]

    @property
    def prefix(self) -> str:
        """The prefix of the names of all objects of the repository."""
        return f"{self._parts['prefix'].strip('/')}/".lstrip("/")

    @property
    def in_path(self) -> bool:
        """Whether the bucket stands in the path; else before the host's name."""
        if self.store.path_style is not None:
            return self.store.path_style
        # A certificate of *.host covers no name with a dot more.
        return not _AMAZON.fullmatch(urlsplit(self.url).hostname or "") or "." in self.name

    @property
    def region(self) -> str | None:
        """The region that is named, by the site or by this user."""
        return self.store.region or os.environ.get(REGION) or None

    def options(self) -> list[str]:
        """The options of restic's command line: nothing of this is a secret."""
        given = ["-o", f"s3.bucket-lookup={'path' if self.in_path else 'dns'}"]
        given += ["-o", f"s3.region={self.store.region}"] if self.store.region else []
        return given + (["--cacert", str(self._ca)] if self._ca else [])

    def environment(self) -> dict[str, str]:
        """The variables that restic gets: the file with the keys; those of the environment it has already."""
        if self.store.credentials_file is None:
            return {}
        file = str(self.store.credentials_file.expanduser())
        return {**dict.fromkeys(_OTHERS, ""), "AWS_SHARED_CREDENTIALS_FILE": file, "AWS_PROFILE": "default"}

    def keys(self) -> Keys:
        """The keys, from the site's file or else the environment; raises `ConfigError` if there are none."""
        if self.store.credentials_file is not None:
            return _in_file(self.store.credentials_file.expanduser())
        name, secret, session = (os.environ.get(variable, "") for variable in VARIABLES)
        if not name or not secret:
            missing = " and ".join(variable for variable in VARIABLES[:2] if not os.environ.get(variable))
            reason = f"there are no keys for the S3 server: {missing} is not set"
            raise ConfigError("backups", self.location, reason, f"set both, or name a file with them: {FILE}")
        return Keys(name, secret, session)

    def trust(self) -> ssl.SSLContext:
        """Whom it trusts: the authority that is named and no other, or else those of this machine."""
        try:
            return ssl.create_default_context(cafile=self._ca)
        except (OSError, ssl.SSLError) as error:
            reason = f"holds no certificate that can be read: {getattr(error, 'strerror', None) or error}"
            raise ConfigError("backups_s3.ca", str(self._ca), reason, "name a PEM file of the authority") from error

    @property
    def _ca(self) -> Path | None:
        return self.store.ca and self.store.ca.expanduser()

    @property
    def _parts(self) -> re.Match[str]:
        found = _ADDRESS.fullmatch(self.location)
        assert found is not None, "the model has let another address by"
        return found


def _in_file(path: Path) -> Keys:
    parser = configparser.RawConfigParser()
    try:
        parser.read_string(read_secret(path, FILE))
        found = parser["default"]
        return Keys(found["aws_access_key_id"], found["aws_secret_access_key"], found.get("aws_session_token", ""))
    except (configparser.Error, KeyError):
        # What is wrong with it is not repeated: it may be the secret.
        reason = "holds no keys"
        remedy = "write [default], aws_access_key_id = NAME and aws_secret_access_key = SECRET on lines of their own"
        raise ConfigError(FILE, str(path), reason, remedy) from None
