"""What is refused before anything is touched."""

import contextlib
import os
import shutil
import socket
from dataclasses import replace
from ipaddress import IPv4Network
from pathlib import Path
from types import SimpleNamespace

import libvirt
import pytest

from deskyard.declaration import declaration
from deskyard.declaration.declaration import Declared
from deskyard.engine import preflight
from deskyard.engine.backend import backend_of
from deskyard.errors import ConfigError, HostError
from deskyard.host import facts, toolchain
from deskyard.image.store import store
from deskyard.image.store.store import BuiltImage
from deskyard.model.quotas import Quotas
from deskyard.model.site import Site
from deskyard.plan import quota
from deskyard.plan.image.source import ImageSource
from deskyard.plan.power import NoRoom, Power
from deskyard.site.libvirt import daemon, power, storage
from deskyard.site.libvirt.limits import caps, memory
from tests.support import paper_cluster


@pytest.fixture
def declared(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Declared:
    monkeypatch.setenv("DESKYARD_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("DESKYARD_STACKS", str(tmp_path))
    monkeypatch.setenv("DESKYARD_ACCELERATOR", "tcg")
    _stack(tmp_path, "lab", "10.80.1.0/24", _free_port())
    return declaration.read("lab")


def _stack(folder: Path, name: str, network: str, port: int) -> None:
    lines = [f"deskyard:network: {network}", f"deskyard:gateway_port: {port}", "deskyard:desktops: [{name: dev1}]"]
    (folder / f"Pulumi.{name}.yaml").write_text("config:\n" + "".join(f"  {line}\n" for line in lines))


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        return int(server.getsockname()[1])


def test_overlapping_network_of_another_workspace_is_refused(declared: Declared, tmp_path: Path) -> None:
    _stack(tmp_path, "other", "10.80.1.0/24", 18555)
    with pytest.raises(ConfigError, match="overlaps workspace 'other'"):
        preflight._other_workspaces(declared)


def test_a_network_and_a_port_that_are_written_by_bare_keys_are_taken_too(declared: Declared, tmp_path: Path) -> None:
    _stack(tmp_path, "other", "10.80.1.0/24", 18555)
    path = tmp_path / "Pulumi.other.yaml"
    path.write_text(path.read_text().replace("deskyard:", ""))
    assert preflight.network_and_port("other") == (IPv4Network("10.80.1.0/24"), 18555)
    with pytest.raises(ConfigError, match="overlaps workspace 'other'"):
        preflight._other_workspaces(declared)


def test_port_of_another_workspace_is_refused(declared: Declared, tmp_path: Path) -> None:
    _stack(tmp_path, "other", "10.80.2.0/24", declared.workspace.gateway_port)
    with pytest.raises(ConfigError, match="gateway port of workspace 'other'"):
        preflight._other_workspaces(declared)


def test_an_exception_that_opens_another_workspace_is_refused(declared: Declared, tmp_path: Path) -> None:
    _stack(tmp_path, "other", "10.80.2.0/24", 9999)
    site = declared.site.model_copy(update={"egress_exceptions": (IPv4Network("10.80.2.128/25"),)})
    with pytest.raises(ConfigError, match="network of workspace 'other'"):
        preflight._other_workspaces(replace(declared, site=site))


def test_a_mac_that_another_workspace_has_is_refused(
    declared: Declared, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _stack(tmp_path, "other", "10.80.2.0/24", 18555)
    preflight._clashes(declared)
    monkeypatch.setattr("deskyard.plan.workspace.mac_address", lambda *parts: f"52:54:00:00:00:{len(parts):02x}")
    with pytest.raises(ConfigError, match=r"MAC 52:54:00:00:00:0. in common with workspace 'other'"):
        preflight._clashes(declaration.read("lab"))


@pytest.mark.parametrize(
    ("quotas", "reason"),
    [
        ({"desktops": 1}, "quotas.desktops = 1: would be 2 with workspace lab; the site grants 1"),
        ({"vcpus": 3}, "would be 4"),
        ({"memory_gib": 8}, "would be 10"),
        # Two desktops with 20 and 10 GiB, two gateways with 4.
        ({"disk_gib": 67}, "would be 68"),
    ],
)
def test_quotas_count_all_workspaces_of_the_site(
    declared: Declared, tmp_path: Path, quotas: dict[str, int], reason: str
) -> None:
    limited = replace(declared, site=declared.site.model_copy(update={"quotas": Quotas(**quotas)}))
    preflight._quotas(limited)
    _stack(tmp_path, "other", "10.80.2.0/24", 18555)
    (tmp_path / "Pulumi.broken.yaml").write_text("config: 7\n")
    with pytest.raises(ConfigError, match=reason):
        preflight._quotas(limited)
    preflight._quotas(declared)


@pytest.mark.parametrize(
    ("quotas", "reason"),
    [
        (
            {"desktops": 1},
            "quotas.each_workspace.desktops = 1: workspace lab asks for 2; the site grants each workspace 1",
        ),
        ({"vcpus": 2}, "asks for 3"),
        ({"memory_gib": 8}, "asks for 9"),
        ({"disk_gib": 63}, "asks for 64"),
    ],
)
def test_a_workspace_that_asks_for_more_than_each_may_is_refused_whatever_others_have(
    declared: Declared, tmp_path: Path, quotas: dict[str, int], reason: str
) -> None:
    granted = Quotas.check({"each_workspace": quotas}, "local.yaml")
    limited = replace(declared, site=declared.site.model_copy(update={"quotas": granted}))
    for number in (2, 3):
        _stack(tmp_path, f"other{number}", f"10.80.{number}.0/24", 18555 + number)
    preflight._quotas(limited)
    dev1 = declared.plan.desktops[0]
    dev2 = replace(dev1, name="dev2")
    with pytest.raises(ConfigError, match=reason) as caught:
        preflight._quotas(replace(limited, plan=replace(declared.plan, desktops=(dev1, dev2))))
    assert caught.value.remedy.startswith("declare fewer desktops")


def test_a_broken_file_of_another_workspace_does_not_matter(declared: Declared, tmp_path: Path) -> None:
    (tmp_path / "Pulumi.other.yaml").write_text("config: 7\n")
    preflight._other_workspaces(declared)
    preflight._clashes(declared)


def test_a_port_that_a_stranger_holds_is_refused(declared: Declared) -> None:
    with (
        socket.create_server(("127.0.0.1", declared.workspace.gateway_port)),
        pytest.raises(HostError, match="taken on"),
    ):
        preflight._port(declared)


def test_a_free_port_is_fine(declared: Declared) -> None:
    preflight._port(declared)


def _build(monkeypatch: pytest.MonkeyPatch, folder: Path, size: int) -> None:
    """Have the images of a desktop and of a gateway, of so many bytes."""
    found = {}
    for name in ("desktop", "gateway"):
        with (folder / f"{name}.qcow2").open("wb") as disk:
            disk.truncate(size)
        found[name] = ImageSource(name, "0123", str(folder / f"{name}.qcow2"))
    monkeypatch.setattr(Declared, "image_sources", lambda _: found)


def test_too_little_disk_space_is_refused(declared: Declared, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "disk_usage", lambda _: SimpleNamespace(free=3 * facts.GIB))
    _build(monkeypatch, tmp_path, facts.GIB)
    with pytest.raises(HostError, match="3 GiB are free, 2 new disk"):
        preflight._disk(declared, set())


def test_room_is_wanted_for_what_the_pool_of_disks_does_not_have_yet_whoever_asks(
    declared: Declared, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An ordinary user cannot look into the folder of the disks."""
    volumes = {f"{machine.domain}.qcow2" for machine in declared.plan.machines().values()}
    pool = SimpleNamespace(listVolumes=lambda: sorted(volumes))
    link = SimpleNamespace(listAllDomains=lambda _=0: [], storagePoolLookupByName=lambda _: pool)
    monkeypatch.setattr(daemon, "connection", lambda: contextlib.nullcontext(link))
    monkeypatch.setattr(daemon, "answers", lambda: True)
    monkeypatch.setattr(os, "access", lambda *_: False)
    monkeypatch.setattr(memory, "free_mib", lambda _: 1 << 20)
    for check in ("_routes", "_caps"):
        monkeypatch.setattr(preflight, check, lambda _: None)
    monkeypatch.setattr(shutil, "disk_usage", lambda _: SimpleNamespace(free=0))
    _build(monkeypatch, tmp_path, 8 * facts.GIB)
    preflight.check_with_hypervisor(declared)
    volumes.remove(f"{declared.plan.desktops[0].machine.domain}.qcow2")
    with pytest.raises(NoRoom, match=r"0 GiB are free, 1 new disk\(s\) need at least 24 GiB"):
        preflight.check_with_hypervisor(declared)
    # The image is there, and counted no more.
    volumes.add("desktop-0123.complete")
    with pytest.raises(NoRoom, match=r"need at least 16 GiB"):
        preflight.check_with_hypervisor(declared)


@pytest.mark.parametrize(
    ("state", "needed"),
    [
        ((False, Power.OFF), 0),
        ((False, Power.PAUSED), 0),
        ((True, Power.PAUSED), 0),
        ((True, Power.RUNNING), 0),
        ((False, Power.RUNNING), 4096),
        (None, 4096),
    ],
    ids=["stopped", "on disk", "paused", "running", "died", "new"],
)
def test_memory_is_needed_for_what_starts_and_not_for_what_was_stopped(
    declared: Declared, monkeypatch: pytest.MonkeyPatch, state: tuple[bool, Power] | None, needed: int
) -> None:
    """Of workspaces whose desktops sleep, others could not be changed otherwise."""
    gateway, desktop = (machine.domain for machine in declared.plan.machines().values())
    there = {gateway: (True, Power.RUNNING), **({desktop: state} if state else {})}
    domains = [(on, SimpleNamespace(name=lambda name=name: name)) for name, (on, _) in there.items()]
    # Of another workspace, and gone by the time that anything is asked of it.
    domains.append((True, SimpleNamespace(name=lambda: "deskyard-other.gone")))
    link = SimpleNamespace(listAllDomains=lambda active=0: [domain for on, domain in domains if on or not active])
    monkeypatch.setattr(daemon, "connection", lambda: contextlib.nullcontext(link))
    monkeypatch.setattr(storage, "volume_names", lambda _: set())
    monkeypatch.setattr(daemon, "answers", lambda: True)
    monkeypatch.setattr(power, "desired", lambda domain: there[domain.name()][1])
    for check in ("_disk", "_routes", "_caps"):
        monkeypatch.setattr(preflight, check, lambda *_: None)
    monkeypatch.setattr(memory, "free_mib", lambda _: needed)
    preflight.check_with_hypervisor(declared)
    if needed:
        monkeypatch.setattr(memory, "free_mib", lambda _: needed - 1)
        with pytest.raises(NoRoom, match=f"{needed - 1} MiB are available, 1 machine.s. to start need {needed} MiB"):
            preflight.check_with_hypervisor(declared)


def test_a_network_this_machine_routes_to_is_refused(declared: Declared, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(preflight, "_routed", lambda: iter([(IPv4Network("10.80.0.0/16"), "eth0")]))
    with pytest.raises(ConfigError, match=r"overlaps 10\.80\.0\.0/16"):
        preflight._routes(declared)


class Network:
    """A network of libvirt, which is there or was removed since it was listed."""

    def __init__(self, name: str, address: str | None) -> None:
        self._name, self._address = name, address

    def name(self) -> str:
        return self._name

    def XMLDesc(self, _: int) -> str:
        if self._address is None:
            error = libvirt.libvirtError("no such network")
            error.err = (libvirt.VIR_ERR_NO_NETWORK,)
            raise error
        return f"<network><ip address='{self._address}' netmask='255.255.255.0'/></network>"


def test_what_a_new_workspace_keeps_off_is_reached_by_this_machine_or_is_the_uplink_of_the_cluster(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    begun: list[str] = []
    link = SimpleNamespace(listAllNetworks=lambda: [Network("gone", None), Network("far", "10.81.1.1")])
    monkeypatch.setattr(daemon, "up", begun.append)
    monkeypatch.setattr(daemon, "connection", lambda: contextlib.nullcontext(link))
    monkeypatch.setattr(preflight, "_routed", lambda: iter([(IPv4Network("10.80.1.0/24"), "eth0")]))
    here = backend_of(Site.check({"accelerator": "tcg"}, "test"))
    assert (here.networks(), begun) == ([IPv4Network("10.80.1.0/24"), IPv4Network("10.81.1.0/24")], ["tcg"])
    assert backend_of(paper_cluster.rack()).networks() == [IPv4Network("198.18.0.0/20")]


def test_a_network_that_is_removed_meanwhile_is_passed_over_and_another_in_the_way_refused(
    declared: Declared, monkeypatch: pytest.MonkeyPatch
) -> None:
    listed = [Network("gone", None), Network("far", "10.81.1.1")]
    link = SimpleNamespace(listAllNetworks=lambda: listed)
    monkeypatch.setattr(daemon, "connection", lambda: contextlib.nullcontext(link))
    monkeypatch.setattr(preflight, "_routed", lambda: iter(()))
    preflight._routes(declared)
    listed.append(Network("near", "10.80.1.1"))
    with pytest.raises(ConfigError, match="of the libvirt network 'near'"):
        preflight._routes(declared)


def test_a_missing_program_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(toolchain, "locate", lambda _: Path("/bin/true"))
    monkeypatch.setattr(shutil, "which", lambda program, path: None)
    with pytest.raises(HostError, match="socat"):
        preflight._programs()


def _with_images(folder: Path, **images: str) -> Declared:
    """A workspace whose desktops have these images."""
    desktops = ", ".join(f"{{name: {name}, image: {image}}}" for name, image in images.items())
    text = f"config:\n  deskyard:network: 10.80.1.0/24\n  deskyard:desktops: [{desktops}]\n"
    (folder / "Pulumi.lab.yaml").write_text(text)
    return declaration.read("lab")


@pytest.fixture
def built(monkeypatch: pytest.MonkeyPatch) -> set[str]:
    """The images that count as built from the current sources."""
    names = {"gateway", "desktop"}

    def find(name: str) -> BuiltImage | None:
        return BuiltImage(name, f"{name}-digest", Path(f"/{name}.qcow2"), {}) if name in names else None

    monkeypatch.setattr(store, "find", find)
    return names


def test_image_that_is_not_built_is_named_with_the_command_that_builds_it(
    declared: Declared, tmp_path: Path, built: set[str]
) -> None:
    wanted = _with_images(tmp_path, a="desktop", b="mine")
    with pytest.raises(ConfigError) as caught:
        wanted.image_sources()
    assert (caught.value.value, caught.value.remedy) == ("mine", "run ./inv image.build mine")
    built.add("mine")
    assert {source.disk for source in wanted.image_sources().values()} == {
        "/desktop.qcow2",
        "/gateway.qcow2",
        "/mine.qcow2",
    }


def test_image_that_no_desktop_has_need_not_be_built(declared: Declared, tmp_path: Path, built: set[str]) -> None:
    built.remove("desktop")
    built.add("mine")
    assert _with_images(tmp_path, a="mine").image_sources().keys() == {"gateway", "mine"}


def test_image_that_nobody_declared_is_refused(declared: Declared, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="not declared under images/"):
        _with_images(tmp_path, a="absent").image_sources()


def test_image_larger_than_the_disks_of_a_tier_is_refused(
    declared: Declared, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    wanted = _with_images(tmp_path, a="desktop")
    preflight._image_disks(wanted)
    monkeypatch.setattr(preflight, "disk_gib", lambda *_: 21)
    with pytest.raises(ConfigError, match="disks of 20 GiB, image desktop needs 21 GiB") as caught:
        preflight._image_disks(wanted)
    assert caught.value.field == "Pulumi.lab.yaml: desktops[0].tier"


def test_desktops_that_the_pool_makes_ahead_need_room_too(
    declared: Declared, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seats = ", ".join(f"{{name: s{number}, lifetime: task}}" for number in range(3))
    with (tmp_path / "Pulumi.lab.yaml").open("a") as file:
        file.write("  deskyard:pool: {size: 2}\n")
    text = (tmp_path / "Pulumi.lab.yaml").read_text().replace("[{name: dev1}]", f"[{{name: dev1}}, {seats}]")
    (tmp_path / "Pulumi.lab.yaml").write_text(text)
    pooled = declaration.read("lab")
    ahead = quota.ahead(pooled.plan, pooled.workspace.pool, {pooled.plan.seats[0].machine.domain})
    assert [machine.domain for machine in ahead] == [pooled.plan.seats[1].machine.domain]
    assert quota.ahead(declared.plan, declared.workspace.pool, set()) == []
    kept = sum(machine.memory_mib for machine in pooled.plan.machines().values())
    preflight._memory(kept, list(pooled.plan.machines().values()))
    with pytest.raises(HostError, match=r"3 machine\(s\) to start, 1 of them for the pool, need"):
        preflight._memory(kept, list(pooled.plan.machines().values()), ahead)
    monkeypatch.setattr(shutil, "disk_usage", lambda _: SimpleNamespace(free=3 * facts.GIB))
    _build(monkeypatch, tmp_path, facts.GIB)
    with pytest.raises(HostError, match="3 GiB are free, 4 new disk"):
        preflight._disk(pooled, set())


def test_cap_that_this_machine_cannot_hold_is_refused_before_a_machine_is_made(
    declared: Declared, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []

    def not_held() -> dict[str, str]:
        asked.append("tried")
        return {"cpu_percent": "the hypervisor was started without the control groups"}

    monkeypatch.setattr(caps, "not_held", not_held)
    preflight._caps(declared)
    assert not asked
    dev1 = declared.plan.desktops[0]
    for cap, refused in (("cpu_percent", True), ("network_mib_per_second", False)):
        capped = replace(dev1, caps=dev1.caps.model_copy(update={cap: 20}))
        wanted = replace(declared, plan=replace(declared.plan, desktops=(capped,)))
        if refused:
            with pytest.raises(HostError, match="without the control groups") as caught:
                preflight._caps(wanted)
            assert (caught.value.field, caught.value.value) == ("tier free: cpu_percent", 20)
        else:
            preflight._caps(wanted)
