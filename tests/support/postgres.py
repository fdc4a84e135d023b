"""A PostgreSQL server of its own for a test, reached over a socket in a folder that nobody else can enter."""

import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from deskyard.control.store import cluster
from deskyard.errors import HostError

USER = "postgres"
START_SECONDS = 60


def programs() -> Path | None:
    """The folder of the server's programs; None if there is none on this machine."""
    try:
        return cluster.programs()
    except HostError:
        return None


@contextmanager
def database(name: str) -> Iterator[str]:
    """The URL of an empty database as Pulumi takes it; the server ends with the block."""
    binaries = programs()
    assert binaries is not None
    # Not below a test's own folder: the server runs as its own user, who may not enter that.
    folder = Path(tempfile.mkdtemp(prefix="deskyard-postgres."))
    shutil.chown(folder, USER, USER)
    data = folder / "data"

    def run(program: str, *arguments: str) -> None:
        argv = [str(binaries / program), *arguments]
        options = {"user": USER, "cwd": folder, "stdin": subprocess.DEVNULL, "timeout": START_SECONDS + 10}
        log = folder / f"{program}.log"
        with log.open("wb") as output:
            # To a file: the server that pg_ctl leaves behind holds its output open.
            done = subprocess.run(argv, stdout=output, stderr=output, check=False, **options)  # type: ignore[call-overload]
        assert done.returncode == 0, log.read_text()

    try:
        run("initdb", "-D", str(data), "-U", USER, "--auth=trust", "--no-sync")
        settings = f"-c listen_addresses='' -c unix_socket_directories={folder}"
        run(
            "pg_ctl",
            "start",
            "-w",
            "-t",
            str(START_SECONDS),
            "-D",
            str(data),
            "-l",
            str(folder / "log"),
            "-o",
            settings,
        )
        try:
            run("createdb", "-h", str(folder), "-U", USER, name)
            yield f"postgres:///{name}?host={folder}&user={USER}"
        finally:
            run("pg_ctl", "stop", "-m", "immediate", "-D", str(data))
    finally:
        shutil.rmtree(folder, ignore_errors=True)
