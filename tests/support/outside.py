"""The outside of a site's machines: names that its resolver answers, and a web server that they lead to."""

import contextlib
import subprocess
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import libvirt
from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding

from deskyard.plan.workspace import WorkspacePlan
from deskyard.site.libvirt import daemon
from tests.support.self_signed import self_signed

BODY = "the outside"
SERVER = """
import http.server, ssl, sys, threading
address, chain, key, body = sys.argv[1:]
class Page(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        text = f"{body} {self.headers['Host']}".encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)
    def log_message(self, *_):
        pass
secure = http.server.ThreadingHTTPServer((address, 443), Page)
context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
context.load_cert_chain(chain, key)
secure.socket = context.wrap_socket(secure.socket, server_side=True)
plain = http.server.ThreadingHTTPServer((address, 80), Page)
threading.Thread(target=plain.serve_forever, daemon=True).start()
print("listening", flush=True)
secure.serve_forever()
"""


class Outside:
    """For the length of a `with` block: `names` (name -> address) resolve for a workspace's gateway, `web` serves.

    `web` is an address of the hypervisor's network; what listens there answers HTTP and HTTPS for every name.
    """

    def __init__(self, plan: WorkspacePlan, names: Mapping[str, str], web: str, folder: Path) -> None:
        self.plan, self.names, self.web, self.folder = plan, names, web, folder

    @property
    def certificate(self) -> Path:
        """What a client has to trust."""
        return self.folder / "outside.pem"

    def __enter__(self) -> Self:
        """Answer and serve."""
        key = self.folder / "outside.key"
        secret, certificate = self_signed("outside", [x509.DNSName(name) for name in self.names])
        key.write_bytes(secret)
        self.certificate.write_bytes(certificate.public_bytes(Encoding.PEM))
        server = [*daemon.inside(), "python3", "-c", SERVER, self.web, str(self.certificate), str(key), BODY]
        self._server = subprocess.Popen(server, stdout=subprocess.PIPE, text=True)
        try:
            assert self._server.stdout is not None
            assert self._server.stdout.readline() == "listening\n"
            self._resolve(answer=True)
        except BaseException:
            self._end()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Leave nothing behind."""
        try:
            self._resolve(answer=False)
        finally:
            self._end()

    def _end(self) -> None:
        self._server.terminate()
        self._server.wait(10)

    def _resolve(self, *, answer: bool) -> None:
        """The resolver of a gateway is that of its uplink's network; only the running one is changed."""
        with daemon.connection() as link:
            network = link.networkLookupByName(self.plan.uplink.name)
            for address in sorted(set(self.names.values())):
                # What an interrupted run left would be in the way.
                with contextlib.suppress(libvirt.libvirtError):
                    _change(network, libvirt.VIR_NETWORK_UPDATE_COMMAND_DELETE, f"<host ip='{address}'/>")
                if answer:
                    hosts = "".join(f"<hostname>{name}</hostname>" for name, at in self.names.items() if at == address)
                    host = f"<host ip='{address}'>{hosts}</host>"
                    _change(network, libvirt.VIR_NETWORK_UPDATE_COMMAND_ADD_LAST, host)


def _change(network: Any, command: int, host: str) -> None:
    section, live = libvirt.VIR_NETWORK_SECTION_DNS_HOST, libvirt.VIR_NETWORK_UPDATE_AFFECT_LIVE
    network.update(command, section, -1, host, live)
