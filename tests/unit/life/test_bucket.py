"""What restic is told of a bucket, and why one cannot be reached: what can be said without an S3 server.

The signatures are those of Amazon's own examples ("Signature Calculations for the Authorization Header", AWS S3 API
reference). The server here repeats answers; `test_s3.py` has a real one.
"""

import json
import socket
import ssl
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
import yaml

from deskyard.errors import ConfigError
from deskyard.life.backup.bucket import Bucket
from deskyard.life.backup.repository import Repository, repository_of
from deskyard.life.backup.signature import Keys, Request
from deskyard.model.site import ObjectStore, Site
from tests.support.pve.certificate import Certificates, issue

# In parts: it looks like one that somebody lost.
EXAMPLE = Keys("".join(("AKIA", "IOSFODNN7EXAMPLE")), "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY")
NAME, SECRET = "AKNAME", "hunter2/secret"
# In restic's place: what it was given.
RECORDING = """#!/bin/sh
printf '%s\\n' "$@" >'{folder}/argv'
env -0 >'{folder}/env'
echo '[]'
"""


@pytest.mark.parametrize(
    ("query", "signature"),
    [
        ({"lifecycle": ""}, "fea454ca298b7da1c68078a5d1bdbfbbe0d65c699e0f91ac7a200a0136783543"),
        ({"max-keys": "2", "prefix": "J"}, "34b48302e7b5fa45bde8084f4b7868a86f0a534bc59db6670ed5711ef69dc6f7"),
    ],
)
def test_requests_are_signed_as_amazons_examples_are(query: dict[str, str], signature: str) -> None:
    request = Request("GET", "examplebucket.s3.amazonaws.com", "/", query)
    headers = request.headers(EXAMPLE, "us-east-1", "20130524T000000Z")
    assert headers["Authorization"].rpartition("Signature=")[2] == signature
    assert "wJalr" not in f"{headers}{EXAMPLE}"


def test_a_session_is_signed_too() -> None:
    plain, session = (
        Request("GET", "host", "/").headers(keys, "us-east-1", "20130524T000000Z")
        for keys in (Keys("name", "secret"), Keys("name", "secret", "token"))
    )
    assert session["x-amz-security-token"] == "token"
    assert "x-amz-security-token" in session["Authorization"] and plain["Authorization"] != session["Authorization"]


@pytest.mark.parametrize(
    ("address", "store", "url", "name", "prefix", "in_path"),
    [
        ("s3:https://host:9000/desks/lab", {}, "https://host:9000", "desks", "lab/", True),
        ("s3:host/desks/far/away/lab", {}, "https://host", "desks", "far/away/lab/", True),
        ("s3:http://127.0.0.1:9000/desks/lab", {}, "http://127.0.0.1:9000", "desks", "lab/", True),
        ("s3:https://host/desks/lab", {"path_style": False}, "https://host", "desks", "lab/", False),
        ("s3:s3.eu-west-1.amazonaws.com/desks/lab", {}, "https://s3.eu-west-1.amazonaws.com", "desks", "lab/", False),
        ("s3:s3.amazonaws.com/desks.example/lab", {}, "https://s3.amazonaws.com", "desks.example", "lab/", True),
        ("s3:https://notamazonaws.com/desks/lab", {}, "https://notamazonaws.com", "desks", "lab/", True),
    ],
)
def test_an_address_says_server_bucket_and_prefix(
    address: str, store: dict[str, Any], url: str, name: str, prefix: str, in_path: bool
) -> None:
    found = Bucket(address, ObjectStore.model_validate(store))
    assert (found.url, found.name, found.prefix, found.in_path) == (url, name, prefix, in_path)


@pytest.mark.parametrize(
    ("values", "why"),
    [
        ({"backups": "/srv", "backups_s3": {"region": "eu-1"}}, "backups names none"),
        ({"backups_s3": {"region": "eu-1"}}, "backups names none"),
        ({"backups": "s3:http://host/desks", "backups_s3": {"ca": "ca.pem"}}, "leave ca out"),
        ({"backups": "s3:https://host/desks", "backups_s3": {"region": "eu 1"}}, "backups_s3.region"),
        ({"backups": "s3:https://host/desks", "backups_s3": {"secret_key": SECRET}}, "is not a known key"),
        ({"backups": "s3:https://host/"}, "backups = "),
        ({"backups": "s3:https://host/-/lab"}, "backups = "),
    ],
)
def test_settings_that_cannot_be_are_refused(values: dict[str, Any], why: str) -> None:
    with pytest.raises(ConfigError, match=why) as caught:
        Site.check({"name": "local", **values}, "local.yaml")
    assert SECRET not in str(caught.value)


class Place:
    """A server of canned answers by TLS, a site whose backups go there, and a restic that only notes its call."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch, certificates: Certificates) -> None:
        self.folder, self._monkeypatch, self.certificates = folder, monkeypatch, certificates
        self.asked: list[tuple[str, str, dict[str, str]]] = []
        self.answers: dict[str, tuple[int, str]] = {}
        self.port = 0
        self._site = folder / "stacks/sites/local.yaml"
        self._site.parent.mkdir(parents=True)
        program = folder / "restic"
        program.write_text(RECORDING.format(folder=folder))
        program.chmod(0o755)
        monkeypatch.setattr("deskyard.life.backup.repository.locate", lambda _: program)

    def named(self, host: str = "127.0.0.1", scheme: str = "https", **settings: Any) -> None:
        """Write the site's file."""
        store = {"ca": str(self.certificates.authority), **settings}
        store = {name: value for name, value in store.items() if value is not None}
        address = f"s3:{scheme}://{host}:{self.port}/desks/kept"
        self._site.write_text(yaml.safe_dump({"backups": address, "backups_s3": store}))

    @property
    def repository(self) -> Repository:
        """As the site's file names it."""
        return repository_of("local", "lab")

    @property
    def given(self) -> tuple[list[str], dict[str, str]]:
        """The command line and the environment of restic."""
        pairs = (line.partition("=") for line in (self.folder / "env").read_text().split("\0"))
        return (self.folder / "argv").read_text().splitlines(), {name: value for name, _, value in pairs}

    def answer(self, request: BaseHTTPRequestHandler) -> None:
        """Answer as was said, or that all is well."""
        self.asked.append((request.command, request.path, dict(request.headers.items())))
        status, text = self.answers.get(request.command, (200, "<ListBucketResult/>"))
        request.send_response(status)
        request.send_header("Content-Length", str(len(text)))
        request.end_headers()
        request.wfile.write(text.encode())

    def refuses(self, reason: str) -> ConfigError:
        """The error of a repository that cannot be reached: nothing was made, nothing started, no key is shown."""
        with pytest.raises(ConfigError, match=reason) as caught:
            self.repository.prepare()
        assert not self.repository.key.exists()
        assert not (self.folder / "argv").exists()
        assert SECRET not in json.dumps(caught.value.as_dict())
        return caught.value


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    """The server's, of an authority that nobody else knows."""
    return issue(tmp_path_factory.mktemp("certificates"))


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, certificates: Certificates) -> Iterator[Place]:
    """A bucket that is there, with its keys in the environment."""
    monkeypatch.setenv("DESKYARD_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("DESKYARD_STACKS", str(tmp_path / "stacks"))
    for variable in ("AWS_DEFAULT_REGION", "AWS_SESSION_TOKEN", "HTTPS_PROXY", "https_proxy"):
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", NAME)
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", SECRET)
    place = Place(tmp_path, monkeypatch, certificates)

    class Answering(BaseHTTPRequestHandler):
        def log_message(self, *_: Any) -> None:
            pass

        def do_GET(self) -> None:
            place.answer(self)

        do_PUT = do_DELETE = do_GET

    with ThreadingHTTPServer(("127.0.0.1", 0), Answering) as server:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(certificates.certificate, certificates.key)
        server.socket = context.wrap_socket(server.socket, server_side=True, do_handshake_on_connect=False)
        place.port = server.server_address[1]
        place.named()
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        try:
            yield place
        finally:
            server.shutdown()
            thread.join(30)


def test_restic_gets_the_keys_by_its_environment_and_never_by_its_command_line(place: Place) -> None:
    place.named(region="eu-1", path_style=True)
    place.repository.prepare()
    argv, env = place.given
    assert (env["AWS_ACCESS_KEY_ID"], env["AWS_SECRET_ACCESS_KEY"]) == (NAME, SECRET)
    assert SECRET not in " ".join(argv) and NAME not in " ".join(argv)
    for option in ("s3.bucket-lookup=path", "s3.region=eu-1"):
        assert argv[argv.index(option) - 1] == "-o"
    assert argv[argv.index("--cacert") + 1] == str(place.certificates.authority)
    assert argv[argv.index("--repo") + 1] == f"s3:https://127.0.0.1:{place.port}/desks/kept/lab"
    # Listed, written to, and nothing is left of that.
    paths = [(method, path.partition("?")[0]) for method, path, _ in place.asked]
    probe = "/desks/kept/lab/deskyard-reach"
    assert paths == [("GET", "/desks"), ("PUT", probe), ("DELETE", probe)]
    assert all("/eu-1/s3/aws4_request" in headers["Authorization"] for _, _, headers in place.asked)
    assert SECRET not in str(place.asked)


def test_restic_gets_the_keys_of_a_file_and_no_others(place: Place, tmp_path: Path) -> None:
    file = tmp_path / "keys"
    file.write_text("[default]\naws_access_key_id = FILED\naws_secret_access_key = filed/hunter2\n")
    file.chmod(0o600)
    place.named(credentials_file=str(file))
    place.repository.prepare()
    argv, env = place.given
    assert env["AWS_SHARED_CREDENTIALS_FILE"] == str(file)
    assert (env["AWS_ACCESS_KEY_ID"], env["AWS_SECRET_ACCESS_KEY"], env["AWS_PROFILE"]) == ("", "", "default")
    assert "hunter2" not in f"{argv}{env}"
    assert all("Credential=FILED/" in headers["Authorization"] for _, _, headers in place.asked)


def test_listing_asks_for_the_bucket_and_writes_nothing(place: Place) -> None:
    place.repository.key.parent.mkdir(parents=True)
    place.repository.key.write_text("key")
    assert place.repository.snapshots() == []
    assert [method for method, _, _ in place.asked] == ["GET"]


def test_keys_that_are_not_there_or_lie_open_are_refused(
    place: Place, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "keys"
    file.write_text(f"[default]\naws_access_key_id = {NAME}\n{SECRET}\n")
    file.chmod(0o644)
    place.named(credentials_file=str(file))
    assert "chmod 600" in place.refuses("others can read it").remedy
    file.chmod(0o600)
    assert "[default]" in place.refuses("holds no keys").remedy
    place.named(credentials_file=str(tmp_path / "none"))
    place.refuses("No such file")
    place.named()
    monkeypatch.delenv("AWS_SECRET_ACCESS_KEY")
    assert "credentials_file" in place.refuses("AWS_SECRET_ACCESS_KEY is not set").remedy
    assert place.asked == []


def error(code: str, more: str = "") -> str:
    """The document of an error."""
    return f"<?xml version='1.0'?><Error><Code>{code}</Code><Message>no</Message>{more}</Error>"


@pytest.mark.parametrize(
    ("method", "status", "text", "reason", "remedy"),
    [
        ("GET", 403, error("InvalidAccessKeyId"), "does not know the access key", "AWS_ACCESS_KEY_ID"),
        ("GET", 403, error("SignatureDoesNotMatch"), "the secret is not that of", "AWS_SECRET_ACCESS_KEY"),
        ("GET", 404, error("NoSuchBucket"), "no such bucket", "make it there"),
        ("GET", 403, error("RequestTimeTooSkewed"), "the clock of this machine", "set the clock"),
        ("GET", 400, error("ExpiredToken"), "have expired", "AWS_SESSION_TOKEN"),
        ("GET", 403, error("AccessDenied"), "the keys may not list it", "let them list it"),
        ("PUT", 403, error("AccessDenied"), "the keys may not write", "let them write"),
        ("PUT", 403, error("AllAccessDisabled"), r"may not write \(AllAccessDisabled\)", "let them write"),
        ("GET", 301, error("PermanentRedirect"), "in another region", "region: REGION"),
        ("GET", 404, "<html>hunter</html>", "as no S3 server does: HTTP 404", "host and port"),
        ("GET", 503, error("SlowDown"), "refuses: SlowDown: no", "mend"),
    ],
)
def test_each_refusal_has_its_remedy(
    place: Place, method: str, status: int, text: str, reason: str, remedy: str
) -> None:
    place.answers[method] = (status, text)
    found = place.refuses(reason)
    assert remedy in found.remedy
    assert (found.field, found.value) == ("backups", place.repository.location)


def test_the_region_that_a_server_names_is_tried_unless_the_site_names_one(place: Place) -> None:
    place.answers["GET"] = (400, error("AuthorizationHeaderMalformed", "<Region>eu-9</Region>"))
    assert "region: eu-9" in place.refuses("another region, eu-9").remedy
    scopes = [headers["Authorization"].split("/")[2] for _, _, headers in place.asked]
    assert scopes == ["us-east-1", "eu-9"]
    place.asked.clear()
    place.named(region="eu-1")
    place.refuses("another region, eu-9")
    assert len(place.asked) == 1


def greet(server: socket.socket) -> None:
    """Answer one caller as a server without TLS does."""
    connection, _ = server.accept()
    with connection:
        connection.recv(1024)
        connection.sendall(b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n")


def test_a_server_that_cannot_be_reached_is_told_from_one_that_is_not_trusted(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    place.named(ca=None)
    assert "ca: FILE" in place.refuses("the certificate of its server is not trusted").remedy
    place.named(ca=str(place.folder / "none.pem"))
    assert "PEM" in place.refuses("holds no certificate that can be read").remedy
    assert place.asked == []
    with socket.create_server(("127.0.0.1", 0)) as other:
        # Nobody listens there once it is closed.
        place.port = other.getsockname()[1]
    place.named()
    assert "firewall" in place.refuses("its server cannot be reached").remedy
    with socket.create_server(("127.0.0.1", 0)) as plain:
        place.port = plain.getsockname()[1]
        place.named()
        thread = threading.Thread(target=greet, args=(plain,), daemon=True)
        thread.start()
        assert "s3:http://" in place.refuses("its server speaks no TLS").remedy
        thread.join(30)
    known = socket.getaddrinfo

    def unknown(host: Any, *rest: Any, **named: Any) -> Any:
        if host == "nowhere.invalid":
            raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")
        return known(host, *rest, **named)

    monkeypatch.setattr(socket, "getaddrinfo", unknown)
    place.named("nowhere.invalid")
    assert "correct backups" in place.refuses("the name of its server is not known: nowhere.invalid").remedy
