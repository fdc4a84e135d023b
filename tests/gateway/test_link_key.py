"""The key of `link`: each of its questions is answered by a real sshd, and whatever else is asked for is refused.

Witnesses: OpenSSH's client and server, sudo, and the session service, which says what was granted.
"""

import json
import re
import socket
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from deskyard.gateway.machine.system import Machine
from deskyard.gateway.session.audit import events
from deskyard.gateway.status_service import StatusServer
from deskyard.guest import link_account, link_questions
from deskyard.workspace import readiness
from tests.gateway.link_door import SECONDS, Door, link_door
from tests.gateway.support import Gateway, wait_for
from tests.support.served import served

# A chain that no other test anchors: a gateway keeps what it was given, and a process of tests has the same for all.
SOURCE, HEAD = "mission.1111222233334444", "a" * 64
ANCHOR = f"anchor --source {SOURCE} --number 7 --head {HEAD} --actor mission-control"
# A connection of its own, for which the key is looked at anew.
FRESH = ["-oControlPath=none"]
TICKET = {"id": "0a", "desktop": "d1", "state": "waiting"}


@pytest.fixture(scope="module")
def door(gateway: Gateway, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Door]:
    with link_door(tmp_path_factory.mktemp("link"), gateway) as found:
        yield found


@pytest.fixture
def asks(gateway: Gateway) -> Iterator[dict[str, threading.Event]]:
    """What holds connections, in short: it says one ticket, and knows when whoever follows has left."""
    path, heard = gateway.layout.ask_socket, {"asked": threading.Event(), "left": threading.Event()}
    path.parent.mkdir(exist_ok=True)
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(path))
        listener.listen()
        listener.settimeout(SECONDS)

        def serve() -> None:
            line, _ = listener.accept()
            with line, line.makefile("rb") as stream:
                assert json.loads(stream.readline()) == {"command": "follow"}
                line.sendall(json.dumps(TICKET).encode() + b"\n")
                heard["asked"].set()
                stream.read()
                heard["left"].set()

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        yield heard
        thread.join(SECONDS)
        path.unlink()


def answer(door: Door, question: str) -> Any:
    done = door.ask(question)
    assert done.returncode == 0, (done.stdout, done.stderr, door.log)
    return json.loads(done.stdout)


def refused(done: "subprocess.CompletedProcess[str]") -> bool:
    """Whether the program said no, and nothing else was said."""
    return done.returncode == 1 and json.loads(done.stdout)["error"]["field"] == "question"


def test_sessions_are_listed_by_the_service_itself(door: Door, gateway: Gateway) -> None:
    id, _ = gateway.session()
    assert [row["id"] for row in answer(door, "list")] == [row["id"] for row in gateway.listing()]
    gateway.revoke(id)


def test_status_is_what_the_gateway_says_of_itself(door: Door) -> None:
    found = answer(door, "status")
    assert (found["workspace"], found["services"], set(found["desktops"])) == (
        "demo",
        {"session_service": "answers"},
        {"d1", "d2"},
    )


def test_status_of_named_desktops_is_what_the_service_that_stays_says(door: Door, gateway: Gateway) -> None:
    path = gateway.layout.root / readiness.STATUS_SOCKET
    with served(path, lambda listener: StatusServer(listener, gateway.layout, Machine())):
        assert set(answer(door, "status d2")["desktops"]) == {"d2"}
        assert set(answer(door, "status d1,d2")["desktops"]) == {"d1", "d2"}
    path.unlink()
    # Nobody is there: the program, which looks at all.
    assert set(answer(door, "status d2")["desktops"]) == {"d1", "d2"}


def test_audit_is_verified_with_and_without_a_known_line(door: Door, gateway: Gateway) -> None:
    gateway.grant()
    first = events(gateway.layout.audit_file)[0]
    assert answer(door, "audit --verify")["ok"]
    assert answer(door, f"audit --verify --known {first['seq']}:{first['hash']}")["ok"]
    false = door.ask(f"audit --verify --known {first['seq']}:{HEAD}")
    assert not json.loads(false.stdout)["ok"]


def test_a_line_is_anchored_under_the_chain_of_mission_control(door: Door) -> None:
    assert answer(door, ANCHOR)["number"] == 7
    assert [line["head"] for line in answer(door, f"anchors --source {SOURCE}")] == [HEAD]
    assert len(answer(door, f"anchors --source {SOURCE} --last 1")) == 1
    backwards = door.ask(ANCHOR.replace("--number 7", "--number 6"))
    assert (backwards.returncode, json.loads(backwards.stdout)["error"]["field"]) == (1, "number")


def test_tickets_are_followed_until_whoever_asked_leaves(door: Door, asks: dict[str, threading.Event]) -> None:
    with subprocess.Popen(
        door.command("asks --json --follow"), stdout=subprocess.PIPE, stdin=subprocess.PIPE
    ) as client:
        assert client.stdout is not None
        assert json.loads(client.stdout.readline()) == TICKET
        assert not asks["left"].is_set()
        client.kill()
    # Else sixteen that went away would keep others from following.
    assert asks["left"].wait(SECONDS)


# One of each kind; tests/unit/guest has many more.
@pytest.mark.parametrize(
    "question",
    [
        *("id", "/bin/sh", "sudo -n deskyard-gateway list", "grant --desktop d1", "list list", "list\nid", "list;id"),
        *("list $(id)", "list >/tmp/x", "audit --since 0", ANCHOR.replace("mission-control", "root"), "x" * 100_000),
    ],
    ids=lambda text: ascii(text[:40]),
)
def test_anything_else_is_refused(door: Door, gateway: Gateway, question: str) -> None:
    before = len(gateway.listing())
    done = door.ask(question)
    assert refused(done), (done, door.log)
    assert "uid=" not in done.stdout + done.stderr and len(gateway.listing()) == before


def test_there_is_no_shell_whoever_types_into_it(door: Door) -> None:
    done = subprocess.run(door.command(), input="id\n", capture_output=True, text=True, timeout=SECONDS, check=False)
    assert refused(done) and "uid=" not in done.stdout


def test_the_environment_of_who_asks_changes_nothing(door: Door, gateway: Gateway) -> None:
    names = (link_questions.ASKED, "LC_ALL", "LANG", "PYTHONPATH", "LD_PRELOAD", "DESKYARD_GATEWAY_LAYOUT")
    given = [f"-oSetEnv={' '.join(f'{name}=list' for name in names)}"]
    assert refused(door.ask("id", options=given))
    assert gateway.sessions(json.loads(door.ask("list", options=given).stdout)) == gateway.sessions()


def test_there_is_no_terminal(door: Door) -> None:
    done = door.ask("list", options=["-tt"])
    assert "PTY allocation request failed" in done.stderr


@pytest.mark.parametrize("target", ["127.0.0.1:{port}", "/run/deskyard-session/admin.sock"], ids=["tcp", "socket"])
def test_nothing_is_forwarded(door: Door, gateway: Gateway, tmp_path: Path, target: str) -> None:
    way = tmp_path / "way"
    argv = door.command(options=["-N", "-L", f"{way}:{target.format(port=gateway.layout.listen_port)}"])
    with subprocess.Popen(argv, stderr=subprocess.PIPE, text=True) as client:
        try:
            wait_for("a client that listens", way.exists)
            with socket.socket(socket.AF_UNIX) as line:
                line.settimeout(SECONDS)
                line.connect(str(way))
                assert line.recv(1) == b""
            # Whoever asks the service on its socket is let in as root: nobody else gets as far as there.
            assert client.stderr is not None and "open failed" in client.stderr.readline()
        finally:
            client.kill()
    kind = "local" if ":" in target else "streamlocal"
    wait_for("the refusal", lambda: f"refused {kind} port forward" in door.log)


def test_nothing_is_forwarded_back(door: Door) -> None:
    for option in ("0:127.0.0.1:1", "/tmp/deskyard-link-test:127.0.0.1:1"):
        done = door.ask("list", options=["-o", "ExitOnForwardFailure=yes", "-R", option])
        assert done.returncode == 255 and "forwarding failed" in done.stderr, done


def test_no_agent_and_no_display_is_forwarded(door: Door, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DISPLAY", "127.0.0.1:77")
    way = tmp_path / "agent"
    with subprocess.Popen(["ssh-agent", "-D", "-a", str(way)], stdout=subprocess.DEVNULL) as agent:
        try:
            wait_for("an agent", way.exists)
            done = door.ask("list", options=["-v", "-A", "-Y", f"-oIdentityAgent={way}"])
        finally:
            agent.terminate()
    assert done.returncode == 0, done
    assert "X11 forwarding disabled by key options" in done.stderr and "agent forwarding disabled" in door.log


@pytest.mark.parametrize("argv", [["sftp", "-b", "-"], ["scp"], ["scp", "-O"]], ids=" ".join)
def test_no_file_goes_either_way(door: Door, tmp_path: Path, argv: list[str]) -> None:
    (tmp_path / "mine").write_text("x")
    for way in (["gateway:/etc/passwd", str(tmp_path / "got")], [str(tmp_path / "mine"), "gateway:/tmp/put"]):
        words = ["gateway"] if argv[0] == "sftp" else way
        config = ["-F", str(door.folder / "ssh_config")]
        done = subprocess.run(
            [argv[0], *config, *argv[1:], *words],
            input=f"get /etc/passwd {tmp_path}/got\nput {tmp_path}/mine /tmp/put\n",
            capture_output=True,
            text=True,
            timeout=SECONDS,
            check=False,
        )
        assert done.returncode != 0
    assert not (tmp_path / "got").exists() and not Path("/tmp/put").exists()


def test_the_key_opens_no_other_account(door: Door) -> None:
    for account in ("root", "daemon"):
        done = door.ask("list", options=["-l", account])
        assert done.returncode == 255 and "Permission denied" in done.stderr


def test_who_gets_past_sshd_may_ask_the_same_and_no_more(door: Door) -> None:
    program, sudo = link_account.QUESTIONS, ["sudo", "-n"]
    asked = door.as_account("env", "SSH_ORIGINAL_COMMAND=list", *sudo, program)
    assert asked.returncode == 0, asked.stderr
    # For how long each is idle already may be a second more by the other way.
    assert [row["id"] for row in json.loads(asked.stdout)] == [row["id"] for row in answer(door, "list")]
    assert refused(door.as_account("env", "SSH_ORIGINAL_COMMAND=grant --desktop d1", *sudo, program))
    for words in ([program, "list"], ["id"], ["deskyard-gateway", "list"], ["-u", "daemon", "id"], ["-E", program]):
        done = door.as_account(*sudo, *words)
        assert done.returncode == 1 and "uid=" not in done.stdout, (words, done)
    connect = f"import socket; socket.socket(socket.AF_UNIX).connect({link_questions.SERVICE!r})"
    assert "PermissionError" in door.as_account("/usr/bin/python3", "-I", "-c", connect).stderr
    for path in (
        program,
        f"{link_account.HOME}/.ssh/authorized_keys",
        f"{link_account.HOME}/x",
        link_account.RIGHTS_FILE,
    ):
        assert "Permission denied" in door.as_account("sh", "-c", f"echo x >>{path}").stderr


def test_what_is_there_already_is_not_written_again_and_another_key_takes_its_place(door: Door) -> None:
    assert door.deliver(door.public_key) == []
    keys = f"{link_account.HOME}/.ssh/authorized_keys"
    other = re.sub(r"AAAA\S+", "AAAAC3NzaC1lZDI1NTE5AAAAIJdD7y3aLq454yWBdwLWbieU1ebz9/cu7/QEXn9OIeZJ", door.public_key)
    try:
        assert door.deliver(other) == [keys]
        assert door.inside("cat", keys).stdout.count("\n") == 1
        assert "Permission denied" in door.ask("list", options=FRESH).stderr
    finally:
        door.deliver(door.public_key)


def test_without_what_binds_it_the_key_would_open_a_shell(door: Door) -> None:
    """The weakened build: the line has the key alone."""
    keys = f"{link_account.HOME}/.ssh/authorized_keys"
    try:
        door.inside("sh", "-c", f"cat >{keys}", stdin=f"{door.public_key}\n")
        done = door.ask("id", options=FRESH)
        assert link_account.ACCOUNT in done.stdout
        # And yet nobody but that account.
        assert "uid=0" not in done.stdout and "uid=0" not in door.ask("sudo -n id", options=FRESH).stdout
    finally:
        door.deliver(door.public_key)


def test_a_service_that_is_down_is_told_by_the_program(door: Door, gateway: Gateway) -> None:
    path = gateway.layout.admin_socket
    moved = path.rename(path.with_name("away.sock"))
    try:
        done = door.ask("list")
        assert (done.returncode, json.loads(done.stdout)["error"]["field"]) == (1, "session service")
    finally:
        moved.rename(path)
    wait_for("the service", lambda: answer(door, "list") is not None)
