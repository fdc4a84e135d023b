"""`deskyard-mcp` serves the desktop of DESKYARD_LINK to one client by stdio, or with --http to several on loopback."""

import argparse
import asyncio
import sys

from deskyard_sdk import AsyncDesktop, DesktopError

from deskyard_mcp import web
from deskyard_mcp.server import DesktopServer
from deskyard_mcp.settings import Settings, from_process


async def serve(settings: Settings, port: int | None) -> None:
    """Open the desktop, and serve it until the client leaves or the server is ended."""
    link, wake_within = settings.link, settings.wake_within
    async with await AsyncDesktop.connect(link, settings.ca, settings.session, wake_within) as desktop:
        server = DesktopServer(desktop, settings.ask)
        if port is None:
            await server.run_stdio_async()
        else:
            await web.serve(server, port, settings.token)


def main() -> None:
    """Serve; what is wrong is said on standard error, since standard output belongs to the protocol."""
    parser = argparse.ArgumentParser(
        prog="deskyard-mcp",
        description="Serves a Deskyard desktop to agents by the Model Context Protocol. DESKYARD_LINK or"
        " DESKYARD_LINK_FILE has the link of `access.grant --mode agent`, DESKYARD_CA the file of the gateway's CA.",
    )
    text = "serve streamable HTTP on this port of loopback (0: a free one); DESKYARD_MCP_TOKEN(_FILE) is its token"
    parser.add_argument("--http", type=int, metavar="PORT", help=text)
    options = parser.parse_args()
    try:
        asyncio.run(serve(from_process(options.http is not None), options.http))
    except DesktopError as error:
        print(f"deskyard-mcp: {error}", file=sys.stderr)
        sys.exit(1)
    except KeyboardInterrupt:
        sys.exit(130)


if __name__ == "__main__":
    main()
