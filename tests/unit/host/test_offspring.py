"""All that a program started is found and ended, in whatever session; what is to go on goes on."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from deskyard.host import offspring
from deskyard.host.background import Background, start_time
from tests.support.ports import free_ports
from tests.support.requirements import need_root

SECONDS = 60
# Starts a program in a session of its own, writes its number, and waits.
STARTS = """
import os, subprocess, sys
began, child = sys.argv[1], sys.argv[2:]
process = subprocess.Popen(child, start_new_session=True, stdin=subprocess.PIPE)
open(began, "w").write(str(process.pid))
sys.stdin.read()
"""
HOLDS = "import os, signal; open({ready!r}, 'w').write('held'); signal.pause()"
# Its first thread ends, and another goes on.
HEADLESS = """
import ctypes, pathlib, threading
def hold():
    # There is no event for that.
    while ") Z " not in pathlib.Path("/proc/self/stat").read_text():
        pass
    open({ready!r}, "w").write("held")
    threading.Event().wait()
threading.Thread(target=hold).start()
ctypes.CDLL(None).pthread_exit(None)
"""
DEAF = "import signal; signal.signal(15, signal.SIG_IGN); open({ready!r}, 'w').write('held'); signal.pause()"


class Yard:
    """Programs with a mark of their own, which say by pipes that they are there."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.secret = folder, offspring.fresh()
        self.mark = offspring.mark_of(self.secret.encode())
        self.begun: list[subprocess.Popen[bytes]] = []

    def pipe(self, name: str) -> Path:
        os.mkfifo(self.folder / name)
        return self.folder / name

    def start(self, *argv: str, **env: str) -> subprocess.Popen[bytes]:
        marked = {**os.environ, offspring.SECRET: self.secret, **env}
        pipe = subprocess.PIPE
        self.begun.append(subprocess.Popen(argv, stdin=pipe, stdout=pipe, env=marked, start_new_session=True))
        return self.begun[-1]

    def family(self, code: str = HOLDS) -> tuple[subprocess.Popen[bytes], int]:
        """A program and what it started in a session of its own, both there."""
        began, ready = self.pipe("began"), self.pipe("ready")
        child = [sys.executable, "-c", code.format(ready=str(ready))]
        parent = self.start(sys.executable, "-c", STARTS, str(began), *child)
        pid = int(began.read_text())
        assert ready.read_text() == "held"
        return parent, pid

    def pids(self) -> set[int]:
        return {process.pid for process in offspring.running([self.mark]).get(self.mark, [])}


@pytest.fixture
def yard(tmp_path: Path) -> Iterator[Yard]:
    found = Yard(tmp_path)
    yield found
    assert offspring.end(found.mark, 0) == []
    for process in found.begun:
        process.wait(SECONDS)


def gone(pid: int) -> bool:
    return start_time(pid) is None


def test_what_a_killed_program_started_in_its_own_session_is_found_and_ended(yard: Yard) -> None:
    parent, child = yard.family()
    assert yard.pids() == {parent.pid, child}
    parent.kill()
    parent.wait(SECONDS)
    assert yard.pids() == {child}
    assert offspring.end(yard.mark, SECONDS) == []
    assert gone(child)


def test_what_hears_no_sigterm_is_killed_when_its_time_is_over(yard: Yard) -> None:
    _, child = yard.family(DEAF)
    ticks: list[int] = []
    assert offspring.end(yard.mark, 0.5, lambda: ticks.append(1)) == []
    assert gone(child) and ticks


def test_a_program_whose_first_thread_alone_has_ended_is_found_and_ended(yard: Yard) -> None:
    parent, child = yard.family(HEADLESS)
    assert ") Z " in Path(f"/proc/{child}/stat").read_text()
    assert yard.pids() == {parent.pid, child}
    parent.kill()
    parent.wait(SECONDS)
    assert yard.pids() == {child}
    assert offspring.end(yard.mark, SECONDS) == []
    # Whoever it was given to may not have heard of its end yet.
    assert len(list(Path(f"/proc/{child}/task").glob("*"))) < 2


def test_one_whose_other_threads_show_no_environment_is_held_by_what_it_was_before(
    yard: Yard, monkeypatch: pytest.MonkeyPatch
) -> None:
    parent, child = yard.family(HEADLESS)
    parent.kill()
    parent.wait(SECONDS)
    (found,) = offspring.running([yard.mark])[yard.mark]
    with monkeypatch.context() as bare:
        bare.setattr(offspring, "_environment", lambda pid: b"" if pid == child else b"OTHER=1")
        assert offspring.running([yard.mark]) == {}
        assert offspring.running([yard.mark], {found: yard.mark}) == {yard.mark: [found]}


def test_a_zombie_holds_nothing_and_is_not_found(yard: Yard) -> None:
    parent, _ = yard.family()
    assert offspring.end(yard.mark, SECONDS) == []
    assert ") Z " in Path(f"/proc/{parent.pid}/stat").read_text() and yard.pids() == set()


def test_the_topmost_ends_what_it_started_in_its_own_order(yard: Yard) -> None:
    began, ended = yard.pipe("began"), yard.folder / "ended"
    child = f"import signal; signal.signal(15, lambda *_: open({str(yard.folder / 'told')!r}, 'w')); signal.pause()"
    code = f"""
import signal, subprocess, sys
process = subprocess.Popen([sys.executable, "-c", {child!r}], start_new_session=True)
def end(*_):
    process.kill()
    open({str(ended)!r}, "w").write(str(process.wait()))
    sys.exit()
signal.signal(15, end)
open({str(began)!r}, "w").write("there")
signal.pause()
"""
    yard.start(sys.executable, "-c", code)
    assert began.read_text() == "there"
    assert offspring.end(yard.mark, SECONDS) == []
    assert ended.read_text() == "-9"
    assert not (yard.folder / "told").exists()


def test_of_another_program_nothing_is_found_or_ended(yard: Yard, tmp_path: Path) -> None:
    parent, child = yard.family()
    other = offspring.mark_of(offspring.fresh().encode())
    assert offspring.running([other]) == {}
    assert offspring.end(other, SECONDS) == []
    assert offspring.running([other, yard.mark]).keys() == {yard.mark}
    assert not gone(parent.pid) and not gone(child)


@pytest.mark.parametrize("given", [b"", b"\xff", None], ids=["nothing", "no text", "the mark"])
def test_who_does_not_have_the_secret_is_not_found(yard: Yard, given: bytes | None) -> None:
    ready = yard.pipe("ready")
    secret = os.fsdecode(yard.mark.encode() if given is None else given)
    stranger = yard.start(sys.executable, "-c", HOLDS.format(ready=str(ready)), **{offspring.SECRET: secret})
    assert ready.read_text() == "held"
    try:
        assert offspring.running([yard.mark]) == {} and offspring.end(yard.mark, SECONDS) == []
        assert not gone(stranger.pid)
    finally:
        stranger.kill()


def test_who_took_the_secret_off_is_found_by_who_started_it(yard: Yard) -> None:
    ready, began = yard.pipe("ready"), yard.pipe("began")
    bare = ["env", "-i", sys.executable, "-c", HOLDS.format(ready=str(ready))]
    yard.start(sys.executable, "-c", STARTS, str(began), *bare)
    child = int(began.read_text())
    assert ready.read_text() == "held"
    assert child in yard.pids()
    assert offspring.end(yard.mark, SECONDS) == []
    assert gone(child)


def test_a_program_that_is_left_in_the_background_goes_on(yard: Yard) -> None:
    folder, began = yard.folder / "left", yard.pipe("began")
    code = f"""
import pathlib, signal
from deskyard.host.background import Background
Background("left", pathlib.Path({str(folder)!r})).start(["sleep", "infinity"])
open({str(began)!r}, "w").write("there")
signal.pause()
"""
    parent = yard.start(sys.executable, "-c", code)
    assert began.read_text() == "there"
    left = Background("left", folder)
    pid = left.pid()
    try:
        # Neither while its parent is there, nor once that is gone.
        assert pid is not None and yard.pids() == {parent.pid}
        assert offspring.end(yard.mark, SECONDS) == []
        assert gone(parent.pid) and left.pid() == pid
    finally:
        left.stop()


def test_what_the_kernel_does_not_end_is_named(yard: Yard, monkeypatch: pytest.MonkeyPatch) -> None:
    _, child = yard.family()
    with monkeypatch.context() as deaf:
        deaf.setattr(offspring, "KILL_SECONDS", 0.1)
        deaf.setattr(signal, "pidfd_send_signal", lambda *_: None)
        assert child in {process.pid for process in offspring.end(yard.mark, 0.1)}
    assert str(next(process for process in offspring.running([yard.mark])[yard.mark] if process.pid == child)) == (
        f"{Path(f'/proc/{child}/comm').read_text().strip()} (process {child})"
    )


def test_a_connection_that_ssh_keeps_goes_on_with_its_way(yard: Yard) -> None:
    need_root("starts a server of SSH")
    folder, port = yard.folder, free_ports(1)[0]
    for name in ("host", "own"):
        subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(folder / name)], check=True)
    (folder / "allowed").write_text((folder / "own.pub").read_text())
    Path("/run/sshd").mkdir(exist_ok=True)
    options = {"Port": port, "ListenAddress": "127.0.0.1", "HostKey": folder / "host", "StrictModes": "no"}
    options |= {"AuthorizedKeysFile": folder / "allowed", "UsePAM": "no", "PidFile": "none"}
    server = [f"-o{name}={value}" for name, value in options.items()]
    daemon = Background("sshd", folder / "server")
    daemon.start(["/usr/sbin/sshd", "-D", "-e", "-f", "/dev/null", *server])
    way = f"env {offspring.SECRET}= socat - TCP:127.0.0.1:{port},retry=100,interval=0.1"
    kept = {"ControlMaster": "auto", "ControlPath": folder / "control", "ControlPersist": 60, "ProxyCommand": way}
    kept |= {"IdentityFile": folder / "own", "StrictHostKeyChecking": "no", "UserKnownHostsFile": "/dev/null"}
    ssh = ["ssh", "-F", "none", "-q", *(f"-o{name}={value}" for name, value in kept.items())]
    # It carries bytes to its server, which says its name first: no shell has to begin there.
    carry = [*ssh, "-W", f"127.0.0.1:{port}", "root@door"]
    check = [*ssh, "-O", "check", "root@door"]
    try:
        first = yard.start(*carry)
        assert first.stdout is not None and first.stdout.read(4) == b"SSH-"
        master = subprocess.run(check, capture_output=True, text=True, check=True, timeout=SECONDS).stderr
        assert yard.pids() == {first.pid}
        assert offspring.end(yard.mark, SECONDS) == []
        after = subprocess.run(check, capture_output=True, text=True, check=True, timeout=SECONDS).stderr
        assert after == master and str(first.pid) not in master
        second = yard.start(*carry)
        assert second.stdout is not None and second.stdout.read(4) == b"SSH-"
    finally:
        subprocess.run([*ssh, "-O", "exit", "root@door"], capture_output=True, timeout=SECONDS, check=False)
        daemon.stop()
