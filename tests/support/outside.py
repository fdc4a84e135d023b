"""The outside of a site's machines: names that its resolver answers, and a web server that they lead to."""

import contextlib
import subprocess
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import libvirt
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from deskyard.plan.workspace import WorkspacePlan
from deskyard.site.libvirt import daemon

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


def certify(names: Iterable[str], key_file: Path, certificate_file: Path) -> None:
    """Write a key and a certificate of its own for these names.

    It is valid since an hour ago: the clock of a desktop that has just gone on may be two seconds behind.
    """
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "outside")])
    now = datetime.now(UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(hours=1))
        .not_valid_after(now + timedelta(days=2))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName(each) for each in names]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    pem, pkcs8, plain = serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    key_file.write_bytes(key.private_bytes(pem, pkcs8, plain))
    certificate_file.write_bytes(certificate.public_bytes(pem))


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
        certify(self.names, key, self.certificate)
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
