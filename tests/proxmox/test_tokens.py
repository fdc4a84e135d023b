"""What PyPI's pulumi-proxmoxve sends, the plugin knows: tokens of resources, and names of their inputs."""

import copy
import inspect
import json
import subprocess
import typing
from importlib import metadata
from typing import Any

import grpc
import pulumi
import pulumi_proxmoxve as proxmox
import pytest
from pulumi import _types as sdk_types
from pulumi.runtime.proto import provider_pb2, provider_pb2_grpc

from deskyard.host.command import run
from deskyard.host.toolchain import TOOLS, FoundTool

# What components are made of: the one list of it. Class of the SDK -> token of the plugin.
USED: dict[type[pulumi.CustomResource], str] = {
    proxmox.Acl: "proxmoxve:index/acl:Acl",
    proxmox.PoolLegacy: "proxmoxve:index/poolLegacy:PoolLegacy",
    proxmox.VmLegacy: "proxmoxve:index/vmLegacy:VmLegacy",
    proxmox.firewall.IpsetLegacy: "proxmoxve:firewall/ipsetLegacy:IpsetLegacy",
    proxmox.firewall.OptionsLegacy: "proxmoxve:firewall/optionsLegacy:OptionsLegacy",
    proxmox.firewall.RulesLegacy: "proxmoxve:firewall/rulesLegacy:RulesLegacy",
    proxmox.sdn.Applier: "proxmoxve:sdn/applier:Applier",
    proxmox.sdn.Subnet: "proxmoxve:sdn/subnet:Subnet",
    proxmox.sdn.Vnet: "proxmoxve:sdn/vnet:Vnet",
    proxmox.sdn.zone.Simple: "proxmoxve:sdn/zone/simple:Simple",
    proxmox.sdn.zone.Vlan: "proxmoxve:sdn/zone/vlan:Vlan",
    proxmox.sdn.zone.Vxlan: "proxmoxve:sdn/zone/vxlan:Vxlan",
}


@pytest.fixture(scope="session")
def schema(plugin: FoundTool) -> dict[str, Any]:
    """The schema that the plugin carries, as it answers for it."""
    return schema_of(plugin)


def schema_of(plugin: FoundTool) -> dict[str, Any]:
    """Ask the plugin as the engine does: started, it says its port, and GetSchema answers there."""
    process = subprocess.Popen([plugin.path], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    try:
        assert process.stdout is not None
        port = int(process.stdout.readline())
        options = [("grpc.max_receive_message_length", 64 << 20)]
        with grpc.insecure_channel(f"127.0.0.1:{port}", options=options) as channel:
            grpc.channel_ready_future(channel).result(60)
            answer = provider_pb2_grpc.ResourceProviderStub(channel).GetSchema(provider_pb2.GetSchemaRequest(version=0))
        found: dict[str, Any] = json.loads(answer.schema)
        return found
    finally:
        process.kill()
        process.wait(10)


def arguments(resource: type[pulumi.CustomResource]) -> type:
    """The class of a resource's arguments."""
    module = inspect.getmodule(resource)
    found: type = getattr(module, f"{resource.__name__}Args")
    return found


def missing(schema: dict[str, Any], kind: type, properties: dict[str, Any], path: str) -> list[str]:
    """Inputs that the SDK sends and the schema does not have, the nested ones included."""
    gone = []
    for name, hint in sdk_types.input_type_types(kind).items():
        here = f"{path}.{name}"
        if name not in properties:
            gone.append(here)
            continue
        nested = properties[name].get("items", properties[name]).get("$ref", "").removeprefix("#/types/")
        for child in nested_types(hint):
            gone += missing(schema, child, schema["types"][nested]["properties"], here)
    return gone


def nested_types(hint: Any) -> set[type]:
    """The input types in a type hint: of the thing itself, or of the members of a list."""
    if isinstance(hint, type) and sdk_types.is_input_type(hint):
        return {hint}
    return set().union(*(nested_types(part) for part in typing.get_args(hint)))


def test_the_plugin_has_the_version_that_the_package_asks_for(plugin: FoundTool) -> None:
    assert run([str(plugin.path), "-version"], timeout=60).stdout.strip() == TOOLS["proxmoxve"].version
    assert metadata.version("pulumi-proxmoxve") == TOOLS["proxmoxve"].version


@pytest.mark.parametrize(("resource", "token"), USED.items(), ids=[kind.__name__ for kind in USED])
def test_each_resource_has_its_token_and_all_its_inputs(
    resource: type[pulumi.CustomResource], token: str, schema: dict[str, Any]
) -> None:
    assert resource.pulumi_type == token  # type: ignore[attr-defined]
    known = schema["resources"][token]["inputProperties"]
    assert missing(schema, arguments(resource), known, resource.__name__) == []


def test_an_input_that_the_schema_lacks_is_named(schema: dict[str, Any]) -> None:
    token = USED[proxmox.VmLegacy]
    schema = copy.deepcopy(schema)
    known = schema["resources"][token]["inputProperties"]
    del known["agent"]
    del schema["types"][known["disks"]["items"]["$ref"].removeprefix("#/types/")]["properties"]["importFrom"]
    assert missing(schema, arguments(proxmox.VmLegacy), known, "Vm") == ["Vm.agent", "Vm.disks.importFrom"]
