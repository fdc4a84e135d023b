"""The client: trust, token, retries, errors."""

import socket
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from deskyard.errors import ConfigError, SiteError
from deskyard.site.proxmox import client as api
from deskyard.site.proxmox import retry
from deskyard.site.proxmox.client import Answer, ApiError, Client, Pace
from deskyard.site.proxmox.task import node_of, wait_task
from deskyard.site.proxmox.token import VARIABLE, read_token
from tests.unit.site.stub import SECRET, TOKEN, Reply, Stub, serving, site_values

UPID = "UPID:pve1:000A:0B:6552:qmcreate:100:deskyard@pve!site:"
OK = Reply(data={"version": "9.0.3"})


@pytest.fixture(autouse=True)
def _token(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, TOKEN)


@pytest.fixture
def stub(tmp_path: Path) -> Iterator[Stub]:
    with serving(tmp_path, OK) as running:
        yield running


def client_of(stub: Stub, *, attempts: int = 4, slept: list[float] | None = None, **cluster: Any) -> Client:
    client = api.connect(stub.site(**cluster))
    client.pace = Pace(connect=60, read=60, upload=60, attempts=attempts)
    client.sleep = (slept if slept is not None else []).append
    return client


# Trust


def test_certificate_of_the_named_authority_is_trusted(stub: Stub) -> None:
    assert client_of(stub).get("version") == {"version": "9.0.3"}


def test_certificate_of_this_fingerprint_is_trusted_without_an_authority_or_a_warning(stub: Stub) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert client_of(stub, fingerprint=stub.fingerprint).get("version") == {"version": "9.0.3"}


@pytest.mark.parametrize("trust", ["system", "fingerprint"])
def test_other_certificate_is_refused_before_the_token_is_sent(stub: Stub, trust: str) -> None:
    values: dict[str, Any] = {"fingerprint": ":".join(["AB"] * 32)} if trust == "fingerprint" else {"ca": None}
    slept: list[float] = []
    with pytest.raises(SiteError, match="certificate is not trusted") as error:
        client_of(stub, slept=slept, **values).get("version")
    assert "pve-root-ca.pem" in error.value.remedy
    assert stub.calls == [] and slept == []


def test_certificate_of_another_name_is_refused(stub: Stub) -> None:
    values = site_values(f"https://localhost:{stub.port}", ca=str(stub.certificate))
    client = api.connect(stub.site().check(values, "site.yaml"))
    with pytest.raises(SiteError, match="certificate is not trusted"):
        client.get("version")
    assert stub.calls == []


def test_missing_file_of_the_authority_is_named(stub: Stub) -> None:
    with pytest.raises(ConfigError, match=r"proxmox.ca = .*nowhere"):
        client_of(stub, ca="/nowhere/ca.pem")


def test_file_that_holds_no_certificate_is_named_before_anything_is_sent(stub: Stub, tmp_path: Path) -> None:
    empty = tmp_path / "ca.pem"
    empty.write_text("no certificate\n")
    with pytest.raises(ConfigError, match=r"proxmox.ca = .*ca.pem.*holds no certificate") as error:
        client_of(stub, ca=str(empty))
    assert "pve-root-ca.pem" in error.value.remedy
    assert stub.calls == []


def test_redirect_is_not_followed(stub: Stub) -> None:
    stub.script = [Reply(302, reason="Found", location="https://127.0.0.1:1/")]
    with pytest.raises(ApiError, match="HTTP 302: Found"):
        client_of(stub).get("version")
    assert len(stub.calls) == 1


# The token


def test_token_goes_into_one_header_and_nowhere_else(stub: Stub) -> None:
    client_of(stub).post("nodes/pve1/qemu", vmid=100, onboot=True, tags=None)
    assert stub.headers[0]["Authorization"] == f"PVEAPIToken={TOKEN}"
    assert stub.calls == [("POST", "/nodes/pve1/qemu")]
    assert stub.bodies == [b"vmid=100&onboot=1"]


def test_parameters_may_have_any_name(stub: Stub) -> None:
    client_of(stub).put("access/acl", path="/pool/deskyard.rack.research", **{"self": "x", "a-b": [1, 2]})
    assert stub.bodies == [b"path=%2Fpool%2Fdeskyard.rack.research&self=x&a-b=1&a-b=2"]


def test_no_error_shows_the_secret_also_where_the_server_repeats_it(stub: Stub) -> None:
    stub.script = [Reply(400, reason=f"bad header {TOKEN}", errors={"token": TOKEN})]
    client = client_of(stub)
    with pytest.raises(ApiError) as error:
        client.get("version")
    assert SECRET not in str(error.value) + repr(error.value) + repr(client.token) + repr(vars(client))


def test_token_is_read_from_a_file_of_its_owner_alone(stub: Stub, tmp_path: Path) -> None:
    path = tmp_path / "token"
    path.write_text(TOKEN + "\n")
    path.chmod(0o600)
    assert read_token(stub.site(token_file=str(path)).proxmox).secret == SECRET  # type: ignore[arg-type]


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o644, 0o602], ids=oct)
def test_file_that_others_can_open_is_refused(stub: Stub, tmp_path: Path, mode: int) -> None:
    path = tmp_path / "token"
    path.write_text(TOKEN)
    path.chmod(mode)
    with pytest.raises(ConfigError, match="others can read it") as error:
        client_of(stub, token_file=str(path))
    assert "chmod 600" in error.value.remedy


@pytest.mark.parametrize("text", ["", "root@pam", "root@pam!x", SECRET, f"root!x={SECRET}", f"{TOKEN}\nX: y"])
def test_what_is_no_token_is_refused_and_not_shown(
    stub: Stub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str
) -> None:
    monkeypatch.setenv(VARIABLE, text)
    with pytest.raises(ConfigError, match="no API token") as error:
        client_of(stub)
    assert SECRET not in str(error.value)


def test_site_of_this_machine_has_no_api() -> None:
    with pytest.raises(ConfigError, match="is no Proxmox VE cluster"):
        api.connect(Stub(1, Path(), "").site().model_copy(update={"proxmox": None}))


# Retries

LOCKED = Reply(500, reason="can't lock file '/var/lock/qemu-server/lock-100.conf' - got timeout")
BUSY = Reply(500, reason="cfs-lock 'file-user_cfg' error: got lock request timeout")
AGAIN = [
    Reply(596, reason="Broken pipe"),
    Reply(502),
    Reply(503),
    Reply(504),
    Reply(595),
    Reply(cut=True),
    LOCKED,
    BUSY,
]
NEVER = [Reply(400), Reply(401), Reply(403, reason="Permission check failed (/, Sys.Audit)"), Reply(404), Reply(501)]


def name_of(reply: Reply) -> str:
    return "cut" if reply.cut else f"{reply.status} {reply.reason[:12]}".strip()


@pytest.mark.parametrize("method", ["GET", "PUT", "DELETE"])
@pytest.mark.parametrize("reply", AGAIN, ids=name_of)
def test_what_may_be_done_twice_is_tried_again(stub: Stub, method: str, reply: Reply) -> None:
    stub.script, slept = [reply, reply, OK], list[float]()
    assert client_of(stub, slept=slept).call(method, "version", {}).data == OK.data
    assert len(stub.calls) == 3
    assert slept == [0.5, 1.0]


@pytest.mark.parametrize("method", ["GET", "POST", "PUT", "DELETE"])
@pytest.mark.parametrize("reply", NEVER, ids=name_of)
def test_refusal_is_never_tried_again(stub: Stub, method: str, reply: Reply) -> None:
    stub.script = [reply, OK]
    with pytest.raises(ApiError, match=str(reply.status)) as error:
        client_of(stub).call(method, "version", {})
    assert len(stub.calls) == 1
    assert not error.value.unsure


@pytest.mark.parametrize("reply", [LOCKED, BUSY, Reply(503), Reply(595)], ids=name_of)
def test_post_is_tried_again_where_nothing_was_done(stub: Stub, reply: Reply) -> None:
    stub.script = [reply, OK]
    assert client_of(stub).post("nodes/pve1/qemu", vmid=100) == OK.data
    assert len(stub.calls) == 2


@pytest.mark.parametrize("reply", [Reply(596), Reply(502), Reply(504), Reply(cut=True)], ids=name_of)
def test_post_that_may_have_been_done_is_not_repeated_and_says_so(stub: Stub, reply: Reply) -> None:
    stub.script = [reply, OK]
    with pytest.raises(ApiError) as error:
        client_of(stub).post("nodes/pve1/qemu", vmid=100)
    assert len(stub.calls) == 1
    assert error.value.unsure


@pytest.mark.parametrize("text", ["VM 100 already exists", "VM is locked (backup)", "no such storage"])
def test_settled_refusal_is_not_waited_for(stub: Stub, text: str) -> None:
    stub.script = [Reply(500, reason=text)]
    for method in ("GET", "POST"):
        with pytest.raises(ApiError, match=text.replace("(", r"\(").replace(")", r"\)")):
            client_of(stub).call(method, "x", {})
    assert [method for method, _ in stub.calls] == ["GET", "POST"]


def test_tries_are_bounded(stub: Stub) -> None:
    stub.script, slept = [Reply(596)], list[float]()
    with pytest.raises(ApiError, match="596"):
        client_of(stub, attempts=4, slept=slept).get("version")
    assert len(stub.calls) == 4
    assert slept == list(retry.pauses(0.5, 8, 4))


def test_refused_connection_is_tried_again_and_says_where_in_the_end(stub: Stub) -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        port = unused.getsockname()[1]
        slept: list[float] = []
        client = api.connect(stub.site(endpoint=f"https://127.0.0.1:{port}"))
        client.sleep = slept.append
        with pytest.raises(ApiError, match="Connection refused") as error:
            client.post("nodes/pve1/qemu")
    assert error.value.value == f"127.0.0.1:{port}"
    assert len(slept) == client.pace.attempts - 1
    assert not error.value.unsure


def test_call_without_an_answer_ends(stub: Stub) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        client = api.connect(stub.site(endpoint=f"https://127.0.0.1:{silent.getsockname()[1]}"))
        client.pace = Pace(connect=0.2, read=0.2, attempts=2, first_pause=0.01)
        with pytest.raises(ApiError, match="timed out"):
            client.get("version")


def test_handshake_that_takes_too_long_has_sent_nothing_and_is_tried_again() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        client = api.connect(Stub(silent.getsockname()[1], Path(), "").site(ca=None))
        client.pace = Pace(connect=0.2, read=60, attempts=3, first_pause=0.01)
        slept: list[float] = []
        client.sleep = slept.append
        with pytest.raises(ApiError, match="timed out") as error:
            client.post("nodes/pve1/qemu", vmid=100)
    assert (len(slept), error.value.unsure) == (2, False)


def test_wrong_parameters_are_named(stub: Stub) -> None:
    stub.script = [Reply(400, reason="Parameter verification failed.", errors={"vmid": "invalid format"})]
    with pytest.raises(ApiError, match="vmid: invalid format"):
        client_of(stub).post("nodes/pve1/qemu", vmid="x")


def test_page_that_is_no_api_is_named(stub: Stub) -> None:
    stub.script = [Reply(raw=b"<html>welcome</html>")]
    with pytest.raises(ApiError, match="no API of Proxmox VE"):
        client_of(stub).get("version")


@pytest.mark.parametrize("headers", [{"Date": "Thu, 01 Jan 1970 00:01:40 GMT"}, {}], ids=["told", "untold"])
def test_answer_says_when_it_was_given_if_it_was_told(headers: dict[str, str]) -> None:
    assert Answer({}, headers).date == (100 if headers else None)


# Tasks


def stopped(ending: str) -> Reply:
    return Reply(data={"status": "stopped", "exitstatus": ending})


RUNNING = Reply(data={"status": "running"})
LOG = [Reply(data=[{"n": 1, "t": "begin"}], total=40), Reply(data=[{"n": 40, "t": "unable to write: disk full"}])]


def test_task_is_waited_for(stub: Stub) -> None:
    stub.script, slept = [RUNNING, RUNNING, stopped("OK")], list[float]()
    assert wait_task(client_of(stub, slept=slept), UPID).warnings == ""
    assert len(slept) == 2
    assert stub.calls[0][1].startswith("/nodes/pve1/tasks/UPID%3Apve1%3A")


def test_failed_task_shows_the_end_of_its_log(stub: Stub) -> None:
    stub.script = [stopped("unable to create VM"), *LOG]
    with pytest.raises(SiteError, match=r"(?s)unable to create VM.*disk full"):
        wait_task(client_of(stub), UPID)
    assert stub.calls[-1][1].endswith("start=25&limit=15")


def test_warnings_are_no_failure_and_are_kept(stub: Stub) -> None:
    stub.script = [stopped("WARNINGS: 1"), *LOG]
    assert "disk full" in wait_task(client_of(stub), UPID).warnings


def test_log_that_cannot_be_read_hides_no_failure(stub: Stub) -> None:
    stub.script = [stopped("unable to create VM"), Reply(403, reason="no")]
    with pytest.raises(SiteError, match="unable to create VM"):
        wait_task(client_of(stub), UPID)


def test_task_that_does_not_end_is_left_running_and_named(stub: Stub) -> None:
    stub.script = [RUNNING, RUNNING, *LOG]
    now = iter([0.0, 1.0, 61.0])
    with pytest.raises(SiteError, match=r"(?s)still runs after 60 s.*disk full") as error:
        wait_task(client_of(stub), UPID, 60, clock=lambda: next(now))
    assert error.value.value == UPID
    assert all(method == "GET" for method, _ in stub.calls)


def test_what_names_no_task_is_refused() -> None:
    with pytest.raises(SiteError, match="is no name of a task"):
        node_of("OK")
