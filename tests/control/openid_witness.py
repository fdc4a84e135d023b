"""node-oidc-provider, which is not ours and certified by the OpenID Foundation, on loopback: the honest provider."""

import json
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.control.openid_double import CLIENT, SECRET
from tests.support.npm import install
from tests.support.requirements import need_programs

SOURCE = Path(__file__).parent / "openid"


@dataclass
class Witness:
    """One provider that knows Mission Control as a client."""

    process: "subprocess.Popen[str]"
    issuer: str = ""

    def knows(self, accounts: Mapping[str, Mapping[str, Any]]) -> None:
        """Have just these accounts from now on, each with its claims."""
        self.say({"accounts": accounts})

    def say(self, line: Mapping[str, Any]) -> str:
        """Hand it a line, and wait for its answer."""
        assert self.process.stdin is not None and self.process.stdout is not None
        self.process.stdin.write(json.dumps(line) + "\n")
        self.process.stdin.flush()
        return self.process.stdout.readline().strip()


@contextmanager
def running(folder: Path, redirect: str, accounts: Mapping[str, Mapping[str, Any]]) -> Iterator[Witness]:
    """A provider, gone at the end; it is installed into `folder`, and sends browsers back to `redirect`."""
    need_programs("npm", "node")
    install(SOURCE, folder)
    client = {"client_id": CLIENT, "client_secret": SECRET, "redirect_uris": [redirect]}
    client |= {"grant_types": ["authorization_code", "refresh_token"]}
    pipe = subprocess.PIPE
    argv = ["node", "server.mjs"]
    with subprocess.Popen(argv, cwd=folder, stdin=pipe, stdout=pipe, stderr=subprocess.DEVNULL, text=True) as process:
        try:
            found = Witness(process)
            found.issuer = found.say({"clients": [client], "accounts": accounts})
            yield found
        finally:
            process.kill()
