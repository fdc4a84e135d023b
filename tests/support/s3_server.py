"""An S3 server that is not ours, versitygw on loopback: it proves each signature, and keeps objects as plain files.

It is no part of the toolchain. Build it anywhere, `go install github.com/versity/versitygw/cmd/versitygw@v1.8.0` (some
minutes), and name the program by DESKYARD_S3_SERVER.
"""

import contextlib
import json
import os
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path

from deskyard.host.deadline import Deadline
from tests.support.pve.certificate import Certificates, issue
from tests.support.requirements import missing

VARIABLE = "DESKYARD_S3_SERVER"
REGION, BUCKET = "eu-test-1", "desks"
# Of its one administrator, of somebody who may write, and of one who may only read.
ADMIN, WRITER, READER = ("admin", "admin-hunter2"), ("writer", "writer-hunter2"), ("reader", "reader-hunter2")
START_SECONDS = 30.0


class S3Server:
    """Serves while its `with` block lasts; the bucket is a folder."""

    def __init__(self, folder: Path, program: str) -> None:
        self.folder, self._program = folder, program
        self.bucket, self.log = folder / "objects" / BUCKET, folder / "log"
        folder.mkdir()
        self.certificates: Certificates = issue(folder)
        (folder / "users").mkdir()
        self.bucket.mkdir(parents=True)
        self.port = _free_port()

    @property
    def location(self) -> str:
        """The address of the bucket for a site's file."""
        return f"s3:https://127.0.0.1:{self.port}/{BUCKET}/kept"

    @contextlib.contextmanager
    def running(self) -> Iterator[None]:
        """It answers, and knows its users."""
        argv = [self._program, "--port", f"127.0.0.1:{self.port}", "--region", REGION]
        argv += ["--cert", str(self.certificates.certificate), "--key", str(self.certificates.key)]
        argv += ["--iam-dir", str(self.folder / "users"), "posix", str(self.folder / "objects")]
        env = {**os.environ, "ROOT_ACCESS_KEY_ID": ADMIN[0], "ROOT_SECRET_ACCESS_KEY": ADMIN[1]}
        with self.log.open("wb") as log, subprocess.Popen(argv, env=env, stdout=log, stderr=log) as process:
            try:
                assert Deadline(START_SECONDS).wait_for(self._answers, 0.1), self.log.read_text()
                for name, secret in (WRITER, READER):
                    self._admin("create-user", "--access", name, "--secret", secret, "--role", "user")
                self._let()
                yield
            finally:
                process.kill()

    def _answers(self) -> bool:
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", self.port), timeout=1):
            return True
        return False

    def _admin(self, *arguments: str) -> None:
        env = {**os.environ, "ADMIN_ACCESS_KEY_ID": ADMIN[0], "ADMIN_SECRET_ACCESS_KEY": ADMIN[1]}
        place = ["--region", REGION, "--endpoint-url", f"https://127.0.0.1:{self.port}", "--allow-insecure"]
        argv = [self._program, "admin", *place, *arguments]
        subprocess.run(argv, env=env, check=True, timeout=60, capture_output=True)

    def _let(self) -> None:
        """Who may what in the bucket, where the server keeps it (backend/posix, `policykey`)."""
        on = [f"arn:aws:s3:::{BUCKET}", f"arn:aws:s3:::{BUCKET}/*"]
        may = {WRITER[0]: ["s3:*"], READER[0]: ["s3:ListBucket", "s3:GetObject"]}
        rules = [
            {"Effect": "Allow", "Principal": {"AWS": [who]}, "Action": actions, "Resource": on}
            for who, actions in may.items()
        ]
        os.setxattr(self.bucket, "user.policy", json.dumps({"Version": "2012-10-17", "Statement": rules}).encode())


def need_server() -> str:
    """The program; the test is left out without it, for no machine has it by itself."""
    program = os.environ.get(VARIABLE, "")
    if not program:
        missing(f"versitygw: set {VARIABLE} (tests/support/s3_server.py says how to build it)")
    return program


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as found:
        port: int = found.getsockname()[1]
        return port
