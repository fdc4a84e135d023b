"""Signs requests to an S3 server: Signature Version 4, for requests without a body.

docs.aws.amazon.com/AmazonS3/latest/API: "Authenticating Requests (AWS Signature Version 4)", whose examples are the
expectations of its test.
"""

import hashlib
import hmac
from collections.abc import Mapping
from dataclasses import dataclass, field
from urllib.parse import quote

_NOTHING = hashlib.sha256(b"").hexdigest()
_ALGORITHM = "AWS4-HMAC-SHA256"


@dataclass(frozen=True)
class Keys:
    """The keys of an S3 server: the name of one, which is no secret, and what proves it."""

    name: str
    secret: str = field(repr=False)
    session: str = field(default="", repr=False)


@dataclass(frozen=True)
class Request:
    """A request without a body."""

    method: str
    host: str
    path: str
    query: Mapping[str, str] = field(default_factory=dict)

    @property
    def target(self) -> str:
        """Path and query as they are sent, and as they are signed."""
        pairs = sorted((quote(name, safe="-_.~"), quote(value, safe="-_.~")) for name, value in self.query.items())
        return quote(self.path, safe="/-_.~") + ("?" + "&".join("=".join(pair) for pair in pairs) if pairs else "")

    def headers(self, keys: Keys, region: str, moment: str) -> dict[str, str]:
        """The headers that sign it; `moment` is the time as 20130524T000000Z."""
        signed = {"host": self.host, "x-amz-content-sha256": _NOTHING, "x-amz-date": moment}
        if keys.session:
            signed["x-amz-security-token"] = keys.session
        names = ";".join(sorted(signed))
        path, _, query = self.target.partition("?")
        lines = "".join(f"{name}:{signed[name]}\n" for name in sorted(signed))
        canonical = "\n".join((self.method, path, query, lines, names, _NOTHING))
        scope = f"{moment[:8]}/{region}/s3/aws4_request"
        text = "\n".join((_ALGORITHM, moment, scope, hashlib.sha256(canonical.encode()).hexdigest()))
        key = f"AWS4{keys.secret}".encode()
        for part in scope.split("/"):
            key = hmac.digest(key, part.encode(), "sha256")
        proof = hmac.digest(key, text.encode(), "sha256").hex()
        proved = f"{_ALGORITHM} Credential={keys.name}/{scope}, SignedHeaders={names}, Signature={proof}"
        return {**signed, "Authorization": proved}
