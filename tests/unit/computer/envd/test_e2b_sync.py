"""E2B's own client, unchanged, on files and processes of a desktop."""

import io
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from e2b import (
    AuthenticationException,
    CommandExitException,
    FileNotFoundException,
    FilesystemEventType,
    FileType,
    InvalidArgumentException,
    NotFoundException,
    Sandbox,
    SandboxException,
    TimeoutException,
)
from e2b.sandbox.commands.command_handle import PtySize
from e2b.sandbox.filesystem.filesystem import WriteEntry

from deskyard.computer.envd.part import Envd
from deskyard.computer.work.part import Work
from tests.unit.computer.serving import home_of, served


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    with home_of(tmp_path_factory.mktemp("e2b")) as home:
        yield home


@pytest.fixture(scope="module")
def sandbox(home: Path) -> Iterator[Sandbox]:
    work = Work(home)
    with served([work, Envd(work)]) as url:
        yield Sandbox.create(debug=True, sandbox_url=url)


def test_the_service_is_alive(sandbox: Sandbox) -> None:
    assert sandbox.is_running()


def test_a_command_runs_in_a_login_shell(sandbox: Sandbox, home: Path) -> None:
    result = sandbox.commands.run("pwd; echo $COLOUR; echo trouble >&2", envs={"COLOUR": "blue"})
    assert (result.stdout, result.stderr, result.exit_code) == (f"{home}\nblue\n", "trouble\n", 0)
    assert sandbox.commands.run("pwd", cwd="/tmp").stdout == "/tmp\n"


def test_a_command_that_fails_says_how(sandbox: Sandbox) -> None:
    with pytest.raises(CommandExitException) as failed:
        sandbox.commands.run("echo partly; exit 3")
    assert (failed.value.exit_code, failed.value.stdout) == (3, "partly\n")


def test_output_comes_as_it_is_said(sandbox: Sandbox) -> None:
    said: list[str] = []
    sandbox.commands.run("echo first; sleep 0.2; echo second", on_stdout=said.append)
    assert said == ["first\n", "second\n"]


def test_a_letter_cut_in_two_comes_whole_and_a_broken_one_is_marked(sandbox: Sandbox) -> None:
    long = "a" * 65535 + "ä" * 3
    assert sandbox.commands.run("python3 -c \"print('a' * 65535 + 'ä' * 3, end='')\"").stdout == long
    assert sandbox.commands.run(r"printf 'x\xe2'").stdout == "x\ufffd"


def test_much_output_comes_whole(sandbox: Sandbox) -> None:
    assert len(sandbox.commands.run("head -c 5000000 /dev/zero | tr '\\0' x").stdout) == 5_000_000


def test_a_command_that_takes_too_long_is_ended(sandbox: Sandbox, home: Path) -> None:
    with pytest.raises(TimeoutException):
        sandbox.commands.run("echo $$ > late.pid; exec sleep 600", timeout=1)
    pid = int((home / "late.pid").read_text())
    handle_gone = sandbox.commands.run(f"timeout 10 tail --pid={pid} -f /dev/null; kill -0 {pid} 2>&1 || echo gone")
    assert handle_gone.stdout.endswith("gone\n")


def test_background_commands_are_listed_connected_to_and_killed(sandbox: Sandbox) -> None:
    command = sandbox.commands.run("read; echo got it; sleep 600", background=True, stdin=True)
    assert command.pid in [process.pid for process in sandbox.commands.list()]
    again = sandbox.commands.connect(command.pid)
    sandbox.commands.send_stdin(command.pid, "go\n")
    assert next(iter(again))[0] == "got it\n"
    assert sandbox.commands.kill(command.pid)
    with pytest.raises(CommandExitException):
        sandbox.commands.run(f"kill -0 {command.pid}")
    assert not sandbox.commands.kill(command.pid)
    with pytest.raises(CommandExitException) as ended:
        command.wait()
    assert ended.value.error == "signal: killed"
    with pytest.raises(NotFoundException):
        sandbox.commands.connect(command.pid)


def test_input_is_sent_streamed_and_closed(sandbox: Sandbox) -> None:
    command = sandbox.commands.run("cat", background=True, stdin=True)
    command.send_stdin("Hello,\n")
    sandbox.commands.stream_input(command.pid, ["World", b"!", "x" * 100_000])
    command.close_stdin()
    assert command.wait().stdout == "Hello,\nWorld!" + "x" * 100_000


def test_a_command_without_input_reads_its_end_at_once(sandbox: Sandbox) -> None:
    assert sandbox.commands.run("cat; echo over").stdout == "over\n"


def test_an_unknown_program_directory_or_process_is_refused(sandbox: Sandbox) -> None:
    with pytest.raises(InvalidArgumentException, match="cwd '/no/such' does not exist"):
        sandbox.commands.run("true", cwd="/no/such")
    with pytest.raises(NotFoundException):
        sandbox.commands.send_stdin(999_999, "x")
    assert not sandbox.pty.kill(999_999)


def test_another_account_is_refused_and_e2b_s_own_is_the_desktop_s(sandbox: Sandbox) -> None:
    sandbox.commands.run("true", user="user")
    with pytest.raises(AuthenticationException, match="is not the account of this desktop"):
        sandbox.commands.run("true", user="somebody-else")


def test_a_terminal_is_resized_left_and_connected_to_again(sandbox: Sandbox) -> None:
    terminal = sandbox.pty.create(PtySize(cols=100, rows=30), envs={"COLOUR": "blue"}, cwd="/")
    sandbox.pty.resize(terminal.pid, PtySize(cols=120, rows=40))
    terminal.disconnect()
    again = sandbox.pty.connect(terminal.pid)
    sandbox.pty.send_stdin(terminal.pid, b"echo $COLOUR; tput cols; pwd\nexit 0\n")
    said: list[bytes] = []
    assert again.wait(on_pty=said.append).exit_code == 0
    text = b"".join(said).decode()
    assert "blue" in text and "120" in text
    assert terminal.pid == again.pid
    other = sandbox.pty.create(PtySize(cols=80, rows=24))
    assert sandbox.pty.kill(other.pid)
    with pytest.raises(CommandExitException):
        sandbox.commands.run(f"kill -0 {other.pid}")


@pytest.mark.parametrize("more", [{}, {"use_octet_stream": True}, {"gzip": True}])
def test_a_file_is_written_and_read(sandbox: Sandbox, home: Path, more: dict[str, Any]) -> None:
    text = "Grüße, 世界. " * 10_000
    info = sandbox.files.write("deep/er/file.txt", text, **more)
    assert (info.path, info.name, info.type) == (f"{home}/deep/er/file.txt", "file.txt", FileType.FILE)
    assert sandbox.files.read("deep/er/file.txt") == text
    assert sandbox.files.read("deep/er/file.txt", format="bytes", gzip=True) == text.encode()
    assert b"".join(sandbox.files.read("deep/er/file.txt", format="stream")) == text.encode()
    assert sandbox.files.write("deep/er/file.txt", io.BytesIO(b"short"), **more).path == info.path
    assert sandbox.files.read("deep/er/file.txt") == "short"


def test_several_files_are_written_at_once(sandbox: Sandbox, home: Path) -> None:
    entries = [WriteEntry(path=f"many/{number}.txt", data=f"file {number}") for number in range(10)]
    written = sandbox.files.write_files(entries)
    assert [info.path for info in written] == [f"{home}/many/{number}.txt" for number in range(10)]
    assert sandbox.files.read("many/7.txt") == "file 7"
    assert sandbox.files.write_files([]) == []


def test_notes_beside_a_file_are_kept_moved_and_replaced(sandbox: Sandbox) -> None:
    notes = {"author": "someone", "purpose": "a test"}
    assert sandbox.files.write("noted.txt", "x", metadata=notes).metadata == notes
    assert sandbox.files.rename("noted.txt", "renoted.txt").metadata == notes
    assert sandbox.files.get_info("renoted.txt").metadata == notes
    assert sandbox.files.write("renoted.txt", "y").metadata is None
    assert sandbox.files.get_info("renoted.txt").metadata is None


def test_entries_are_listed_described_and_removed(sandbox: Sandbox, home: Path) -> None:
    assert sandbox.files.make_dir("tree/one/two")
    assert not sandbox.files.make_dir("tree/one/two")
    sandbox.files.write("tree/file", "Hello")
    (home / "tree/link").symlink_to("file")
    assert [entry.name for entry in sandbox.files.list("tree")] == ["file", "link", "one"]
    assert [entry.name for entry in sandbox.files.list("tree", depth=3)] == ["file", "link", "one", "two"]
    info = sandbox.files.get_info("tree/file")
    assert (info.size, info.mode, info.permissions, info.symlink_target) == (5, 0o644, "-rw-r--r--", None)
    assert info.modified_time is not None and info.modified_time.tzinfo is not None
    link = sandbox.files.get_info("tree/link")
    assert (link.type, link.symlink_target) == (FileType.FILE, f"{home}/tree/file")
    sandbox.files.remove("tree")
    assert not sandbox.files.exists("tree/file")
    sandbox.files.remove("tree")


def test_what_is_not_there_is_named(sandbox: Sandbox) -> None:
    for ask in (sandbox.files.read, sandbox.files.get_info, sandbox.files.list, sandbox.files.watch_dir):
        with pytest.raises(FileNotFoundException, match="no-such"):
            ask("no-such")
    with pytest.raises(FileNotFoundException):
        sandbox.files.rename("no-such", "other")
    with pytest.raises(InvalidArgumentException, match="is a directory"):
        sandbox.files.write("/tmp", "x")


def test_changes_in_a_directory_are_told(sandbox: Sandbox) -> None:
    sandbox.files.make_dir("watched/old")
    watch = sandbox.files.watch_dir("watched", recursive=True, include_entry=True)
    sandbox.files.write("watched/old/file", "x")
    events = watch.get_new_events()
    create, write = FilesystemEventType.CREATE, FilesystemEventType.WRITE
    assert [(event.type, event.name) for event in events][::2] == [(create, "old/file"), (write, "old/file")]
    assert len(events) == 3
    assert events[0].entry is not None and events[0].entry.name == "file"
    sandbox.files.make_dir("watched/new")
    sandbox.files.write("watched/new/file", "x")
    sandbox.files.rename("watched/old/file", "watched/moved")
    sandbox.files.remove("watched/moved")
    seen = {(event.type, event.name) for event in watch.get_new_events()}
    assert seen >= {
        (create, "new"),
        (write, "new/file"),
        (FilesystemEventType.RENAME, "old/file"),
        (create, "moved"),
        (FilesystemEventType.REMOVE, "moved"),
    }
    watch.stop()
    with pytest.raises(SandboxException):
        sandbox.files.watch_dir("watched/new/file")
