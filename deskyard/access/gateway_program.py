"""Asks the program inside a workspace's gateway, over SSH."""

import getpass
import json
import re
from collections.abc import Callable
from typing import Any

from deskyard.declaration import declaration
from deskyard.engine import running
from deskyard.errors import ConfigError, SiteError
from deskyard.site.ssh_link import GATEWAY, SshLink
from deskyard.wire import session_requests

ASK_SECONDS = 120.0
# A gateway waits up to 990 s for a unit, and as long on the way back if one fails (`deskyard.gateway.machine.system`):
# who gave up before would say that it failed, and it would come into force later.
CHANGE_SECONDS = 3000.0
# Of what a gateway says beside its answer: one that lacks a command names all that it has.
MOST_SAID = 2000


class Rubbish(SiteError):
    """An answer that no gateway gives."""


class TooOld(SiteError):
    """A gateway that has not got a command of this version."""


def require(name: str) -> SshLink:
    """The way to the gateway that runs, whatever is declared by now; raises `SiteError` if none does."""
    site = declaration.site_of(name)
    running.require_gateway(site, name)
    return SshLink(site.name, name)


def ask_service(link: SshLink, request: dict[str, Any], arguments: list[str]) -> Any:
    """Ask the session service, or `deskyard-gateway` with the same as `arguments` (`ask_socket`)."""
    return ask_socket(link, session_requests.SOCKET, request, lambda: ask(link, arguments))


def ask_socket(
    link: SshLink, path: str, request: dict[str, Any], otherwise: Callable[[], Any], seconds: float = ASK_SECONDS
) -> Any:
    """Ask a service of the gateway on its private socket, where no program has to start for it.

    If it cannot be asked so, `otherwise` gives the answer: a gateway from before has no socat, and of a service that is
    down its program says what to do.
    """
    argv = ["sudo", "socat", f"-t{seconds:.0f}", "-", f"UNIX-CONNECT:/{path}"]
    text = json.dumps(request) + "\n"
    answer = link.run(GATEWAY, argv, stdin=text, timeout=seconds, check=False, kept=True)
    if answer.code != 0 or not answer.stdout:
        return otherwise()
    document = understood(link.workspace, answer.stdout)
    if not isinstance(document, dict) or "result" not in document:
        raise rubbish(link.workspace)
    return document["result"]


def ask(link: SshLink, arguments: list[str], stdin: str = "", seconds: float = ASK_SECONDS) -> Any:
    """Ask `deskyard-gateway`, which may read `stdin`; its own errors are raised as `ConfigError`."""
    argv = ["sudo", "deskyard-gateway", *arguments]
    answer = link.run(GATEWAY, argv, stdin=stdin or None, timeout=seconds, check=False, kept=True)
    if answer.code not in (0, 1) or not answer.stdout:
        tail = answer.stderr.strip()[-MOST_SAID:]
        reason = f"did not answer ({answer.code}): {tail}"
        raise SiteError("gateway", link.workspace, reason, f"see ./inv workspace.status {link.workspace}")
    return understood(link.workspace, answer.stdout)


def ask_newer(link: SshLink, arguments: list[str], lacks: str, stdin: str = "", seconds: float = ASK_SECONDS) -> Any:
    """Ask for a command that older gateways do not have; `lacks` is what those cannot do: raises `TooOld`."""
    try:
        return ask(link, arguments, stdin, seconds)
    except SiteError as error:
        if f"invalid choice: '{arguments[0]}'" not in str(error):
            raise
        remedy = f"give it the image of this version: ./inv workspace.up {link.workspace}"
        raise TooOld("gateway", link.workspace, f"is from before gateways {lacks}", remedy) from error


def understood(name: str, text: str | bytes) -> Any:
    """The gateway's answer, parsed; its own errors are raised, and what is no answer is `Rubbish`."""
    try:
        document = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise rubbish(name) from error
    match document:
        case {"error": {"field": str(field), "value": value, "reason": str(reason), "remedy": str(remedy)}}:
            raise ConfigError(field, value or None, reason, remedy)
        case {"error": _}:
            raise rubbish(name)
    return document


def rubbish(name: str) -> Rubbish:
    """The error of an answer that no gateway gives."""
    remedy = f"see ./inv workspace.status {name}"
    return Rubbish("gateway", name, "answers what is no answer of a gateway", remedy)


def actor() -> str:
    """Who asks, for the gateway's records."""
    return re.sub(r"[^A-Za-z0-9._-]", "_", getpass.getuser())[:32]
