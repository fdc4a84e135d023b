"""E2B's unmodified client is answered by a process of Mission Control, behind its proxy with the site's certificate."""

import os
import signal
import socket
import ssl
import subprocess
import sys
from collections.abc import Iterator
from http.client import HTTPSConnection
from pathlib import Path

import pytest
from cryptography import x509

from deskyard.control import control
from deskyard.control.e2b.declared import Declared
from deskyard.control.ground.confinement import LATE
from deskyard.control.ground.folder import ids
from deskyard.errors import ConfigError
from deskyard.host.background import start_time
from deskyard.host.deadline import Deadline
from tests.control.lab import ACCOUNTS, WAIT_SECONDS
from tests.control.site import Site, running
from tests.support.connect_proxy import ConnectProxy
from tests.support.ports import free_ports
from tests.support.requirements import need_root

pytestmark = pytest.mark.sampled

DOMAIN = "e2b.localhost"
API, ENVD = f"api.{DOMAIN}", f"49983-lab--nobody.{DOMAIN}"
USE = """
from e2b import Sandbox
try:
    print(Sandbox.list().next_items())
    Sandbox.create("elsewhere")
except Exception as error:
    print(type(error).__name__, error, getattr(error, "__cause__", ""))
"""


@pytest.fixture(scope="module")
def site() -> Iterator[Site]:
    """A Mission Control that answers E2B's clients."""
    need_root("gives processes accounts of their own")

    def declare(site: Site) -> None:
        # Before it comes up, which it does once for that.
        site.control.folder.root.mkdir()
        Declared(DOMAIN, free_ports(1)[0], "lab").save(site.control.folder.e2b_declared)

    with running(lambda pages: (pages / "index.html").write_text("<title>pages</title>"), declare) as found:
        yield found


@pytest.fixture
def port(site: Site) -> int:
    return int(str(site.control.status()["e2b_domain"]).rpartition(":")[2])


@pytest.fixture
def key(site: Site) -> str:
    return str(site.control.key("test", ["read", "desktops:write"], None, 1)["key"])


def used(site: Site, port: int, key: str, *, trusts: bool = True) -> list[str]:
    """What E2B's own client comes to by its variables alone, where a proxy leads every name here."""
    proxy = ConnectProxy(port)
    with proxy.running():
        left = ("SSL_CERT_FILE", "SSL_CERT_DIR", "NO_PROXY", "no_proxy", "https_proxy")
        own = {name: value for name, value in os.environ.items() if name not in left and not name.startswith("E2B_")}
        trust = {"SSL_CERT_FILE": str(site.authority)} if trusts else {}
        named = {"HTTPS_PROXY": proxy.url, "E2B_DOMAIN": f"{DOMAIN}:{port}", "E2B_API_KEY": key}
        done = subprocess.run(
            [sys.executable, "-c", USE],
            env={**own, **trust, **named},
            capture_output=True,
            text=True,
            timeout=120,
            check=True,
        )
    assert proxy.asked == {API}
    return done.stdout.splitlines()


def connected(site: Site, port: int, host: str = API) -> HTTPSConnection:
    """A connection to the proxy, whose certificate has to be the authority's and name the host."""
    trust = ssl.create_default_context(cafile=str(site.authority))
    found = HTTPSConnection(host, port, timeout=WAIT_SECONDS)
    found.sock = trust.wrap_socket(socket.create_connection(("127.0.0.1", port), WAIT_SECONDS), server_hostname=host)
    return found


def answer(site: Site, port: int, path: str, host: str = API, **headers: str) -> tuple[int, str]:
    """Status and text of an answer."""
    link = connected(site, port)
    named = {name.replace("_", "-"): each for name, each in headers.items()}
    link.request("GET", path, headers={"Host": host, **named})
    found = link.getresponse()
    return found.status, found.read().decode()


def test_it_is_a_process_of_mission_control_with_an_account_and_no_file_or_right(site: Site) -> None:
    state = site.control.status()
    assert state["ready"] and state["processes"]["e2b"]
    number = site.processes()["e2b"]
    lines = Path(f"/proc/{number}/status").read_text().splitlines()
    fields = dict(line.split(":\t", 1) for line in lines if ":\t" in line)
    assert fields["Uid"].split()[0] == str(ids(ACCOUNTS.e2b)[0])
    assert (fields["CapEff"], fields["NoNewPrivs"], fields["Groups"].strip()) == ("0" * 16, "1", "")
    assert b"DESKYARD" not in Path(f"/proc/{number}/environ").read_bytes()
    folder = site.control.folder
    kept = (folder.e2b / "sandboxes.sqlite").stat()
    assert (kept.st_uid, kept.st_mode & 0o777) == (ids(ACCOUNTS.e2b)[0], 0o600)
    # What root writes is not where the account could put another file's name in its place.
    written = (folder.e2b_authority.stat().st_uid, folder.e2b_authority.parent.stat().st_uid)
    assert written == (0, 0) and folder.e2b not in folder.e2b_authority.parents
    assert (folder.inner_socket.stat().st_uid, folder.inner_socket.stat().st_mode & 0o777) == (kept.st_uid, 0o600)


def test_the_unmodified_client_is_answered_by_the_domain_with_the_site_s_authority(
    site: Site, port: int, key: str
) -> None:
    listed, refused = used(site, port, key)
    assert listed == "[]"
    assert refused.startswith("SandboxException 404") and "workspaces: none that this key sees" in refused
    assert used(site, port, "dyk_nobody")[0].startswith("AuthenticationException")
    untrusted = used(site, port, key, trusts=False)[0]
    assert untrusted.startswith("ConnectError") and "certificate" in untrusted
    log = (site.control.folder.logs / "e2b.log").read_text()
    # Below a folder that is closed to its account it would fail there.
    assert LATE not in log and key not in log
    assert not any(key in Path(f"/proc/{number}/cmdline").read_text() for number in site.processes().values())


def test_the_certificate_is_for_its_names_alone(site: Site, port: int) -> None:
    wire = connected(site, port).sock
    assert isinstance(wire, ssl.SSLSocket)
    leaf = x509.load_der_x509_certificate(wire.getpeercert(binary_form=True) or b"")
    names = leaf.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert names.get_values_for_type(x509.DNSName) == [API, f"*.{DOMAIN}"]
    with pytest.raises(ssl.SSLCertVerificationError):
        connected(site, port, "mission.localhost")


def test_the_proxy_leads_its_names_there_and_no_others(site: Site, port: int) -> None:
    assert answer(site, port, "/health")[0] == 204
    assert answer(site, port, "/sandboxes")[0] == 401
    for host in ("other.localhost", DOMAIN, f"mission.localhost:{site.port}", f"api.x{DOMAIN}"):
        assert answer(site, port, "/health", host)[0] == 421, host
    assert site.get("/health", host=API)[0].status == 421, "nor does Mission Control's port"
    status, said = answer(site, port, "/health", f"{ENVD}:{port}", X_Access_Token="dye_x")
    assert (status, "was not found" in said) == (502, True)


def test_what_is_sent_in_pieces_is_passed_on_before_its_end(site: Site, port: int) -> None:
    link = connected(site, port, ENVD)
    link.putrequest("POST", "/process.Process/StreamInput")
    link.putheader("Content-Length", "100")
    link.endheaders()
    # Nothing of it was sent yet: who waited for it would say so (408) in ten seconds.
    assert link.getresponse().status == 502


def test_it_begins_again_whenever_it_ends(site: Site, port: int) -> None:
    before = site.processes()["e2b"]
    os.kill(before, signal.SIGKILL)

    def is_new() -> bool:
        return site.processes().get("e2b") not in (None, before) and site.control.status()["processes"]["e2b"]

    assert Deadline(2 * WAIT_SECONDS).wait_for(is_new, 0.1)
    assert answer(site, port, "/health")[0] == 204


def test_where_it_refuses_to_serve_all_else_comes_up_and_says_why(
    site: Site, port: int, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    file, why = site.control.folder.e2b / "sandboxes.sqlite", "cannot be used (file is not a database)"
    site.control.down()
    kept = file.read_bytes()
    # As a loss of power may leave it.
    file.write_bytes(b"\xff" * len(kept))
    with monkeypatch.context() as patch:
        patch.setattr(control, "DOOR_SECONDS", 5.0)
        state = site.control.up(port=site.port)
    assert (state["running"], state["ready"], state["processes"]["e2b"]) == (True, True, False)
    assert why in state["e2b_fault"] and str(site.control.folder.logs / "e2b.log") in state["e2b_fault"]
    assert why in "".join(capfd.readouterr())
    assert site.get("/healthz")[0].status == 200
    file.write_bytes(kept)
    # It begins again and again, and finds that by itself.
    assert Deadline(2 * WAIT_SECONDS).wait_for(lambda: site.control.status()["processes"]["e2b"], 0.1)
    assert site.control.status()["e2b_fault"] is None and answer(site, port, "/health")[0] == 204


def test_what_cannot_be_is_refused_before_anything_is_touched(site: Site, port: int) -> None:
    numbers, declared = site.processes(), site.control.folder.e2b_declared.read_text()
    for wrong, said in (
        (Declared("e2b.example.com", port), "is no name below the site's domain localhost"),
        (Declared("localhost", port), "is no name below"),
        (Declared("a..localhost", port), "is no name below"),
        (Declared(DOMAIN, site.port), "that of Mission Control"),
        (Declared(DOMAIN, 0), "is none"),
        (Declared(DOMAIN, port, at_timeout="sleep"), "give stop, destroy, nothing"),
        (Declared(DOMAIN, port, task_seconds=10**7), "is not in range"),
    ):
        with pytest.raises(ConfigError) as refused:
            site.control.declare_e2b(wrong)
        assert said in str(refused.value)
    with socket.create_server(("127.0.0.1", 0)) as other, pytest.raises(ConfigError, match="cannot be listened on"):
        site.control.declare_e2b(Declared(DOMAIN, other.getsockname()[1]))
    assert (site.processes(), site.control.folder.e2b_declared.read_text()) == (numbers, declared)


def test_it_is_withdrawn_and_declared_while_all_runs_and_goes_down_with_it(site: Site, port: int) -> None:
    before = site.processes()["e2b"]
    assert site.control.withdraw_e2b() and not site.control.withdraw_e2b()
    state = site.control.status()
    assert state["ready"] and state["e2b_domain"] is None and "e2b" not in state["processes"]
    assert start_time(before) is None
    with pytest.raises(ConnectionRefusedError):
        connected(site, port)
    shown = site.control.declare_e2b(Declared(DOMAIN, port, tier="pro"))
    assert (shown["e2b_domain"], shown["tier"]) == (f"{DOMAIN}:{port}", "pro")
    number = site.processes()["e2b"]
    assert "--tier=pro" in Path(f"/proc/{number}/cmdline").read_text()
    assert answer(site, port, "/health")[0] == 204
    noted = site.get("/api/audit", Authorization=f"Bearer {site.control.key('audit', ['admin'], None, 1)['key']}")[1]
    assert b'"e2b.withdraw"' in noted and b'"e2b.declare"' in noted
    site.control.down()
    assert start_time(number) is None
