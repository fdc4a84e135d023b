"""S3 servers that are not ours, on loopback by TLS of a test's authority; each proves the signature of each request.

moto is in the lock and serves everywhere: Amazon's own library proves the signatures, and rules as Amazon's say who may
what. It takes any region. versitygw asks for the right one, and is a second witness, but nothing to fetch in CI: build
it anywhere, `go install github.com/versity/versitygw/cmd/versitygw@v1.8.0` (some minutes of two processors), and name
the program by DESKYARD_S3_SERVER. Debian's Swift would bring sixty packages to each machine that Deskyard runs on, and
wants four servers.
"""

import contextlib
import json
import os
import socket
import subprocess
import sys
from abc import ABC, abstractmethod
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import boto3
import urllib3
from botocore.config import Config

from deskyard.host.deadline import Deadline
from tests.support.ports import free_ports
from tests.support.pve.certificate import Certificates, issue
from tests.support.requirements import missing

VARIABLE = "DESKYARD_S3_SERVER"
REGION, BUCKET = "eu-test-1", "desks"
# The name below which buckets are hosts; nothing resolves it but a proxy that a test has.
DOMAIN = "s3.test"
START_SECONDS = 120.0
_RIGHTS = {"admin": ["s3:*"], "writer": ["s3:*"], "reader": ["s3:ListBucket", "s3:GetObject"]}


class S3Server(ABC):
    """Serves while its `with` block lasts; has one bucket, and keys of one who may write and one who may only read."""

    admin: tuple[str, str]
    writer: tuple[str, str]
    reader: tuple[str, str]

    def __init__(self, folder: Path) -> None:
        self.folder, self.log = folder, folder / "log"
        folder.mkdir()
        self.certificates: Certificates = issue(folder, DOMAIN, f"*.{DOMAIN}")
        (self.port,) = free_ports(1)

    @property
    def location(self) -> str:
        """The address of the bucket for a site's file."""
        return f"s3:https://127.0.0.1:{self.port}/{BUCKET}/kept"

    @contextlib.contextmanager
    def running(self) -> Iterator[None]:
        """It answers, and knows its users."""
        argv, env = self._program()
        with self.log.open("wb") as log, subprocess.Popen(argv, env=env, stdout=log, stderr=log) as process:
            try:
                assert Deadline(START_SECONDS).wait_for(self._answers, 0.1), self.log.read_text()
                self._furnish()
                yield
            finally:
                process.kill()

    def names(self) -> dict[str, int]:
        """The objects of the bucket, and how long each is."""
        pages = self._client().get_paginator("list_objects_v2").paginate(Bucket=BUCKET)
        return {found["Key"]: found["Size"] for page in pages for found in page.get("Contents", ())}

    def buckets(self) -> list[str]:
        """The buckets that there are."""
        return [found["Name"] for found in self._client().list_buckets()["Buckets"]]

    def read(self, name: str) -> bytes:
        """What an object holds."""
        content: bytes = self._client().get_object(Bucket=BUCKET, Key=name)["Body"].read()
        return content

    def write(self, name: str, content: bytes) -> None:
        """Put an object there."""
        self._client().put_object(Bucket=BUCKET, Key=name, Body=content)

    def remove(self, name: str) -> None:
        """Take an object away."""
        self._client().delete_object(Bucket=BUCKET, Key=name)

    def empty(self) -> None:
        """Take all objects away."""
        for name in self.names():
            self.remove(name)

    @abstractmethod
    def _program(self) -> tuple[list[str], dict[str, str]]:
        """What to start, and its environment."""

    @abstractmethod
    def _furnish(self) -> None:
        """Make the bucket and the users."""

    def _client(self, service: str = "s3", keys: tuple[str, str] | None = None) -> Any:
        """The administrator's client."""
        name, secret = keys or self.admin
        return boto3.client(
            service,
            region_name=REGION,
            endpoint_url=f"https://127.0.0.1:{self.port}",
            verify=str(self.certificates.authority),
            aws_access_key_id=name,
            aws_secret_access_key=secret,
            config=Config(proxies={}, s3={"addressing_style": "path"}),
        )

    def _answers(self) -> bool:
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", self.port), timeout=1):
            return True
        return False


class Moto(S3Server):
    """The server of moto, which keeps objects in its memory."""

    def _program(self) -> tuple[list[str], dict[str, str]]:
        place = ["--host", "127.0.0.1", "--port", str(self.port)]
        pair = ["--ssl-cert", str(self.certificates.certificate), "--ssl-key", str(self.certificates.key)]
        return [sys.executable, "-m", "moto.server", *place, *pair], dict(os.environ)

    def _furnish(self) -> None:
        nobody = ("nobody", "nothing")
        self._client(keys=nobody).create_bucket(Bucket=BUCKET, CreateBucketConfiguration={"LocationConstraint": REGION})
        users = self._client("iam", nobody)
        for name, actions in _RIGHTS.items():
            users.create_user(UserName=name)
            made = users.create_access_key(UserName=name)["AccessKey"]
            setattr(self, name, (made["AccessKeyId"], made["SecretAccessKey"]))
            rules = [{"Effect": "Allow", "Action": actions, "Resource": "*"}]
            policy = json.dumps({"Version": "2012-10-17", "Statement": rules})
            users.put_user_policy(UserName=name, PolicyName="rights", PolicyDocument=policy)
        # From now on it proves who asks.
        with urllib3.PoolManager(ca_certs=str(self.certificates.authority)) as pool:
            address = f"https://127.0.0.1:{self.port}/moto-api/reset-auth"
            answer = pool.request("POST", address, body=b"0", headers={"Content-Type": "text/plain"})
        assert answer.status == 200, self.log.read_text()


class Versitygw(S3Server):
    """versitygw, which keeps objects as plain files."""

    admin, writer, reader = ("admin", "admin-hunter2"), ("writer", "writer-hunter2"), ("reader", "reader-hunter2")

    def __init__(self, folder: Path) -> None:
        self._path = os.environ.get(VARIABLE, "")
        if not self._path:
            missing(f"versitygw: set {VARIABLE} (tests/support/s3_server.py says how to build it)")
        super().__init__(folder)
        self._bucket = folder / "objects" / BUCKET
        (folder / "users").mkdir()
        self._bucket.mkdir(parents=True)

    def _program(self) -> tuple[list[str], dict[str, str]]:
        argv = [self._path, "--port", f"127.0.0.1:{self.port}", "--region", REGION, "--virtual-domain", DOMAIN]
        argv += ["--cert", str(self.certificates.certificate), "--key", str(self.certificates.key)]
        argv += ["--iam-dir", str(self.folder / "users"), "posix", str(self.folder / "objects")]
        return argv, {**os.environ, "ROOT_ACCESS_KEY_ID": self.admin[0], "ROOT_SECRET_ACCESS_KEY": self.admin[1]}

    def _furnish(self) -> None:
        for name, secret in (self.writer, self.reader):
            self._admin("create-user", "--access", name, "--secret", secret, "--role", "user")
        # Who may what in the bucket, where the server keeps it (backend/posix, `policykey`).
        on = [f"arn:aws:s3:::{BUCKET}", f"arn:aws:s3:::{BUCKET}/*"]
        rules = [
            {"Effect": "Allow", "Principal": {"AWS": [name]}, "Action": _RIGHTS[name], "Resource": on}
            for name in ("writer", "reader")
        ]
        os.setxattr(self._bucket, "user.policy", json.dumps({"Version": "2012-10-17", "Statement": rules}).encode())

    def _admin(self, *arguments: str) -> None:
        env = {**os.environ, "ADMIN_ACCESS_KEY_ID": self.admin[0], "ADMIN_SECRET_ACCESS_KEY": self.admin[1]}
        place = ["--region", REGION, "--endpoint-url", f"https://127.0.0.1:{self.port}", "--allow-insecure"]
        argv = [self._path, "admin", *place, *arguments]
        subprocess.run(argv, env=env, check=True, timeout=60, capture_output=True)
