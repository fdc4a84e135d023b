"""Gateways' doors for their manager: real SSH on loopback, behind it a program that hears what it is told.

`ssh` is led to the door of an address by a program of that name before the real one on PATH, so that the addresses of
the Plan need not be anywhere. A door lets in whom cloud-init was told to let in, and judges settings and certificates
with the gateway's own code.
"""

import asyncio
import json
import shlex
import shutil
import threading
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import asyncssh

from deskyard.errors import GatewayError
from deskyard.gateway.machine import tls
from deskyard.wire import gateway_settings

PROGRAM = ["sudo", "deskyard-gateway"]
# How a program of deskyard/guest begins: the account and the key of `link` come so.
PYTHON = ["sudo", "-n", "python3"]
LINK = "link"
SECONDS = 30
SSH = """#!/bin/sh
printf '%s\\n' "$*" >>'{log}'
exec '{ssh}' -o 'ProxyCommand={way} %h %p' "$@"
"""
WAY = """#!/bin/sh
port=$(cat '{doors}'/"$1:$2") || exit 1
exec socat - "TCP:127.0.0.1:$port"
"""


@dataclass(frozen=True)
class Heard:
    """A command that came over SSH, with its input."""

    command: str
    stdin: str


class GatewayProgram:
    """`deskyard-gateway` of one gateway, without the programs that it would put to work."""

    def __init__(self, folder: Path) -> None:
        self._key_file = folder / "key.pem"
        self.settings: gateway_settings.Settings | None = None
        self.pair: tls.Pair | None = None
        self.heard: list[Heard] = []

    def commands(self) -> list[str]:
        """What was asked, without what only looks whether it is there."""
        commands = [call.command for call in self.heard if call.command != "true"]
        said = [LINK if shlex.split(text)[:3] == PYTHON else text for text in commands]
        return [text.removeprefix("sudo deskyard-gateway ") for text in said]

    def run(self, command: str, stdin: str) -> tuple[int, str]:
        """Exit code and output."""
        self.heard.append(Heard(command, stdin))
        words = shlex.split(command)
        if words == ["true"]:
            return 0, ""
        if words[:3] == PYTHON:
            return 0, json.dumps({"changed": []})
        answers: dict[str, Callable[[str], str]] = {
            "apply": self._apply,
            "csr": self._csr,
            "certificate": self._certificate,
            "status": self._status,
        }
        if words[:2] != PROGRAM or words[2] not in answers:
            return 127, f"{command}: command not found\n"
        try:
            return 0, answers[words[2]](stdin)
        except GatewayError as error:
            return 1, json.dumps({"error": error.as_dict()})

    def _apply(self, stdin: str) -> str:
        self.settings = gateway_settings.parse(stdin)
        return json.dumps({"changed": ["settings"]})

    def _csr(self, _: str) -> str:
        return tls.request(tls.ensure_key(self._key_file), self._known().hostname)

    def _certificate(self, stdin: str) -> str:
        own = self._key_file.read_text() if self._key_file.exists() else None
        self.pair = tls.check(stdin, own, self._known().hostname)
        return json.dumps({"changed": ["certificate"]})

    def _status(self, _: str) -> str:
        routes = {
            desktop.name: {route: {"ready": True} for route in desktop.routes} for desktop in self._known().desktops
        }
        return json.dumps({"ready": True, "gateway_ready": True, "services": {}, "desktops": routes})

    def _known(self) -> gateway_settings.Settings:
        if self.settings is None:
            raise GatewayError("settings", None, "there are none yet", "run `deskyard-gateway apply` first")
        return self.settings


@dataclass(frozen=True)
class Door:
    """What stands at an address: its host key as PEM, whom it lets in, and what runs behind it."""

    host_key: str
    user: str
    authorized_keys: str
    program: GatewayProgram


class Street:
    """Doors at addresses, while its `with` block lasts."""

    def __init__(self, folder: Path) -> None:
        self._doors, self.log = folder / "doors", folder / "ssh.log"
        self._doors.mkdir(parents=True)
        self.log.touch()
        self.programs = folder / "bin"
        self.programs.mkdir()
        real = shutil.which("ssh")
        way = self._script(folder / "way", WAY.format(doors=self._doors))
        self._script(self.programs / "ssh", SSH.format(log=self.log, ssh=real, way=way))
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="street", daemon=True)
        self._servers: list[Any] = []

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        asyncio.run_coroutine_threadsafe(self._close(), self._loop).result(SECONDS)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(SECONDS)
        self._loop.close()

    def open(self, address: str, door: Door) -> None:
        """Put a door at an address, in place of the one that was there."""
        port = asyncio.run_coroutine_threadsafe(self._listen(door), self._loop).result(SECONDS)
        (self._doors / f"{address}:22").write_text(str(port))

    def shut(self, address: str) -> None:
        """Nobody is at this address any more."""
        (self._doors / f"{address}:22").unlink(missing_ok=True)

    @staticmethod
    def _script(path: Path, text: str) -> Path:
        path.write_text(text)
        path.chmod(0o755)
        return path

    async def _listen(self, door: Door) -> int:
        server = await asyncssh.listen(
            "127.0.0.1",
            0,
            server_factory=lambda: _Doorkeeper(door),
            server_host_keys=[asyncssh.import_private_key(door.host_key)],
            process_factory=lambda process: _serve(process, door.program),
        )
        self._servers.append(server)
        return server.get_port()

    async def _close(self) -> None:
        for server in self._servers:
            server.close()
            await server.wait_closed()


class _Doorkeeper(asyncssh.SSHServer):
    """Keys alone, as the gateway's sshd."""

    def __init__(self, door: Door) -> None:
        self._door = door

    def begin_auth(self, username: str) -> bool:
        return True

    def public_key_auth_supported(self) -> bool:
        return True

    def validate_public_key(self, username: str, key: asyncssh.SSHKey) -> bool:
        shown = key.export_public_key().decode().split()[:2]
        keys = [line.split()[:2] for line in self._door.authorized_keys.splitlines()]
        return username == self._door.user and shown in keys


async def _serve(process: "asyncssh.SSHServerProcess[str]", program: GatewayProgram) -> None:
    stdin = await process.stdin.read()
    code, output = program.run(process.command or "", stdin)
    process.stdout.write(output)
    process.exit(code)
