"""What the provider calls a change, and what needs a new machine."""

from typing import Any

import pytest

from deskyard.site.libvirt.kinds.domain import DomainKind
from deskyard.site.libvirt.kinds.gateway_settings import LibvirtGatewaySettingsKind
from deskyard.site.libvirt.kinds.volume import VolumeKind
from deskyard.site.proxmox.kinds.gateway_settings import ClusterGatewaySettingsKind
from deskyard.site.resource.kind import Kind
from deskyard.site.resource.values import Unknown, to_pulumi, to_python
from stacks.provider.provider import changes

NIC = {"mac": "52:54:00:00:00:01", "network": "lab", "filter": "f", "address": "10.0.0.2", "isolated": True}
MACHINE: dict[str, Any] = {
    "name": "lab-dev1",
    "machine_uuid": "0f3c1e52-8a47-4c1b-9d0e-2b6a5f7c8d91",
    "vcpus": 1,
    "memory_mib": 4096,
    "accelerator": "tcg",
    "disk": "/d",
    "seed": "/s",
    "interfaces": [NIC],
}
STATE = {**MACHINE, "uuid": "u", "running": True, "console_log": "/l"}


def _replaced(inputs: Any) -> list[str]:
    changed = changes(DomainKind(), STATE, inputs, [])
    return DomainKind().needs_replacement(STATE, inputs, changed)


def test_the_same_declaration_changes_nothing() -> None:
    assert changes(DomainKind(), STATE, MACHINE, []) == []


def test_more_memory_is_an_update_in_place() -> None:
    assert changes(DomainKind(), STATE, {**MACHINE, "memory_mib": 8192}, []) == ["memory_mib"]
    assert _replaced({**MACHINE, "memory_mib": 8192}) == []


def test_a_machine_that_was_stopped_by_hand_is_drift() -> None:
    assert changes(DomainKind(), {**STATE, "running": False}, MACHINE, []) == ["running"]


def test_another_filter_is_an_update_and_another_network_a_new_machine() -> None:
    assert _replaced({**MACHINE, "interfaces": [{**NIC, "filter": "g"}]}) == []
    assert _replaced({**MACHINE, "interfaces": [{**NIC, "network": "other"}]}) == ["interfaces"]


def test_a_disk_that_will_be_replaced_replaces_the_machine() -> None:
    assert _replaced({**MACHINE, "disk": Unknown()}) == ["disk"]


def test_a_new_image_is_ignored_where_the_program_says_so() -> None:
    state = {"name": "d", "image": "desktop", "digest": "old", "source": "/a", "size_gib": 20, "path": "/p"}
    inputs = {**state, "digest": "new", "source": "/b"}
    del inputs["path"]
    assert changes(VolumeKind(), state, inputs, ["digest"]) == []
    assert changes(VolumeKind(), state, inputs, []) == ["digest"]


@pytest.mark.parametrize(("before", "after", "refused"), [(20, 40, False), (20, 20, False), (40, 20, True)])
def test_a_disk_may_grow_and_never_shrink(before: int, after: int, refused: bool) -> None:
    assert bool(VolumeKind().check({"size_gib": before}, {"size_gib": after})) is refused


@pytest.mark.parametrize(
    ("kind", "machine"), [(LibvirtGatewaySettingsKind(), "domain"), (ClusterGatewaySettingsKind(), "vm_id")]
)
def test_settings_belong_to_one_gateway_and_are_else_changed_in_place(kind: Kind[Any], machine: str) -> None:
    changed = ["site", "workspace", machine, "settings", "certificate", "domain_name"]
    assert kind.needs_replacement({}, {}, changed) == changed[:3]


def test_values_survive_the_wire() -> None:
    values = {"a": 1, "b": "x", "c": [True, {"d": None}], "e": 1.5}
    assert to_python(to_pulumi(values)) == values


def test_what_is_not_known_yet_stays_unknown() -> None:
    assert isinstance(to_python(to_pulumi({"path": Unknown()}))["path"], Unknown)


def test_which_template_would_fit_now_says_nothing_of_a_machine_that_is_there() -> None:
    disk = {"name": "d", "image": "desktop", "digest": "a", "source": "/a", "size_gib": 20, "path": "/p"}
    wanted = {key: value for key, value in disk.items() if key != "path"}
    for before, after in (({}, {"template": "t.vda.qcow2"}), ({"template": "t.vda.qcow2"}, {})):
        assert changes(VolumeKind(), {**disk, **before}, {**wanted, **after}, []) == []
    warm = {"template": "t", "hostname": "dev1", "instance": "lab-dev1", "manager": "deskyard", "keys": []}
    for state, inputs in ((STATE, {**MACHINE, "warm": warm}), ({**STATE, "warm": warm, "started": "x"}, MACHINE)):
        assert changes(DomainKind(), state, inputs, []) == []
