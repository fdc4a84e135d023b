"""python -m deskyard.control.link.way: says which gateways there are, and opens port 22 of those that run.

It is root, since it reads declarations, asks hypervisors and enters their network; so it hears nothing that a gateway
says. Whoever asks gets a connection, the host key that is pinned, and the link key.
"""

import argparse
import contextlib
import json
import logging
import socket
import socketserver
from collections.abc import Callable
from typing import Any

from deskyard.control.approvals.asking import asks
from deskyard.control.link.ending import end_at_sigterm
from deskyard.declaration import declaration
from deskyard.engine import running
from deskyard.errors import DeskyardError, SiteError
from deskyard.site import link_key
from deskyard.site.libvirt import net_namespace
from deskyard.site.ssh_link import GATEWAY, SshLink

SSH_PORT = 22
REACH_SECONDS = 30.0
MOST_BYTES = 1 << 20
Opened = tuple[dict[str, Any], socket.socket]


def open_way(name: str) -> Opened:
    """A connection to a gateway's port 22, and what it is known by; raises `DeskyardError` if it does not run."""
    if name not in declaration.stack_names():
        raise SiteError("workspace", name, "is not declared", "see ./inv workspace.list")
    site = declaration.site_of(name)
    running.require_gateway(site, name)
    link = SshLink(site.name, name)
    facts = {"host_key": link.host_key(GATEWAY), "key": link_key.private_key_file(site.name).read_text()}
    return facts, _connected(link)


def _connected(link: SshLink) -> socket.socket:
    place = (link.gateway_address(), SSH_PORT)
    try:
        if link.through_namespace():
            return net_namespace.connect(place, REACH_SECONDS)
        return socket.create_connection(place, REACH_SECONDS)
    except OSError as error:
        reason = f"its port 22 is not reached: {error}"
        raise SiteError("gateway", link.workspace, reason, f"see ./inv workspace.status {link.workspace}") from error


class Handler(socketserver.StreamRequestHandler):
    """Answers one question: a line of JSON, with the open connection beside it where one was asked for."""

    timeout = REACH_SECONDS
    names: Callable[[], list[str]] = staticmethod(declaration.stack_names)
    asks: Callable[[str], bool] = staticmethod(asks)
    open_way: Callable[[str], Opened] = staticmethod(open_way)

    def handle(self) -> None:
        """Answer; who asks otherwise is not answered."""
        way: socket.socket | None = None
        try:
            match json.loads(self.rfile.readline(MOST_BYTES)):
                case {"open": str(name)}:
                    answer, way = self.open_way(name)
                case {"gateways": True}:
                    answer = {"gateways": self.names()}
                case {"asks": str(name)}:
                    answer = {"asks": self.asks(name)}
                case _:
                    return
        except DeskyardError as error:
            answer = {"error": error.as_dict()}
        except (ValueError, TimeoutError):
            return
        with contextlib.suppress(OSError):
            text = json.dumps(answer).encode() + b"\n"
            # The connection is with the first of it.
            sent = socket.send_fds(self.connection, [text], [way.fileno()] if way is not None else [])
            self.connection.sendall(text[sent:])
        if way is not None:
            way.close()


class Server(socketserver.ThreadingUnixStreamServer):
    """Answers each in a thread of its own, on a socket that it was handed."""

    daemon_threads = True

    def __init__(self, listener: socket.socket, handler: type[Handler] = Handler) -> None:
        super().__init__("", handler, bind_and_activate=False)
        self.socket.close()
        self.socket = listener


def main() -> None:
    """Answer until SIGTERM."""
    options = argparse.ArgumentParser(prog="deskyard.control.link.way")
    options.add_argument("--socket", type=int, required=True, help="number of the open socket")
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(message)s")
    # Nothing is half done.
    end_at_sigterm()
    Server(socket.socket(fileno=options.parse_args().socket)).serve_forever()


if __name__ == "__main__":
    main()
