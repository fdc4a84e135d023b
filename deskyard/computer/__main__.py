"""`python3 -m deskyard.computer` serves the desktop that DISPLAY names."""

import argparse

import uvicorn

from deskyard.computer.application import create
from deskyard.computer.peers import Peers
from deskyard.wire.routes import COMPUTER


def main() -> None:
    """Serve until ended."""
    parser = argparse.ArgumentParser(prog="deskyard-computer", description="Eyes and hands of agents on a desktop.")
    parser.add_argument("--address", default="0.0.0.0", help="where to listen (default: %(default)s)")
    parser.add_argument("--port", type=int, default=COMPUTER.port, help="default: %(default)s")
    options = parser.parse_args()
    uvicorn.run(
        Peers(create([])),
        host=options.address,
        port=options.port,
        log_level="warning",
        access_log=False,
        server_header=False,
        proxy_headers=False,
        timeout_graceful_shutdown=2,
        http="h11",
        loop="asyncio",
        ws="websockets",
    )


main()
