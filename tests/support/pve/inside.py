"""The inside of machines: a folder for a root with the image's own files, programs that really run, and an agent.

Who answers what: qemu-server, src/PVE/API2/Qemu/Agent.pm and src/PVE/QemuServer/Agent.pm, which pass on the answers of
QEMU's qga/commands.c and qga/commands-posix.c (`guest-exec`, `guest-exec-status`, `guest-file-open`).
"""

import re
import signal
import subprocess
from collections.abc import Callable
from configparser import ConfigParser
from pathlib import Path
from typing import Any

from cryptography.hazmat.primitives import serialization as form
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from fakepve.model import PveError

from tests.support.pve.guests import nic
from tests.support.pve.image_files import lay

Values = dict[str, Any]
DOWN = "QEMU guest agent is not running"
# Where a machine's own files are, in an argument or a script.
ABSOLUTE = re.compile(r"(?<![\w.])/(?=(?:etc|sys)/)")
# A restart is noted and comes true as soon as its caller knows that it was begun; the disks of this machine stay alone.
PROGRAMS = {"systemd-run": 'case "$*" in *"systemctl reboot") : >"$ROOT/reboot" ;; *) exit 1 ;; esac', "sync": ":"}
MOST_READ = 16 << 20


class System:
    """The system of one machine, booted for the first time when it is made."""

    def __init__(self, vm: Any, root: Path, booted: "Callable[[System], None]") -> None:
        self.vm, self.root, self._booted = vm, root, booted
        # Programs that were run, with their input, in their order.
        self.ran: list[tuple[list[str], str]] = []
        self.boots, self._down = 0, 0
        # It goes down before anybody is told how the program that began it has ended.
        self.sudden = False
        self._running: dict[int, subprocess.Popen[str]] = {}
        self.host_key = Ed25519PrivateKey.generate()
        for folder in ("bin", "etc/ssh", "etc/systemd/network", "etc/cloud/cloud.cfg.d", "sys/class/net"):
            (root / folder).mkdir(parents=True)
        for name, body in PROGRAMS.items():
            (root / "bin" / name).write_text(f"#!/bin/sh\n{body}\n")
            (root / "bin" / name).chmod(0o755)
        (root / "etc/ssh/ssh_host_ed25519_key.pub").write_text(f"{self.public_key} root@{vm.name}\n")
        if vm.name.startswith("gateway."):
            lay("gateway", "/etc/systemd/network", root)
        for name in self.nics():
            # cloudinit/net/networkd.py: one file for each NIC of the first boot.
            (root / "etc/systemd/network" / f"10-cloud-init-{name}.network").write_text(f"[Match]\nName={name}\n")
        self._boot()

    @property
    def public_key(self) -> str:
        """The public half of its SSH host key."""
        public = self.host_key.public_key()
        return public.public_bytes(form.Encoding.OpenSSH, form.PublicFormat.OpenSSH).decode()

    def nics(self) -> dict[str, str]:
        """Its NICs by their names, each with its address (systemd.link, systemd.network; else what cloud-init does)."""
        found: dict[str, str] = {}
        for key in sorted(key for key in self.vm.config if re.fullmatch(r"net\d+", key)):
            mac, number = nic(str(self.vm.config[key]))["mac"].lower(), key.removeprefix("net")
            name = self._configured("link", mac).get("Link", "Name", fallback=f"eth{number}")
            address = self._configured("network", mac).get("Network", "Address", fallback="")
            if not address and not (self.root / "etc/cloud/cloud.cfg.d/99-deskyard-network.cfg").exists():
                given = dict(
                    part.partition("=")[::2] for part in self.vm.config.get(f"ipconfig{number}", "").split(",")
                )
                address = given.get("ip", "")
            found[name] = address
        return found

    def answer(self, command: str, values: Values) -> Any:
        """What the agent says; None: what every agent says."""
        if self.sudden and (self.root / "reboot").exists():
            self.end()
            self._go_down()
        if self._down:
            self._down -= 1
            if not self._down:
                self._boot()
            raise PveError(500, DOWN)
        match command:
            case "exec":
                return {"pid": self._execute(list(values["command"]), values.get("input-data", ""))}
            case "exec-status":
                return self._status(int(values["pid"]))
            case "file-read":
                return self._read(values["file"])
        return None

    def _boot(self) -> None:
        self.boots += 1
        nics = self.root / "sys/class/net"
        for old in nics.iterdir():
            old.unlink()
        for name in self.nics():
            (nics / name).touch()
        self._booted(self)

    def _execute(self, argv: list[str], stdin: str) -> int:
        self.ran.append((argv, stdin))
        pid = 1000 + len(self.ran)
        here = [self._here(word) for word in argv]
        (self.root / f"{pid}.in").write_text(self._here(stdin))
        with (
            (self.root / f"{pid}.in").open() as given,
            (self.root / f"{pid}.out-data").open("w") as out,
            (self.root / f"{pid}.err-data").open("w") as err,
        ):
            env = {"PATH": f"{self.root}/bin:/usr/bin:/bin", "ROOT": str(self.root)}
            try:
                self._running[pid] = subprocess.Popen(
                    here, stdin=given, stdout=out, stderr=err, env=env, cwd=self.root, text=True, start_new_session=True
                )
            except OSError as error:
                reason = f"Failed to execute child process “{argv[0]}” ({error.strerror})"
                raise PveError(500, f"Agent error: Guest agent command failed, error was '{reason}'") from error
        return pid

    def _status(self, pid: int) -> Values:
        """A process that has ended is told of once, and then forgotten."""
        process = self._running.get(pid)
        if process is None:
            raise PveError(500, "Agent error: Invalid parameter 'pid'")
        code = process.poll()
        if code is None:
            return {"exited": 0}
        del self._running[pid]
        if (self.root / "reboot").exists():
            self._go_down()
        ending: Values = {"exited": 1, **({"exitcode": code} if code >= 0 else {"signal": -code})}
        texts = {stream: (self.root / f"{pid}.{stream}").read_text() for stream in ("out-data", "err-data")}
        return {**ending, **{stream: text for stream, text in texts.items() if text}}

    def _go_down(self) -> None:
        (self.root / "reboot").unlink()
        self._down = 1

    def _read(self, file: str) -> Values:
        path = Path(self._here(file))
        if not path.is_file():
            reason = f"failed to open file '{file}' (mode: 'r'): No such file or directory"
            raise PveError(500, f"Agent error: {reason}")
        content = path.read_text()
        cut = {"truncated": 1} if len(content) > MOST_READ else {}
        return {"content": content[:MOST_READ], "bytes-read": len(content[:MOST_READ]), **cut}

    def end(self) -> None:
        """End what still runs in it."""
        while self._running:
            _, process = self._running.popitem()
            process.send_signal(signal.SIGKILL)
            process.wait(10)

    def _here(self, text: str) -> str:
        return ABSOLUTE.sub(f"{self.root}/", text)

    def _configured(self, kind: str, mac: str) -> ConfigParser:
        for path in sorted((self.root / "etc/systemd/network").glob(f"*.{kind}")):
            found = ConfigParser(strict=False)
            found.read_string(path.read_text())
            if found.get("Match", "MACAddress", fallback="").lower() == mac:
                return found
        return ConfigParser()


class Systems:
    """Answers for the agents of all machines: each has a system of its own from the first time that it is asked."""

    def __init__(self, machines: list[Any], folder: Path, booted: Callable[[System], None]) -> None:
        self._machines, self._folder, self._booted = machines, folder, booted
        self._made: dict[Any, System] = {}

    def __call__(self, vm: str, command: str, values: Values) -> Any:
        return self[vm].answer(command, values)

    def __getitem__(self, name: str) -> System:
        vm = next(machine for machine in self._machines if machine.name == name)
        if vm not in self._made:
            self._made[vm] = System(vm, self._folder / f"system-{len(self._made)}", self._booted)
        return self._made[vm]

    def all(self) -> list[System]:
        """Those that were asked, also of machines that are gone."""
        return list(self._made.values())

    def end(self) -> None:
        """End what still runs in them."""
        for system in self._made.values():
            system.end()
