"""What programs send is what kinds expect: the names of one are those of the other."""

import ast
import inspect
import textwrap
from dataclasses import fields
from typing import Any

import pytest

from deskyard.site.libvirt.kinds import inputs as libvirt_inputs
from deskyard.site.libvirt.kinds import resources as libvirt_resources
from deskyard.site.proxmox.kinds import inputs as proxmox_inputs
from deskyard.site.proxmox.kinds import resources as proxmox_resources
from tests.support.sources import parsed

PAIRS = [
    (libvirt_resources.Network, libvirt_inputs.NetworkInputs),
    (libvirt_resources.Filter, libvirt_inputs.FilterInputs),
    (libvirt_resources.Volume, libvirt_inputs.VolumeInputs),
    (libvirt_resources.Seed, libvirt_inputs.SeedInputs),
    (libvirt_resources.Domain, libvirt_inputs.DomainInputs),
    (proxmox_resources.AppliedNetwork, proxmox_inputs.AppliedNetworkInputs),
    (proxmox_resources.Home, proxmox_inputs.HomeInputs),
    (proxmox_resources.Power, proxmox_inputs.PowerInputs),
]


def sent(resource: type) -> set[str]:
    """The names in the dictionary `inputs` of a resource's constructor; `**asdict(x)` stands for the fields of x."""
    source = textwrap.dedent(inspect.getsource(resource.__init__))  # type: ignore[misc]
    for node in ast.walk(parsed(source)):
        match node:
            case ast.Assign([ast.Name("inputs")], ast.Dict(keys, values)):
                return {name for pair in zip(keys, values, strict=True) for name in _named(resource, *pair)}
    raise AssertionError(f"{resource} has no inputs")


def _named(resource: type, key: ast.expr | None, value: ast.expr) -> set[str]:
    match key, value:
        case ast.Constant(str(name)), _:
            return {name}
        case None, ast.Call(ast.Name("asdict"), [ast.Name(argument)]):
            kind = inspect.signature(resource.__init__).parameters[argument].annotation  # type: ignore[misc]
            return {field.name for field in fields(kind)}
    raise AssertionError(f"{resource} has an input that is not understood: {ast.unparse(value)}")


@pytest.mark.parametrize(("resource", "inputs"), PAIRS, ids=[resource.__name__ for resource, _ in PAIRS])
def test_a_resource_sends_what_its_kind_expects(resource: type, inputs: Any) -> None:
    computed = {"active", "path", "applied"}
    assert sent(resource) - computed == set(inputs.__annotations__) | set(inputs.__optional_keys__)


def test_a_nic_has_the_same_names_on_both_sides() -> None:
    assert set(libvirt_resources.Interface.__annotations__) == set(libvirt_inputs.NicInputs.__annotations__)
