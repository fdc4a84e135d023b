"""The walk of docs/api.md runs as it stands: its own curl, through a real proxy with TLS, to a real web process."""

import os
import re
import shutil
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from deskyard.control.ground.folder import ids
from deskyard.control.ground.settings import PORT, Settings
from deskyard.control.process import proxy
from deskyard.host.deadline import Deadline
from tests.control.lab import ACCOUNTS, TREE, WAIT_SECONDS, Lab
from tests.control.task_bench import begun
from tests.support.pve.certificate import issue
from tests.support.requirements import need_programs

DOCUMENT = TREE / "docs/api.md"
HOST = "mission.localhost"
BLOCK = re.compile(r"^```sh\n(.*?)^```", re.DOTALL | re.MULTILINE)
RUN_SECONDS = 4 * WAIT_SECONDS


@pytest.fixture
def child() -> str:
    return "tests.control.walked"


@pytest.fixture
def place(mission: Lab, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder with what the walk wants there: `inv`, `ca.pem`, and Mission Control behind its name and port."""
    need_programs("curl", "jq", "haproxy", "bash")
    made = issue(tmp_path, HOST)
    shutil.copy(made.authority, tmp_path / "ca.pem")
    mission.folder.certificate.parent.mkdir(parents=True, exist_ok=True)
    mission.folder.certificate.write_text(made.certificate.read_text() + made.key.read_text())
    # Its own port, which requests name, on a loopback address of this process's.
    near = f"127.9.{os.getpid() >> 8 & 255}.{os.getpid() & 255 or 1}"
    (tmp_path / ".curlrc").write_text(f'connect-to = "{HOST}:{PORT}:{near}:{PORT}"\n')
    # As the supervisor lets the proxy's account, and nobody else, come to it.
    os.chown(mission.folder.web_socket, 0, ids(ACCOUNTS.proxy)[1])
    mission.folder.web_socket.chmod(0o660)
    task = tmp_path / "inv"
    task.write_text(
        f'#!/bin/sh\nPYTHONPATH={TREE} exec {sys.executable} -m tests.control.host_task {mission.folder.root} "$@"\n'
    )
    task.chmod(0o755)
    file = tmp_path / "haproxy.cfg"
    file.write_text(proxy.configuration(Settings("local", "localhost", near, PORT), mission.folder))
    argv = [shutil.which("haproxy") or "haproxy", "-db", "-f", str(file)]
    begun(mission, monkeypatch)
    with subprocess.Popen(argv) as process:
        try:
            assert Deadline(WAIT_SECONDS).wait_for(lambda: _listens(near) or process.poll() is not None, 0.1)
            assert process.poll() is None
            yield tmp_path
        finally:
            process.terminate()
    mission.folder.certificate.unlink()


def _listens(address: str) -> bool:
    with socket.socket() as line:
        return line.connect_ex((address, PORT)) == 0


def walked(place: Path, text: str) -> "subprocess.CompletedProcess[str]":
    """The end of a walk: the commands of a document, in its order, in one shell."""
    commands = "".join(BLOCK.findall(text))
    environment = {**os.environ, "CURL_HOME": str(place), "HOME": str(place)}
    return subprocess.run(
        ["bash", "-c", commands],
        cwd=place,
        env=environment,
        capture_output=True,
        text=True,
        timeout=RUN_SECONDS,
        check=False,
    )


def test_the_walk_of_the_documentation_runs_as_it_stands(mission: Lab, place: Path) -> None:
    text = DOCUMENT.read_text()
    done = walked(place, text)
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"
    assert done.stdout.split().count("true") == text.count("jq -e "), done.stdout
    assert not (place / "key.json").exists()
    # What it did is there, and of the key it made.
    kinds = mission.link.execute("select distinct kind from operation where actor like 'key:walk:%'").fetchall()
    assert {"desktop.create", "desktop.destroy", "task.begin", "task.release"} <= {row["kind"] for row in kinds}


@pytest.mark.parametrize(
    ("said", "wrong"),
    [
        ("$api/desktops/lab.writer/stop", "$api/desktops/lab.writer/halt"),
        ('.state == "stopped"', '.state == "asleep"'),
        ("read,desktops:write", "read"),
    ],
)
def test_a_document_that_says_something_else_is_found(place: Path, said: str, wrong: str) -> None:
    text = DOCUMENT.read_text()
    assert said in text
    assert walked(place, text.replace(said, wrong)).returncode != 0
