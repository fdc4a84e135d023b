"""`python3 -m deskyard.computer` serves the desktop that DISPLAY names."""

import argparse
import os

import uvicorn

from deskyard.computer.accessibility.part import Accessibility
from deskyard.computer.application import Part, create
from deskyard.computer.devtools.part import Devtools
from deskyard.computer.display.acting.batch import Stderr
from deskyard.computer.display.part import Display
from deskyard.computer.envd.part import Envd
from deskyard.computer.launch.part import Launch
from deskyard.computer.peers import Peers
from deskyard.computer.privacy import Privacy
from deskyard.computer.recording.part import Recordings
from deskyard.computer.streaming.part import Streaming
from deskyard.computer.work.part import Work
from deskyard.wire.routes import COMPUTER


def parts() -> tuple[list[Part], Privacy]:
    """The parts of this desktop's service: screen, streams, recordings, accessibility, DevTools, files, processes.

    And the privacy that hides the screen.
    """
    name = os.environ.get("DISPLAY", "")
    work = Work()
    streaming = Streaming(name)
    recordings = Recordings(streaming)
    display = Display(name, sink=recordings.noting(Stderr()))
    work.tells(display.log)
    recordings.hears(display.log, display.privacy)
    accessibility = Accessibility(display, os.environ.get("DBUS_SESSION_BUS_ADDRESS", ""))
    launch, devtools = Launch(display), Devtools(display)
    # Each ends before what it stands on.
    found: list[Part] = [display, accessibility, launch, devtools, streaming, recordings, work, Envd(work)]
    return found, display.privacy


def main() -> None:
    """Serve until ended."""
    parser = argparse.ArgumentParser(prog="deskyard-computer", description="Eyes and hands of agents on a desktop.")
    parser.add_argument("--address", default="0.0.0.0", help="where to listen (default: %(default)s)")
    parser.add_argument("--port", type=int, default=COMPUTER.port, help="default: %(default)s")
    options = parser.parse_args()
    uvicorn.run(
        Peers(create(*parts())),
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
        # Streams are packed already, and all else is small.
        ws_per_message_deflate=False,
    )


main()
