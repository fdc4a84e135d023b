"""Asks the program inside a workspace's gateway, over SSH."""

import getpass
import json
import re
from typing import Any

from deskyard.declaration import declaration
from deskyard.engine import running
from deskyard.errors import ConfigError, SiteError
from deskyard.site.ssh_link import GATEWAY, SshLink
from deskyard.wire import session_requests

ASK_SECONDS = 120.0


def require(name: str) -> SshLink:
    """The way to the gateway that runs, whatever is declared by now; raises `SiteError` if none does."""
    site = declaration.site_of(name)
    running.require_gateway(site, name)
    return SshLink(site.name, name)


def ask_service(link: SshLink, request: dict[str, Any], arguments: list[str]) -> Any:
    """Ask the session service on its private line, where no program has to start for it.

    If it cannot be asked so, `deskyard-gateway` is, with the same as `arguments`: a gateway from before has no socat,
    and of a service that is down the program says what to do.
    """
    argv = ["sudo", "socat", f"-t{ASK_SECONDS:.0f}", "-", f"UNIX-CONNECT:/{session_requests.SOCKET}"]
    answer = link.run(GATEWAY, argv, stdin=json.dumps(request), timeout=ASK_SECONDS, check=False, kept=True)
    if answer.code != 0 or not answer.stdout:
        return ask(link, arguments)
    document = json.loads(answer.stdout)
    if "error" in document:
        raise _refused(document["error"])
    return document["result"]


def ask(link: SshLink, arguments: list[str]) -> Any:
    """Ask `deskyard-gateway`; its own errors are raised as `ConfigError`."""
    answer = link.run(GATEWAY, ["sudo", "deskyard-gateway", *arguments], timeout=ASK_SECONDS, check=False, kept=True)
    try:
        document = json.loads(answer.stdout)
    except ValueError as error:
        tail = answer.stderr.strip()[-500:]
        reason = f"did not answer ({answer.code}): {tail}"
        raise SiteError("gateway", link.workspace, reason, f"see ./inv workspace.status {link.workspace}") from error
    if isinstance(document, dict) and "error" in document:
        raise _refused(document["error"])
    return document


def _refused(error: dict[str, str]) -> ConfigError:
    return ConfigError(error["field"], error["value"] or None, error["reason"], error["remedy"])


def actor() -> str:
    """Who asks, for the gateway's records."""
    return re.sub(r"[^A-Za-z0-9._-]", "_", getpass.getuser())[:32]
