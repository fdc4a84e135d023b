"""Guests: what their configuration allows, what their start needs, what their agent answers."""

import base64
import json
import re
from collections.abc import Awaitable, Callable
from typing import Any, Protocol

from aiohttp import web
from fakepve import schema
from fakepve.model import PveError, TaskError
from fakepve.qemu import NET_MODELS

Values = dict[str, Any]
LOOPBACK = {
    "name": "lo",
    "hardware-address": "00:00:00:00:00:00",
    "ip-addresses": [{"ip-address": "127.0.0.1", "ip-address-type": "ipv4", "prefix": 8}],
}
# Who may change what (PVE/API2/Qemu.pm, check_vm_modify_config_perm), where fakepve has another idea.
CLOUD_INIT = re.compile(r"cicustom|cipassword|citype|ciuser|ciupgrade|nameserver|searchdomain|sshkeys|ipconfig\d+")
GENERAL = frozenset({"bios", "ostype", "template", "reboot", "localtime", "keyboard", "autostart", "startdate"})


class Guest(Protocol):
    """Answers for the agent in a machine."""

    def __call__(self, vm: str, command: str, values: Values) -> Any:
        """What the agent answers; None: what follows from the machine's configuration."""


class GuestApi:
    """Part of the peer. An agent answers while its machine runs and `agent` is on in its configuration."""

    answerer: Guest | None
    vms: list[Any]
    allowed: Callable[[str, str, str], bool]
    require: Callable[[str, str, str], None]
    task: Callable[..., Awaitable[str]]
    bridges: Callable[[str], set[str]]
    missing_disks: Callable[[Any], list[str]]
    sdn: dict[str, Any]
    _vm: Callable[..., Any]
    find: Callable[[str, int], Any]

    async def _config_get(self, request: web.Request) -> web.Response:
        """GET .../config: integers and booleans are numbers (PVE::QemuServer, parse_vm_config, check_type).

        What waits for the next start is in it, unless `current` is asked for (PVE::API2::Qemu, vm_config).
        """
        answer = json.loads((await super()._config_get(request)).text)  # type: ignore[misc]
        if request.query.get("current") != "1":
            waiting = self._vm(request, "VM.Audit").pending
            merged = {**answer["data"], **{key: str(value) for key, value in waiting.items()}}
            answer["data"] = {key: value for key, value in merged.items() if waiting.get(key, "") is not None}
        answer["data"] = {key: _typed(key, value) for key, value in answer["data"].items()}
        return web.json_response(answer)

    def _config_priv(self, key: str) -> str:
        """The privilege that changing an option needs."""
        if CLOUD_INIT.fullmatch(key):
            return "VM.Config.Cloudinit"
        if key in GENERAL:
            return "VM.Config.Options"
        privilege: str = super()._config_priv(key)  # type: ignore[misc]
        return privilege

    async def _apply_config(self, vm: Any, user: str, changes: Values) -> None:
        """PUT and POST .../config: a NIC needs SDN.Use on its bridge, and on the one that it leaves.

        The order of starts needs Sys.Modify on `/` (PVE/API2/Qemu.pm, check_vm_modify_config_perm).
        """
        self._may_use_bridges(user, changes)
        gone = str(changes.get("delete") or "").replace(",", " ").split()
        self._may_use_bridges(user, {key: vm.config[key] for key in (*changes, *gone) if key in vm.config})
        if "startup" in (*changes, *gone):
            self.require(user, "/", "Sys.Modify")
        await super()._apply_config(vm, user, changes)  # type: ignore[misc]
        if changes.get("tags"):
            vm.config["tags"] = ";".join(sorted(set(re.split(r"[;, ]+", str(changes["tags"]).lower()))))

    async def _qm_create(self, values: Values, user: str) -> str:
        """POST /nodes/{node}/qemu: a NIC needs SDN.Use on its bridge.

        Tags are judged by the task, before the machine is in its pool (qemu-server 9.2.0, assert_tag_permissions).
        """
        self._may_use_bridges(user, values)
        vmid = int(values["vmid"])
        if values.get("tags") and not self.allowed(user, f"/vms/{vmid}", "VM.Config.Options"):

            async def body() -> None:
                reason = f"403 Permission check failed (/vms/{vmid}, VM.Config.Options)"
                raise TaskError(f"unable to create VM {vmid} - {reason}")

            refused: str = await self.task(values["node"], "qmcreate", vmid, user, body)
            return refused
        upid: str = await super()._qm_create(values, user)  # type: ignore[misc]
        return upid

    async def _qm_clone(self, values: Values, user: str) -> str:
        """POST .../clone: as the template's NICs need."""
        self._may_use_bridges(user, self.find(values["node"], values["vmid"]).config)
        upid: str = await super()._qm_clone(values, user)  # type: ignore[misc]
        return upid

    def _may_use_bridges(self, user: str, config: Values) -> None:
        """PVE::QemuServer::check_bridge_access: a bridge that is no VNet is in the zone `localnetwork`."""
        for key in sorted(key for key in config if re.fullmatch(r"net\d+", key)):
            bridge = nic(str(config[key])).get("bridge")
            if bridge:
                zone = self.sdn["vnets"].get(bridge, {}).get("zone", "localnetwork")
                self.require(user, f"/sdn/zones/{zone}/{bridge}", "SDN.Use")

    async def _do_start(self, vm: Any, user: str, values: Values) -> str:
        """POST .../status/start: the task fails without its disks or its bridges (PVE::Storage, pve-bridge)."""
        missing = self.missing_disks(vm)
        absent = {nic(str(vm.config[key])).get("bridge") for key in vm.config if re.fullmatch(r"net\d+", key)}
        absent -= {None, *self.bridges(vm.node)}
        if missing:
            vm.start_error = f"volume '{missing[0]}' does not exist"
        elif absent:
            vm.start_error = f"bridge '{min(str(bridge) for bridge in absent)}' does not exist"
        else:
            vm.start_error = None
        upid: str = await super()._do_start(vm, user, values)  # type: ignore[misc]
        return upid

    async def _agent_call(self, match: Any, values: Values) -> Any:
        """.../agent/{command}: exec, exec-status, file-read, file-write, ping, network-get-interfaces, ..."""
        vm = self.find(values["node"], values["vmid"])
        if vm.status == "running" and not _agent_is_on(vm):
            raise PveError(500, "No QEMU guest agent configured")
        if vm.agent is None and _agent_is_on(vm):
            vm.agent = {}
        command = match.template.rsplit("/", 1)[1]
        if self.answerer is not None and vm.status == "running" and not vm.agent_hangs:
            answer = self.answerer(vm.name, command, _decoded(command, values))
            if answer is not None:
                return answer
        if command == "network-get-interfaces" and vm.agent is not None and "interfaces" not in vm.agent:
            vm.agent["interfaces"] = [LOOPBACK, *interfaces(vm.config)]
            try:
                return await super()._agent_call(match, values)  # type: ignore[misc]
            finally:
                del vm.agent["interfaces"]
        return await super()._agent_call(match, values)  # type: ignore[misc]


def nic(value: str) -> dict[str, str]:
    """Options of a NIC; `mac` is its address, behind the model or by itself (PVE::QemuServer, parse_net)."""
    options = dict(part.partition("=")[::2] for part in value.split(","))
    mac = next((options[model] for model in NET_MODELS if model in options), options.get("macaddr", ""))
    return {**options, "mac": mac}


def interfaces(config: Values) -> list[Values]:
    """What a guest that took its cloud-init configuration has: addresses of its own where one is set."""
    found = []
    for key in sorted(key for key in config if re.fullmatch(r"net\d+", key)):
        number = key.removeprefix("net")
        given = dict(part.partition("=")[::2] for part in str(config.get(f"ipconfig{number}", "")).split(","))
        interface: Values = {"name": f"eth{number}", "hardware-address": nic(str(config[key]))["mac"].lower()}
        if "/" in given.get("ip", ""):
            address, _, prefix = given["ip"].partition("/")
            interface["ip-addresses"] = [{"ip-address": address, "ip-address-type": "ipv4", "prefix": int(prefix)}]
        found.append(interface)
    return found


def _agent_is_on(vm: Any) -> bool:
    first = str(vm.config.get("agent", "0")).split(",")[0]
    return first.removeprefix("enabled=") == "1"


def _decoded(command: str, values: Values) -> Values:
    """What the guest gets: the API encodes a file's content unless it was sent encoded."""
    asked = {key: value for key, value in values.items() if key not in ("node", "vmid")}
    if command == "file-write" and not int(asked.get("encode", 1)):
        asked["content"] = base64.b64decode(asked["content"]).decode(errors="replace")
    return asked


def _typed(key: str, value: Any) -> Any:
    options = schema.load().paths["/nodes/{node}/qemu"]["POST"]["parameters"]["properties"]
    kind = options.get(key, options.get(re.sub(r"\d+$", "[n]", key), {})).get("type")
    if kind in ("integer", "boolean") and re.fullmatch(r"-?\d+", str(value)):
        return int(value)
    return value
