"""`python -m deskyard_e2b` answers E2B's own clients with the desktops of a Mission Control."""

import argparse
import asyncio
import json
import os
import socket
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from deskyard_sdk import DesktopError
from deskyard_sdk.mission import AsyncMissionControl

from deskyard_e2b import web
from deskyard_e2b.ending import ENDINGS, STOP
from deskyard_e2b.keeping import Keeping
from deskyard_e2b.naming import DOMAIN, NOWHERE, Choice

PORT = 3000
# As Mission Control takes it.
MOST_TASK_SECONDS = 999_999
URL, CA = "DESKYARD_MISSION_CONTROL", "DESKYARD_CA"
KEY_HINT = "dyk_...   # ./inv control.key NAME --scopes read,desktops:write,desktops:destroy"


@dataclass(frozen=True)
class Settings:
    """The settings that the program was started with."""

    url: str
    ca: str | None
    state: Path
    listening: web.Listening
    choice: Choice
    at_timeout: str
    as_json: bool
    domain: str = NOWHERE
    listener: int | None = None
    via: str | None = None


def read(argv: Sequence[str], environment: Mapping[str, str]) -> Settings:
    """The settings of a command line; raises `DesktopError`."""
    options = _parser(environment).parse_args(argv)
    if not options.mission_control:
        remedy = f"give the address that ./inv control.status says, or set {URL}"
        raise DesktopError("--mission-control", "", "is not given", remedy)
    if bool(options.certificate) != bool(options.certificate_key):
        raise DesktopError("--certificate", "", "needs its private key", "give both, or none: --certificate-key")
    listening = web.Listening(options.host, options.port, options.certificate, options.certificate_key)
    if options.task_seconds is not None and not 1 <= options.task_seconds <= MOST_TASK_SECONDS:
        raise DesktopError(
            "--task-seconds", str(options.task_seconds), "is not in range", f"give 1 to {MOST_TASK_SECONDS}"
        )
    domain = (options.domain or NOWHERE).lower()
    if not DOMAIN.fullmatch(domain):
        raise DesktopError("--domain", domain, "is no domain", "give such as e2b.example.com, or e2b.example.com:8443")
    choice = Choice(options.workspace, options.tier, options.image, options.task_seconds)
    state = Path(options.state).expanduser()
    asked = (options.mission_control, options.ca, state, listening, choice, options.at_timeout, options.json)
    return Settings(*asked, domain, options.listener, options.via)


def _parser(environment: Mapping[str, str]) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m deskyard_e2b",
        description="Answers the unmodified clients of E2B with desktops of a Mission Control, each with its own key.",
    )
    home = environment.get("XDG_STATE_HOME") or "~/.local/state"
    add = parser.add_argument
    add("--mission-control", default=environment.get(URL), metavar="URL", help=f"its address (or {URL})")
    add("--ca", default=environment.get(CA), metavar="FILE", help=f"the CA of it and the gateways, if own (or {CA})")
    add("--host", default="127.0.0.1", help="the address to listen on; others than loopback need a certificate")
    add("--port", type=int, default=PORT, help=f"0: a free one (default: {PORT})")
    add("--certificate", metavar="FILE", help="the chain, as PEM, to serve HTTPS")
    add("--certificate-key", metavar="FILE", help="its private key")
    add("--domain", metavar="NAME", help="E2B_DOMAIN of clients: api.NAME and each PORT-SANDBOX.NAME lead here")
    add("--listener", type=int, metavar="N", help="an open socket to serve in place of a port, behind who ends TLS")
    add("--via", metavar="FILE", help="the socket by which Mission Control is reached")
    add("--state", default=f"{home}/deskyard/e2b.sqlite", metavar="FILE", help="what is kept of sandboxes")
    add("--workspace", help="of a sandbox whose template names none (default: the only one that the key sees)")
    add("--tier", default="free", help="the same of its tier (default: free)")
    add("--image", help="the image of new desktops (default: the workspace's)")
    add("--task-seconds", type=int, metavar="N", help="desktops for a task, which go after so long at the latest")
    add("--at-timeout", choices=ENDINGS, default=STOP, help="what is done at the end of a sandbox (default: stop)")
    add("--json", action="store_true", help="print JSON")
    return parser


def exports(url: str, domain: str = NOWHERE) -> str:
    """The `export` lines that point E2B's clients to this program, for a user's shell."""
    places = f"export E2B_API_URL={url}\nexport E2B_SANDBOX_URL={url}"
    if domain != NOWHERE:
        places = f"export E2B_DOMAIN={domain}"
    return f"{places}\nexport E2B_API_KEY={KEY_HINT}"


async def serve(settings: Settings) -> None:
    """Serve until ended."""
    settings.listening.require_certificate()
    keeping = Keeping(settings.state)
    try:
        handed = settings.listener is not None
        with socket.socket(fileno=settings.listener) if handed else settings.listening.open() as listening:
            url = f"https://api.{settings.domain}" if handed else settings.listening.url(listening)

            async def opens(key: str) -> AsyncMissionControl:
                return await AsyncMissionControl.connect(settings.url, key, settings.ca, settings.via)

            def ready() -> None:
                said = {
                    "url": url,
                    "domain": None if settings.domain == NOWHERE else settings.domain,
                    "mission_control": settings.url,
                    "at_timeout": settings.at_timeout,
                }
                as_json = json.dumps({**said, "state": str(settings.state)})
                print(as_json if settings.as_json else exports(url, settings.domain), flush=True)

            program = web.compose(keeping, opens, settings.choice, settings.at_timeout, domain=settings.domain)
            await web.server(program, settings.listening, ready).serve(sockets=[listening])
    finally:
        keeping.close()


def main() -> None:
    """Serve; what is wrong is said on standard error."""
    try:
        asyncio.run(serve(read(sys.argv[1:], os.environ)))
    except DesktopError as error:
        print(f"deskyard_e2b: {error}", file=sys.stderr)
        sys.exit(1)
    except KeyboardInterrupt:
        sys.exit(130)


if __name__ == "__main__":
    main()
