"""Talks to a guest agent by way of the cluster's API."""

import time
from collections.abc import Callable, Sequence

from deskyard.errors import SiteError
from deskyard.host.deadline import Deadline
from deskyard.host.vm.agent_answer import HOST_KEY, MAX_BYTES, ed25519_key, understood, wait_for
from deskyard.site.proxmox.client import ApiError
from deskyard.site.proxmox.machine import ClusterMachine


class ClusterAgent(ClusterMachine):
    """The agent of one machine."""

    def answers(self) -> bool:
        """True if the agent answers."""
        try:
            self.client.post(f"{self._path}/ping")
        except SiteError:
            return False
        return True

    def wait(self, seconds: float, pause: Callable[[float], None] = time.sleep) -> None:
        """Wait until the agent answers; raises `SiteError` if it does not in time."""
        wait_for(self.answers, self.name, seconds, pause)

    def read_file(self, path: str) -> str:
        """The start of the text of a file of the guest."""
        with understood(self.name):
            return str(self.client.get(f"{self._path}/file-read", file=path)["content"])[:MAX_BYTES]

    def execute(self, argv: Sequence[str], stdin: str = "", seconds: float = 60) -> tuple[int, str]:
        """Run a program in the guest; returns its exit code and the start of its output."""
        deadline = Deadline(seconds)
        with understood(self.name):
            given = {"input-data": stdin} if stdin else {}
            pid = int(self.client.post(f"{self._path}/exec", command=list(argv), **given)["pid"])
            while not (status := self.client.get(f"{self._path}/exec-status", pid=pid)).get("exited"):
                if deadline.is_over:
                    raise SiteError("machine", self.name, f"{argv[0]} did not end in time", "run the command again")
                time.sleep(0.3)
            output = "".join(str(status.get(stream) or "") for stream in ("out-data", "err-data"))
            return int(status.get("exitcode", -1)), output[:MAX_BYTES]

    def restart(self) -> None:
        """Let the guest start anew; the call ends when it has begun."""
        script = "systemd-run --on-active=2 --timer-property=AccuracySec=1s systemctl reboot"
        try:
            code, output = self.execute(["/bin/sh", "-c", script])
        except ApiError:
            # It is down before it was asked how that ended: whoever waits for it sees whether it comes back.
            return
        if code != 0:
            raise SiteError("machine", self.name, f"did not begin its restart: {output[-500:]}", "see its console")

    def host_key(self) -> str:
        """The guest's SSH host key: `ssh-ed25519 AAAA...`."""
        return ed25519_key(self.read_file(HOST_KEY), self.name)

    @property
    def _path(self) -> str:
        return f"{super()._path}/agent"
