"""The head of saved memory is read, and written anew for another machine; `save_image.head.gz` is libvirt's own."""

import gzip
import struct
from pathlib import Path
from typing import Any
from uuid import uuid4
from xml.etree import ElementTree

import pytest

from deskyard.errors import SiteError
from deskyard.site.libvirt import documents
from deskyard.site.libvirt.warm import save_image
from deskyard.site.libvirt.warm.save_image import Head

RECORDED = gzip.decompress((Path(__file__).parent / "save_image.head.gz").read_bytes())
# What another machine's own document sets; all else is the hardware that the memory knows.
OWN = {"name", "uuid", "genid", "file", "log", "iotune", "backingStore"}


def wanted(**changed: Any) -> str:
    """The document of a machine that is to go on."""
    values: dict[str, Any] = {
        "name": "deskyard-lab.dev1",
        "uuid": str(uuid4()),
        "vcpus": 1,
        "memory_mib": 64,
        "accelerator": "tcg",
        "disk": "/pool/deskyard-lab.dev1.qcow2",
        "disk_iops": 500,
        "seed": "/pool/deskyard-lab.dev1-seed.iso",
        "interfaces": [],
        "console_log": documents.console_log("deskyard-lab.dev1"),
    }
    return documents.domain(**{**values, **changed})


def test_recorded_head_is_understood() -> None:
    head = save_image.parse(RECORDED)
    assert save_image.size(RECORDED) == len(RECORDED)
    assert ElementTree.fromstring(head.xml).findtext("name") == "deskyard-template-tiny"
    assert ElementTree.fromstring(head.cookie).find("cpu") is not None
    assert (head.runs, head.compression) == (True, save_image.RAW)


@pytest.mark.parametrize(
    "head", [save_image.parse(RECORDED), Head("<domain/>", ""), Head("<domain>ä</domain>", "<cookie/>", runs=False)]
)
def test_what_is_written_is_read_back(head: Head) -> None:
    written = save_image.write(head)
    assert (save_image.parse(written), save_image.size(written)) == (head, len(written))
    assert save_image.parse(written + b"QEVM and so on") == head


def test_another_machine_has_its_own_name_uuid_generation_disks_and_log() -> None:
    document = wanted()
    own, root = (
        ElementTree.fromstring(text)
        for text in (document, save_image.for_machine(save_image.parse(RECORDED), document).xml)
    )
    for tag in ("name", "uuid", "genid"):
        assert [element.text for element in root.iterfind(tag)] == [own.findtext(tag) or None]
    assert [source.get("file") for source in root.iterfind("./devices/disk/source")] == [
        "/pool/deskyard-lab.dev1.qcow2",
        "/pool/deskyard-lab.dev1-seed.iso",
    ]
    assert root.findtext("./devices/disk/iotune/read_iops_sec") == "500"
    assert {log.get("file") for log in root.iterfind("./devices/*/log")} == {documents.console_log("deskyard-lab.dev1")}
    assert "template" not in ElementTree.tostring(root, encoding="unicode")
    assert root.find("./devices/disk/backingStore") is None


def test_hardware_stays_that_which_the_memory_knows() -> None:
    before = save_image.parse(RECORDED)
    after = save_image.for_machine(before, wanted(memory_mib=4096, vcpus=4))
    assert after.cookie == before.cookie

    def hardware(xml: str) -> list[str]:
        root = ElementTree.fromstring(xml)
        return [
            f"{element.tag} {sorted(element.attrib.items())} {(element.text or '').strip()}"
            for element in root.iter()
            if not OWN & {element.tag, *element.attrib} and element.tag not in ("read_iops_sec", "write_iops_sec")
        ]

    assert hardware(after.xml) == hardware(before.xml)


def test_memory_that_knows_a_disk_more_is_refused() -> None:
    head = save_image.parse(RECORDED)
    more = head.xml.replace("</devices>", "<disk><target dev='vdc' bus='virtio'/></disk></devices>")
    with pytest.raises(SiteError, match="a disk vdc, which the machine lacks"):
        save_image.for_machine(Head(more, head.cookie), wanted())


@pytest.mark.parametrize(
    "broken",
    [
        pytest.param(b"", id="nothing"),
        pytest.param(RECORDED[:91], id="cut off in its numbers"),
        pytest.param(RECORDED[:2000], id="cut off in its XML"),
        pytest.param(b"LibvirtQemudPart" + RECORDED[16:], id="a save that did not end"),
        pytest.param(RECORDED[:16] + struct.pack("<I", 3) + RECORDED[20:], id="a later version"),
        pytest.param(RECORDED[:32] + struct.pack("<I", 1 << 30) + RECORDED[36:], id="a cookie outside"),
    ],
)
def test_head_of_no_known_form_is_refused(broken: bytes) -> None:
    with pytest.raises(SiteError, match="cannot be used"):
        save_image.parse(broken)
