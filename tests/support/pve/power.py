"""The power of machines: shutting down, pausing in memory and to disk, going on; and the clocks of their guests.

Read in qemu-server 8.4.10 (PVE/API2/Qemu.pm, PVE/QemuServer.pm) and, of machines that are being backed up, 9.2.6
(e6352be6: PVE/QemuServer/RunState.pm, PVE/VZDump/QemuServer.pm), and held against its real services with a real
machine: docs/proxmox.md, "What the peer was held against".
"""

import json
import time
from collections.abc import Awaitable, Callable
from typing import Any

from aiohttp import web
from fakepve.model import PveError, TaskError
from fakepve.server import params

from tests.support.pve.faults import Faults

Values = dict[str, Any]
STATE_OPTIONS = ("lock", "vmstate", "runningmachine", "runningcpu")
PIDS_OF_CLOCKS = 900_000


class PowerApi:
    """Part of the peer; `clocks` says by how many seconds a guest's clock is off, by the id of its machine.

    `save_error` is what goes wrong where memory is written to disk; its lock then stays (vm_suspend). `ha_wishes` are
    the states that HA was told of, with the looks at each machine until it does it.
    """

    faults: Faults
    ha_wishes: dict[int, tuple[str, int]]

    save_error: str
    clocks: dict[int, float]
    halted: dict[int, float]
    clock_answers: list[str]
    require: Callable[[str, str, str], None]
    task: Callable[..., Awaitable[str]]
    find: Callable[[str, int], Any]
    vm: Callable[[int], Any]
    _powerdown: Callable[[Any, Values], Awaitable[str | None]]
    _qm_alloc: Callable[..., tuple[str, str]]
    _qm_free: Callable[[str], None]
    _active_store: Callable[[str, str], Values]

    async def _qemu_list(self, request: web.Request) -> web.Response:
        """GET /nodes/{node}/qemu: with `full` also what each machine says itself (vmstatus, qemu-server 9.2.6)."""
        answer: web.Response = await super()._qemu_list(request)  # type: ignore[misc]
        if not _true(await params(request), "full"):
            return answer
        assert isinstance(answer.body, bytes)
        rows = json.loads(answer.body)["data"]
        return web.json_response({"data": [{**row, "qmpstatus": self.vm(row["vmid"]).qmpstatus} for row in rows]})

    async def _do_shutdown(self, vm: Any, user: str, values: Values) -> str:
        """POST .../status/shutdown: one that is off has done it; one that is paused would hear it too late."""
        if vm.qmpstatus in ("paused", "prelaunch", "suspended") and not _true(values, "forceStop"):
            raise PveError(500, "VM is paused - cannot shutdown")
        if vm.ha_managed:
            return await self._ha_request(vm, user, "stopped")

        async def body() -> str | None:
            if vm.status != "running":
                return None
            _unlocked(vm)
            return await self._powerdown(vm, values)

        return await self.task(vm.node, "qmshutdown", vm.vmid, user, body, vm=vm)

    async def _do_stop(self, vm: Any, user: str, values: Values) -> str:
        """POST .../status/stop: nothing is done to one that is off, though its memory is on disk."""
        if vm.ha_managed:
            return await self._ha_request(vm, user, "stopped")

        async def body() -> None:
            if vm.status == "running":
                _unlocked(vm)
                vm.status = vm.qmpstatus = "stopped"

        return await self.task(vm.node, "qmstop", vm.vmid, user, body, vm=vm)

    async def _ha_request(self, vm: Any, user: str, state: str) -> str:
        """Hand on what is wanted of a machine under HA: the task ends before anything is done (vm_start, vm_stop)."""

        async def body() -> None:
            self.ha_wishes[vm.vmid] = (state, self.faults.late_ha)

        kind = "hastart" if state == "started" else "hastop"
        return await self.task(vm.node, kind, vm.vmid, user, body, lock=False)

    async def _status_current(self, request: web.Request) -> web.Response:
        """GET .../status/current; HA's own round comes behind so many of them."""
        answer: web.Response = await super()._status_current(request)  # type: ignore[misc]
        vm = self.vm(int(request.match_info["vmid"]))
        wish, looks = self.ha_wishes.pop(vm.vmid, (vm.ha_state, 0))
        if looks:
            self.ha_wishes[vm.vmid] = (wish, looks - 1)
        elif wish != vm.ha_state:
            vm.ha_state = wish
            vm.apply_pending()
            vm.status = vm.qmpstatus = "running" if wish == "started" and not vm.start_error else "stopped"
        return answer

    async def _do_suspend(self, vm: Any, user: str, values: Values) -> str:
        """POST .../status/suspend: `todisk` takes a volume for the memory, and locks the machine."""
        self._need_running(vm)  # type: ignore[attr-defined]
        to_disk, storage = _true(values, "todisk"), str(values.get("statestorage") or "local")
        if to_disk:
            self.require(user, f"/vms/{vm.vmid}", "VM.Config.Disk")
            self.require(user, f"/storage/{storage}", "Datastore.AllocateSpace")

        async def body() -> None:
            _unlocked(vm)
            self.halted.setdefault(vm.vmid, time.time())
            vm.qmpstatus = "paused"
            if to_disk:
                self._active_store(storage, vm.node)
                if self.save_error:
                    vm.lock = vm.config["lock"] = "suspending"
                    raise TaskError(self.save_error)
                size = int(str(vm.config.get("memory", 512))) * 1024**2
                volume, _ = self._qm_alloc(storage, vm.vmid, "raw", size)
                vm.config.update({"vmstate": volume, "runningmachine": "pc-i440fx-9.2+pve1", "lock": "suspended"})
                vm.lock, vm.status, vm.qmpstatus = "suspended", "stopped", "stopped"

        return await self.task(vm.node, "qmsuspend" if to_disk else "qmpause", vm.vmid, user, body, vm=vm)

    async def _do_start(self, vm: Any, user: str, values: Values) -> str:
        """POST .../status/start: memory that is on disk is read, and its volume goes."""
        if vm.lock == "backup" and vm.status == "running":
            # Its QEMU runs for the backup: its guest is let run in that (vm_start).
            return await self._do_resume(vm, user, values)
        saved = dict(vm.config) if vm.lock == "suspended" else {}
        upid: str = await super()._do_start(vm, user, values)  # type: ignore[misc]
        if saved and vm.status == "running":
            self._qm_free(saved["vmstate"])
            for option in STATE_OPTIONS:
                vm.config.pop(option, None)
            self._goes_on(vm)
        return upid

    async def _do_resume(self, vm: Any, user: str, values: Values) -> str:
        """POST .../status/resume: starts one whose memory is on disk; fine for one that runs."""
        if vm.lock == "suspended":
            return await self._do_start(vm, user, values)
        self._need_running(vm)  # type: ignore[attr-defined]

        async def body() -> None:
            if vm.qmpstatus != "running":
                if vm.lock != "backup":
                    _unlocked(vm)
                vm.qmpstatus = "running"
                self._goes_on(vm)

        return await self.task(vm.node, "qmresume", vm.vmid, user, body, vm=vm)

    async def _apply_config(self, vm: Any, user: str, changes: Values) -> None:
        """PUT .../config: without `vmstate` the lock goes as well; protection keeps both (update_vm_api)."""
        gone = str(changes.get("delete") or "").replace(",", " ").split()
        if "vmstate" in gone and vm.lock == "suspended":
            self.require(user, f"/vms/{vm.vmid}", "VM.Config.Disk")
            self.require(user, f"/vms/{vm.vmid}", "VM.PowerMgmt")
            if int(vm.config.get("protection") or 0):
                volume = vm.config["vmstate"]
                raise PveError(500, f"can't remove vmstate '{volume}' - protection mode enabled")
            self._qm_free(vm.config["vmstate"])
            for option in STATE_OPTIONS:
                vm.config.pop(option, None)
            vm.lock = None
            self.halted.pop(vm.vmid, None)
            return
        await super()._apply_config(vm, user, changes)  # type: ignore[misc]

    async def _agent_call(self, match: Any, values: Values) -> Any:
        """.../agent/exec of `/bin/date`: the clock of a guest, which stands still while its machine is halted."""
        vm, command = self.find(values["node"], values["vmid"]), match.template.rsplit("/", 1)[1]
        if command == "exec-status" and (number := int(values["pid"]) - PIDS_OF_CLOCKS) >= 0:
            return {"exited": 1, "exitcode": 0, "out-data": self.clock_answers[number]}
        answer = await super()._agent_call(match, values)  # type: ignore[misc]
        argv = list(values.get("command") or [])
        if command != "exec" or argv[:2] != ["/bin/date", "-u"]:
            return answer
        if argv[2] == "-s":
            self.clocks[vm.vmid] = self.clocks.get(vm.vmid, 0.0) + float(argv[3].removesuffix(" seconds"))
        self.clock_answers.append(f"{time.time() + self.clocks.get(vm.vmid, 0.0):.6f}\n")
        return {"pid": PIDS_OF_CLOCKS + len(self.clock_answers) - 1}

    def _goes_on(self, vm: Any) -> None:
        """Its clock goes on where it stood."""
        since = self.halted.pop(vm.vmid, None)
        if since is not None:
            self.clocks[vm.vmid] = self.clocks.get(vm.vmid, 0.0) + since - time.time()


def _true(values: Values, name: str) -> bool:
    return str(values.get(name, "0")) in ("1", "true")


def _unlocked(vm: Any) -> None:
    if vm.lock:
        raise TaskError(f"VM is locked ({vm.lock})")
