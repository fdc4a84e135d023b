"""The XML for libvirt says what the promises need."""

from collections import Counter
from typing import Any
from xml.etree import ElementTree

import pytest

from deskyard.site.libvirt import documents
from deskyard.site.libvirt.kinds import domain

NIC = {"mac": "52:54:00:00:00:01", "network": "lab", "filter": "f", "address": "10.0.0.2", "isolated": True}
UUID = "0f3c1e52-8a47-4c1b-9d0e-2b6a5f7c8d91"


def _machine(accelerator: str) -> ElementTree.Element:
    values: dict[str, Any] = {
        "uuid": UUID,
        "vcpus": 1,
        "memory_mib": 512,
        "disk": "/d",
        "seed": "/s",
        "console_log": "/l",
    }
    return ElementTree.fromstring(
        documents.domain(name="lab-dev1", accelerator=accelerator, interfaces=[NIC], **values)
    )


@pytest.mark.parametrize(("accelerator", "kind", "cpu"), [("tcg", "qemu", "custom"), ("kvm", "kvm", "host-model")])
def test_cpu_follows_the_accelerator(accelerator: str, kind: str, cpu: str) -> None:
    root = _machine(accelerator)
    model = root.find("cpu")
    assert model is not None
    assert (root.get("type"), model.get("mode")) == (kind, cpu)


def test_no_machine_is_a_hypervisor_or_shares_a_page_of_memory() -> None:
    emulated, native = _machine("tcg"), _machine("kvm")
    off = {feature.get("name") for feature in native.iterfind("./cpu/feature[@policy='disable']")}
    assert off == {"vmx", "svm"}
    # QEMU emulates no nested VMX, and only AMD's models have SVM.
    assert emulated.findtext("./cpu/model") == "Nehalem"
    for root in (emulated, native):
        assert root.find("./memoryBacking/nosharepages") is not None


def test_a_machine_has_no_display_and_no_balloon() -> None:
    root = _machine("tcg")
    assert root.find("./devices/graphics") is None
    balloon = root.find("./devices/memballoon")
    assert balloon is not None
    assert balloon.get("model") == "none"


# All there is between a machine and its host: no folder, no clipboard, no memory and no device is shared.
DEVICES = {"disk": 2, "interface": 1, "serial": 1, "console": 1, "channel": 1, "rng": 1, "video": 1, "memballoon": 1}


def _devices(root: ElementTree.Element) -> dict[str, int]:
    devices = root.find("devices")
    assert devices is not None
    return dict(Counter(device.tag for device in devices))


@pytest.mark.parametrize("accelerator", ["tcg", "kvm"])
def test_a_machine_shares_no_folder_clipboard_or_device(accelerator: str) -> None:
    root = _machine(accelerator)
    assert _devices(root) == DEVICES
    channels = [target.get("name") for target in root.iterfind("./devices/channel/target")]
    assert channels == ["org.qemu.guest_agent.0"]
    assert root.find("{http://libvirt.org/schemas/domain/qemu/1.0}commandline") is None
    assert "9p" not in ElementTree.tostring(root, encoding="unicode")


@pytest.mark.parametrize("added", ["filesystem", "shmem", "hostdev", "redirdev", "graphics"])
def test_a_shared_thing_would_be_noticed(added: str) -> None:
    root = _machine("tcg")
    devices = root.find("devices")
    assert devices is not None
    ElementTree.SubElement(devices, added)
    assert _devices(root) != DEVICES


@pytest.mark.parametrize("peers", [False, True])
def test_a_desktops_filter_ends_in_a_drop_of_everything_and_knows_no_ipv6(peers: bool) -> None:
    text = documents.desktop_filter("lab-desktop", "52:54:00:00:00:02", "10.0.0.1", peers=peers)
    rules = ElementTree.fromstring(text).findall("rule")
    last = max(rules, key=lambda rule: int(rule.get("priority", "0")))
    assert (last.get("action"), last.get("direction"), [child.tag for child in last]) == ("drop", "inout", ["mac"])
    assert {child.tag for rule in rules for child in rule} == {"arp", "ip", "mac"}
    sent = [rule[0] for rule in rules if (rule.get("action"), rule.get("direction")) == ("accept", "out")]
    assert all(match.get("srcmacaddr") == "$MAC" for match in sent)
    assert {match.get("srcipaddr") or match.get("arpsrcipaddr") for match in sent} == {"$IP", "0.0.0.0"}
    if not peers:
        assert {match.get("dstmacaddr") for match in sent} == {"52:54:00:00:00:02", documents.BROADCAST}


def test_a_nic_is_isolated_and_bound_to_its_address() -> None:
    nic = ElementTree.fromstring(documents.interface(NIC))
    port, address = nic.find("port"), nic.find("filterref/parameter[@name='IP']")
    assert port is not None
    assert address is not None
    assert (port.get("isolated"), address.get("value")) == ("yes", "10.0.0.2")


def test_the_host_has_an_address_on_the_uplink_only() -> None:
    inside = ElementTree.fromstring(documents.network("lab", "dyw1", "10.80.1.0/25", None))
    uplink = ElementTree.fromstring(documents.network("lab-uplink", "dyu1", "10.80.1.248/29", "10.80.1.249"))
    assert (inside.find("ip"), inside.find("forward")) == (None, None)
    address = uplink.find("ip")
    assert address is not None
    assert (address.get("address"), address.get("netmask")) == ("10.80.1.249", "255.255.255.248")


def test_names_are_escaped() -> None:
    assert "<x>" not in documents.volume("<x>", 1, "raw")


@pytest.mark.parametrize("percent", [None, 10, 250])
@pytest.mark.parametrize("mib", [None, 3])
def test_processor_time_and_network_are_read_as_they_were_written(percent: int | None, mib: int | None) -> None:
    nic = NIC if mib is None else {**NIC, "mib_per_second": mib}
    given: dict[str, Any] = {"name": "lab-dev1", "uuid": UUID, "vcpus": 1, "memory_mib": 512, "accelerator": "tcg"}
    given |= {"disk": "/d", "seed": "/s", "console_log": "/l"}
    xml = documents.domain(**given, interfaces=[nic], cpu_percent=percent)
    root = ElementTree.fromstring(xml)
    assert (root.find("cputune") is None) == (percent is None)
    assert (root.find("./devices/interface/bandwidth") is None) == (mib is None)
    found = domain._hardware(xml, {})
    assert found["cpu_percent"] == percent
    assert found["interfaces"] == [nic]
    if percent is not None:
        # Microseconds of processor time in each tenth of a second.
        assert root.findtext("./cputune/global_quota") == str(percent * 1000)
    for way in root.iterfind("./devices/interface/bandwidth/*"):
        assert way.get("average") == str((mib or 0) * 1024)


@pytest.mark.parametrize(
    ("iops", "mib", "limits"),
    [
        (None, None, {}),
        (500, None, {"read_iops_sec": "500", "write_iops_sec": "500"}),
        (None, 20, {"read_bytes_sec": "20971520", "write_bytes_sec": "20971520"}),
    ],
)
def test_disks_have_the_caps_of_their_tier_and_the_seed_none(
    iops: int | None, mib: int | None, limits: dict[str, str]
) -> None:
    xml = documents.domain(
        name="lab-dev1",
        uuid=UUID,
        vcpus=1,
        memory_mib=512,
        accelerator="tcg",
        disk="/d",
        home="/h",
        disk_iops=iops,
        disk_mib_per_second=mib,
        seed="/s",
        interfaces=[NIC],
        console_log="/l",
    )
    disks = ElementTree.fromstring(xml).findall("./devices/disk")
    assert [{limit.tag: limit.text for limit in disk.iterfind("iotune/*")} for disk in disks] == [limits, {}, limits]


@pytest.mark.parametrize(
    ("burst", "limits"),
    [
        ({}, set()),
        ({"disk_burst_iops": 900, "disk_burst_seconds": 1}, {("iops_sec_max", "900"), ("iops_sec_max_length", "1")}),
        (
            {"disk_burst_iops": 900, "disk_burst_mib_per_second": 2, "disk_burst_seconds": 30},
            {
                ("iops_sec_max", "900"),
                ("iops_sec_max_length", "30"),
                ("bytes_sec_max", "2097152"),
                ("bytes_sec_max_length", "30"),
            },
        ),
    ],
)
def test_bursts_of_a_disk_are_read_as_they_were_written(burst: dict[str, Any], limits: set[tuple[str, str]]) -> None:
    given: dict[str, Any] = {"name": "lab-dev1", "uuid": UUID, "vcpus": 1, "memory_mib": 512, "accelerator": "tcg"}
    given |= {"disk": "/d", "seed": "/s", "console_log": "/l", "interfaces": [], "home": "/h"}
    xml = documents.domain(**given, disk_iops=100, disk_mib_per_second=1, **burst)
    for disk in ElementTree.fromstring(xml).iterfind("./devices/disk[iotune]"):
        written = {(limit.tag, limit.text) for limit in disk.iterfind("iotune/*") if "max" in limit.tag}
        assert written == {(f"{way}_{name}", value) for name, value in limits for way in ("read", "write")}
    found = domain._hardware(xml, {})
    assert {cap: found[cap] for cap in domain.DISK_CAPS if "burst" in cap and found[cap] is not None} == burst


def test_length_that_libvirt_keeps_of_a_burst_that_was_lifted_is_no_drift() -> None:
    limits = "<iotune><read_iops_sec>9</read_iops_sec><read_iops_sec_max_length>1</read_iops_sec_max_length></iotune>"
    root = ElementTree.fromstring(f"<domain><devices><disk>{limits}</disk></devices></domain>")
    assert domain._disk_caps(root)["disk_burst_seconds"] is None


def test_burst_of_one_way_alone_is_drift() -> None:
    limits = "<iotune><read_iops_sec_max>900</read_iops_sec_max></iotune>"
    root = ElementTree.fromstring(f"<domain><devices><disk>{limits}</disk></devices></domain>")
    found = domain._disk_caps(root)
    assert (found["disk_burst_iops"], found["disk_burst_seconds"]) == (None, None)
