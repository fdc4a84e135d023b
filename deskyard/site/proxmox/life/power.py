"""The power of a machine of a cluster: what it is, what it is wanted to be, and what moves it.

Read in qemu-server 8.4.10: PVE/API2/Qemu.pm (update_vm_api, vm_shutdown, vm_suspend, vm_resume), PVE/QemuServer.pm
(vm_start, vm_stop, vm_suspend); of backups in 9.2.6 (vm_start: one that is read for a backup is let go on). A machine
whose memory is on disk is locked: nobody may change its configuration, and "stop" does nothing to it. It can be
started, or its memory be thrown away, which its protection forbids.
"""

import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any

from deskyard.errors import SiteError
from deskyard.host.deadline import Deadline
from deskyard.host.vm.agent_answer import understood
from deskyard.host.vm.clock import set_clock, shifted
from deskyard.plan.power import Power, spare
from deskyard.plan.proxmox.power_tag import held_wish, power_of, wish_of, with_held_wish, with_power
from deskyard.plan.proxmox.view import tags_of
from deskyard.site.proxmox.agent import ClusterAgent
from deskyard.site.proxmox.client import ApiError, quoted
from deskyard.site.proxmox.machine import DISK, ClusterMachine, runs
from deskyard.site.proxmox.task import kind_of, running, wait_task

START_SECONDS, STOP_SECONDS, SAVE_SECONDS = 600.0, 300.0, 1800.0
# How long a guest has to shut down, and its agent to answer once it goes on.
SHUT_DOWN_SECONDS, AGENT_SECONDS = 180, 120.0
WRITES = 5
DATE = "/bin/date"
# `query-status` of QEMU; `prelaunch` waits for its start, and `suspended` is a guest that sleeps by itself.
PAUSED = frozenset({"paused", "prelaunch", "suspended"})
CHANGED = "checksum mismatch"
GOES_BACK = "qmrollback"
# Tasks that end when HA has been told (vm_start, vm_stop, vm_shutdown), and the state that it brings about.
HANDED_ON = {"hastart": "running", "hastop": "stopped"}
LOOK_SECONDS = 1.0
# `suspending` stays where a machine's memory could not be saved.
LOCKED = "VM is locked (suspend"
STUCK = "VM is locked (rollback"


def state_of(status: Mapping[str, Any]) -> str:
    """State in the answer of `status/current`: `running`, `paused`, `saved`, `io-error` or `stopped`."""
    if not runs(status):
        return "saved" if status.get("lock") == "suspended" else "stopped"
    seen = status.get("qmpstatus")
    if seen in PAUSED:
        return "paused"
    return "io-error" if seen == "io-error" else "running"


class MachinePower(ClusterMachine):
    """The power of one machine."""

    def state(self) -> str:
        """How it is, by its own status."""
        return state_of(self.client.get(f"{self._path}/status/current"))

    def desired(self) -> Power:
        """Read what the machine is wanted to be."""
        return wish_of(self.client.get(f"{self._path}/config"))

    def want(self, power: Power) -> bool:
        """Keep what it is wanted to be, and whether it starts with its node.

        False if its memory is on disk, or on its way: then the cluster lets nobody write it.
        """
        try:
            self._configure(lambda config: _wanting(config, power))
        except ApiError as error:
            if LOCKED not in error.reason:
                raise
            return False
        return True

    def hold_wish(self) -> Power:
        """Let what it is wanted to be outlive its way back to a snapshot; `want` ends that, and `mend_wish`."""
        wish = self.desired()
        self._configure(lambda config: {"description": with_held_wish(config, wish)})
        return wish

    def mend_wish(self) -> None:
        """Write anew what it is wanted to be if it went back to a snapshot, once it has come there."""
        wish = held_wish(self.client.get(f"{self._path}/config"))
        if wish is None:
            return
        for upid in running(self.client, self.node, kind=GOES_BACK, vmid=self.vm_id):
            # Of a task that was killed. How it ended is seen in what is there.
            with suppress(SiteError):
                wait_task(self.client, upid)
        try:
            self.want(wish)
        except ApiError as error:
            # Of a rollback that broke off. What is wanted is known all the same, and written once the lock is lifted.
            if STUCK not in error.reason:
                raise

    def _configure(self, change: Callable[[Mapping[str, Any]], Mapping[str, object]]) -> None:
        """Write what `change` says of its configuration, if anything; anew if somebody else wrote it meanwhile."""
        for _ in range(WRITES):
            config = self.client.get(f"{self._path}/config")
            given = change(config)
            if not given:
                return
            try:
                self.client.put(f"{self._path}/config", **given, digest=config["digest"])
            except ApiError as error:
                if CHANGED not in error.reason:
                    raise
            else:
                return
        reason = f"somebody else changed its configuration {WRITES} times in a row"
        raise SiteError("machine", self.name, reason, "run the command again")

    def let_run(self) -> bool:
        """Let it run; whether it goes on from its memory, so that its clock has to be set."""
        before = state = self.state()
        if state in ("stopped", "saved"):
            self._task("start", START_SECONDS)
            # One that was paused when its memory went to disk may come back so.
            state = self.state() if state == "saved" else "running"
        if state in ("paused", "io-error"):
            self._task("resume", START_SECONDS)
        return before not in ("stopped", "running")

    def require_room_again(self) -> None:
        """Raise `SiteError` unless the storage of its disk has room, and some is left for others."""
        storage = str(self.client.get(f"{self._path}/config").get(DISK, "")).partition(":")[0]
        said = self.client.get(f"nodes/{self.node}/storage/{quoted(storage)}/status")
        free, kept = int(said.get("avail") or 0), spare(int(said.get("total") or 0))
        if free < kept:
            short = f"{kept - free >> 20} MiB too few: {kept >> 20} are kept for machines"
            reason = f"{free >> 20} MiB are free on {self.node}, {short}"
            raise SiteError("storage", storage, reason, "delete snapshots or backups that lie there, or add space")

    def set_clock(self, pause: Callable[[float], None] = time.sleep) -> None:
        """Set the guest's clock by its agent: the API has no call for it."""
        agent = ClusterAgent(self.client, self.node, self.vm_id)
        agent.wait(AGENT_SECONDS, pause)
        set_clock(self.name, lambda: _read_clock(agent), lambda seconds: _shift_clock(agent, seconds))

    def shut_down(self) -> None:
        """Let the guest shut down. One that is paused hears nothing: it goes on first."""
        if self.state() == "stopped":
            return
        self.let_run()
        try:
            self._task("shutdown", SHUT_DOWN_SECONDS + STOP_SECONDS, timeout=SHUT_DOWN_SECONDS, forceStop=False)
        except SiteError as error:
            if self.state() == "stopped":
                return
            if "powerdown failed" not in error.reason:
                raise
            reason = f"did not shut down within {SHUT_DOWN_SECONDS} s; it still runs"
            raise SiteError("machine", self.name, reason, "see its console, or pull its plug: --force") from error

    def pull_plug(self) -> None:
        """Stop it at once, and drop its memory.

        Memory on disk goes with its next start, and in no other way while the machine is protected.
        """
        state = self.state()
        if state == "saved":
            self.let_run()
        if state != "stopped":
            self._task("stop", STOP_SECONDS)

    def pause(self, state_storage: str | None) -> None:
        """Halt it as it is; its memory goes to that storage, or stays where it is."""
        state = self.state()
        if state == "stopped":
            raise SiteError("machine", self.name, "is off and has no memory to keep", "start it first")
        if state == "saved" or (state == "paused" and state_storage is None):
            return
        given = {} if state_storage is None else {"statestorage": state_storage}
        try:
            self._task("suspend", SAVE_SECONDS, todisk=state_storage is not None, **given)
        except SiteError as error:
            if self.client.get(f"{self._path}/status/current").get("lock") == "suspending":
                remedy = f"mend what the log names, then run on {self.node}: qm unlock {self.vm_id}"
                raise SiteError("machine", self.name, f"its memory was not saved: {error.reason}", remedy) from error
            raise

    def _task(self, verb: str, seconds: float, **params: object) -> None:
        deadline = Deadline(seconds)
        upid = self.client.post(f"{self._path}/status/{verb}", **params)
        wait_task(self.client, upid, seconds)
        wanted = HANDED_ON.get(kind_of(upid))
        if wanted and not deadline.wait_for(lambda: self.state() == wanted, LOOK_SECONDS, self.client.sleep):
            reason = f"is {self.state()}, though HA was told {seconds:.0f} s ago that it is to be {wanted}"
            raise SiteError("machine", self.name, reason, f"see ha-manager status on {self.node}, then run it again")


def _wanting(config: Mapping[str, Any], power: Power) -> dict[str, object]:
    """The options of a machine that is wanted to be so; none if it has them."""
    on_boot, is_held = power is Power.RUNNING, held_wish(config) is not None
    if power_of(tags_of(config)) is power and bool(int(config.get("onboot") or 0)) == on_boot and not is_held:
        return {}
    given = {"tags": ";".join(with_power(tags_of(config), power))}
    given |= {"description": with_held_wish(config, None)} if is_held else {}
    emptied = [option for option, value in given.items() if not value]
    left: dict[str, object] = {option: value for option, value in given.items() if value}
    return {**left, **({"delete": ",".join(emptied)} if emptied else {}), "onboot": on_boot}


def _read_clock(agent: ClusterAgent) -> float:
    with understood(agent.name):
        return float(_date(agent, "+%s.%N"))


def _shift_clock(agent: ClusterAgent, seconds: float) -> None:
    _date(agent, "-s", shifted(seconds))


def _date(agent: ClusterAgent, *words: str) -> str:
    code, output = agent.execute([DATE, "-u", *words])
    if code != 0:
        reason = f"its clock could not be set: {output[-500:]}"
        raise SiteError("machine", agent.name, reason, "set it in the guest, or restart the machine")
    return output
