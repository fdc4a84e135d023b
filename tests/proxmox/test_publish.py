"""Publishing: a template on every node, finished or not seen, whatever happens on the way."""

import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from deskyard.errors import SiteError
from deskyard.image.publish.draft import HARDWARE
from deskyard.image.publish.publish import Publication, Publisher
from deskyard.image.store.store import BuiltImage
from deskyard.site.proxmox import listing, templates
from deskyard.site.proxmox.machine import ensure_pool
from tests.proxmox.site_on_peer import DIGEST, DISK_BYTES, Rack, built_image
from tests.support.pve.calls import Call
from tests.support.pve.peer import Peer

LOCAL: dict[str, Any] = {"storages": {"images": "local", "disks": "local-lvm"}}
SHARED: dict[str, Any] = {"storages": {"images": "shared", "disks": "shared"}}
Publish = Callable[..., Publication]


@pytest.fixture(autouse=True)
def own_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DESKYARD_HOME", str(tmp_path / "home"))


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Peer]:
    with Peer(tmp_path, nodes=2) as running:
        yield running


@pytest.fixture
def image(tmp_path: Path) -> BuiltImage:
    return built_image(tmp_path / "images")


@pytest.fixture
def rack(server: Peer, tmp_path: Path) -> Rack:
    return Rack(server, tmp_path, **LOCAL)


def publish(rack: Rack, image: BuiltImage, *, by: str = "me", dry_run: bool = False, **pace: float) -> Publication:
    return Publisher(image, rack.site, rack.client(**pace), by).run(dry_run)


def assert_whole(rack: Rack, nodes: tuple[str, ...] = ("pve1", "pve2"), digest: str = DIGEST) -> None:
    """One finished template on each node, nothing half, no upload left."""
    found = templates.read(listing.resources(rack.client()), rack.cluster)
    assert [(image.node, image.digest, image.draft, image.template) for image in found] == [
        (node, digest, False, True) for node in nodes
    ]
    assert len(rack.fake.vms) == len(nodes)
    for vm in rack.fake.vms:
        assert rack.fake.missing_disks(vm) == []
        assert vm.config["name"] == f"deskyard-desktop-{digest}"
        assert "lock" not in vm.config
    disks = rack.cluster.storages.of_templates
    assert {row for row in rack.volumes(disks) if "import/" not in row} == {
        vm.config["scsi0"].partition(",")[0].partition(":")[2] for vm in rack.fake.vms
    }
    assert not any(name.startswith("import/") for name in rack.volumes(rack.cluster.storages.images))


def test_image_becomes_a_template_on_every_node_with_the_hardware_of_a_desktop(rack: Rack, image: BuiltImage) -> None:
    done = publish(rack, image)
    assert done.made == ("pve1", "pve2")
    assert set(done.templates) == {"pve1", "pve2"}
    assert_whole(rack)
    config = rack.client().get(f"nodes/pve1/qemu/{done.templates['pve1']}/config")
    for name, value in HARDWARE.items():
        assert str(config[name]) == str(int(value) if isinstance(value, bool) else value)
    assert config["agent"] == "enabled=1"
    assert "size=1G" in config["scsi0"]
    assert not [key for key in config if key.startswith(("net", "ide", "unused"))]
    first = rack.cluster.vm_ids.first
    assert sorted(done.templates.values()) == [first, first + 1]


def test_second_run_changes_nothing(rack: Rack, image: BuiltImage) -> None:
    before = publish(rack, image)
    rack.fake.calls.clear()
    after = publish(rack, image)
    assert after.templates == before.templates
    assert not after.changed
    assert [str(call) for call in rack.fake.calls if call.writes] == []


def test_dry_run_says_what_the_run_does_and_writes_nothing(rack: Rack, image: BuiltImage) -> None:
    assert publish(rack, image, dry_run=True).made == ("pve1", "pve2")
    assert [str(call) for call in rack.fake.calls if call.writes] == []


def test_shared_storage_gets_one_upload_and_one_template_for_all_nodes(
    server: Peer, tmp_path: Path, image: BuiltImage
) -> None:
    rack = Rack(server, tmp_path, **SHARED)
    done = publish(rack, image)
    assert done.made == ("pve1",)
    assert done.templates == dict.fromkeys(("pve1", "pve2"), rack.cluster.vm_ids.first)
    assert_whole(rack, ("pve1",))
    assert sum(call.path.endswith("/upload") for call in rack.fake.calls) == 1


def test_only_the_chosen_nodes_get_a_template(server: Peer, tmp_path: Path, image: BuiltImage) -> None:
    rack = Rack(server, tmp_path, nodes={"only": ["pve2"]}, **LOCAL)
    assert publish(rack, image).made == ("pve2",)
    assert_whole(rack, ("pve2",))


def test_taken_id_is_left_to_whom_it_belongs(rack: Rack, image: BuiltImage) -> None:
    first = rack.cluster.vm_ids.first
    root = rack.peer.client()
    root.finish("POST", "/nodes/pve1/qemu", vmid=first, name="foreign")
    assert sorted(publish(rack, image).templates.values()) == [first + 1, first + 2]
    assert [vm.name for vm in rack.fake.vms if vm.vmid == first] == ["foreign"]


def test_file_that_is_damaged_on_its_way_is_refused_by_the_far_side(rack: Rack, image: BuiltImage) -> None:
    wrong = replace(image, manifest={**image.manifest, "sha256": "0" * 64})
    with pytest.raises(SiteError, match="checksum mismatch"):
        publish(rack, wrong)
    assert templates.find(listing.resources(rack.client()), rack.cluster, "desktop", DIGEST) == {}


def test_file_that_lies_there_is_not_sent_again(rack: Rack, image: BuiltImage) -> None:
    publisher = Publisher(image, rack.site, rack.client(), "me")
    rack.fake.store_file("local", publisher.file.name, publisher.file.size, "import")
    rack.fake.storages["local"]["volumes"][publisher.file.volume]["virtual"] = DISK_BYTES
    publisher.run()
    assert_whole(rack)
    assert not any(call.path.endswith("/upload") for call in rack.fake.calls)


def test_cut_off_file_is_sent_again(rack: Rack, image: BuiltImage) -> None:
    publisher = Publisher(image, rack.site, rack.client(), "me")
    rack.fake.store_file("local", publisher.file.name, publisher.file.size - 1, "import")
    publisher.run()
    assert_whole(rack)
    assert any(call.path.endswith("/upload") for call in rack.fake.calls)


def test_full_storage_is_named_and_nothing_half_stays(rack: Rack, image: BuiltImage) -> None:
    rack.fake.storages["local-lvm"]["avail"] = DISK_BYTES // 2
    with pytest.raises(SiteError, match="No space left on device"):
        publish(rack, image)
    assert rack.fake.vms == []
    rack.fake.storages["local-lvm"]["avail"] = 8 * DISK_BYTES
    publish(rack, image)
    assert_whole(rack)


def test_missing_privilege_is_named_and_not_tried_again(rack: Rack, image: BuiltImage) -> None:
    rack.fake.roles["DeskyardImages"].discard("Datastore.AllocateTemplate")
    with pytest.raises(SiteError, match=r"403.*AllocateTemplate") as error:
        publish(rack, image)
    assert "site.check" in error.value.remedy
    # Both nodes, once each.
    assert sum(call.path.endswith("/upload") for call in rack.fake.calls) == 2
    rack.grant()
    publish(rack, image)
    assert_whole(rack)


@pytest.mark.parametrize("task", ["qmconfig", "qmtemplate"])
def test_disk_that_is_missing_after_a_good_task_is_no_success(rack: Rack, image: BuiltImage, task: str) -> None:
    def lose(call: Call) -> None:
        if call.path.endswith("/status") and f":{task}:" in call.path:
            rack.fake.storages["local-lvm"]["volumes"].clear()

    rack.fake.faults.on_call = lose
    with pytest.raises(SiteError, match="is not there, although its import ended well"):
        publish(rack, image)
    assert templates.find(listing.resources(rack.client()), rack.cluster, "desktop", DIGEST) == {}
    rack.fake.faults.on_call = None
    publish(rack, image)
    assert_whole(rack)


def test_slow_tasks_are_waited_for(rack: Rack, image: BuiltImage) -> None:
    rack.fake.faults.slow_tasks.update({"imgcopy": 0.3, "qmconfig": 0.3, "qmtemplate": 0.3})
    publish(rack, image)
    assert_whole(rack)


def test_an_upload_whose_answer_was_lost_is_waited_for_at_the_node_that_was_asked(
    server: Peer, tmp_path: Path, image: BuiltImage
) -> None:
    rack = Rack(server, tmp_path, nodes={"only": ["pve2"]}, **LOCAL)
    faults = rack.fake.faults

    def cut(call: Call) -> None:
        if call.path.endswith("/upload"):
            faults.cuts[call.number] = "after"

    faults.slow_tasks["imgcopy"], faults.on_call = 0.5, cut
    publish(rack, image, attempts=1)
    faults.on_call = None
    assert {task["node"] for task in rack.fake.tasklog if task["type"] == "imgcopy"} == {"pve1"}
    assert sum(call.path.endswith("/upload") for call in rack.fake.calls) == 1
    assert_whole(rack, ("pve2",))


@pytest.mark.parametrize("kind", [LOCAL, SHARED], ids=["local", "shared"])
def test_two_publishers_at_once_make_one_template_a_node(
    server: Peer, tmp_path: Path, image: BuiltImage, kind: dict[str, Any]
) -> None:
    rack = Rack(server, tmp_path, **kind)
    rack.fake.faults.slow_tasks["qmconfig"] = 0.1
    failures: list[BaseException] = []

    def publish_by(by: str) -> None:
        try:
            publish(rack, image, by=by)
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=publish_by, args=(name,)) for name in ("one", "two")]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(120)
    assert failures == []
    assert_whole(rack, ("pve1", "pve2") if kind is LOCAL else ("pve1",))


# What an image needs from begin to end is this many calls at most; the tests below stop at each of them.
@pytest.fixture
def one_node(server: Peer, tmp_path: Path) -> Rack:
    return Rack(server, tmp_path, nodes={"only": ["pve1"]}, **LOCAL)


@pytest.mark.parametrize("when", ["before", "after"])
def test_run_that_is_cut_at_any_writing_call_is_finished_by_the_next(
    one_node: Rack, image: BuiltImage, when: Any, tmp_path: Path
) -> None:
    rack = one_node
    publish(rack, image)
    writing = [call.number for call in rack.fake.calls if call.writes]
    assert len(writing) >= 6
    for number in writing:
        reset(rack)
        rack.fake.faults.cuts[number] = when
        try:
            publish(rack, image, attempts=1)
        except SiteError as error:
            assert "no answer" in error.reason
        rack.fake.faults.cuts.clear()
        publish(rack, image)
        assert_whole(rack, ("pve1",))


def reset(rack: Rack) -> None:
    """An empty cluster again, that counts its calls from 1."""
    rack.fake.vms.clear()
    for storage in rack.fake.storages.values():
        storage["volumes"].clear()
    for members in rack.fake.pools.values():
        members.clear()
    rack.fake.pools.clear()
    rack.fake.pool_info.clear()
    rack.fake.calls.clear()


# Retention


def clone(rack: Rack, template: int, vmid: int) -> None:
    ending = rack.peer.client().finish("POST", f"/nodes/pve1/qemu/{template}/clone", newid=vmid, full=0)
    assert ending == "OK"


def test_superseded_images_go_and_the_newest_stay(
    one_node: Rack, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = count(1_700_000_000)
    monkeypatch.setattr(Publisher, "_now", lambda _: next(clock))
    cluster = one_node.cluster.model_copy(update={"keep_images": 2})
    rack = one_node
    rack.site = rack.site.model_copy(update={"proxmox": cluster})
    rack.cluster = cluster
    digests = [f"{number:016x}" for number in range(1, 4)]
    images = [built_image(tmp_path / "more", digest) for digest in digests]
    for built in images[:2]:
        publish(rack, built)
    before = templates.find(listing.resources(rack.client()), cluster, "desktop", digests[0])
    would = publish(rack, images[2], dry_run=True)
    assert would.removed == (f"pve1/{before['pve1']}",)
    done = publish(rack, images[2])
    assert f"pve1/{before['pve1']}" in done.removed
    found = templates.published(listing.resources(rack.client()), cluster)
    assert {image.digest for image in found} == set(digests[1:])


def test_image_with_linked_clones_stays(server: Peer, tmp_path: Path) -> None:
    rack = Rack(server, tmp_path, keep_images=1, nodes={"only": ["pve1"]}, **SHARED)
    old, new = (built_image(tmp_path / "more", f"{number:016x}") for number in (1, 2))
    template = publish(rack, old).templates["pve1"]
    clone(rack, template, 30_000)
    done = publish(rack, new)
    assert done.kept_in_use == (f"pve1/{template}",)
    assert template in {vm.vmid for vm in rack.fake.vms}
    rack.peer.client().finish("DELETE", "/nodes/pve1/qemu/30000")
    assert f"pve1/{template}" in publish(rack, new).removed


def test_draft_of_an_image_that_nobody_builds_any_more_goes(one_node: Rack, tmp_path: Path) -> None:
    rack = one_node
    old, new = (built_image(tmp_path / "more", f"{number:016x}") for number in (1, 2))
    rack.fake.storages["local-lvm"]["avail"] = 8 * DISK_BYTES
    rack.fake.faults.silent_from = None
    publisher = Publisher(old, rack.site, rack.client(), "me")
    ensure_pool(publisher.client, publisher._pool, "of the test")
    draft = publisher._claim("pve1")
    assert draft is not None
    assert f"pve1/{draft.vmid}" in publish(rack, new).removed
    assert_whole(rack, ("pve1",), f"{2:016x}")


def test_a_draft_gets_its_tags_once_it_is_in_its_pool(rack: Rack, image: BuiltImage) -> None:
    """From qemu-server 9.2.0 on, tags of a machine that is made take a right on its id, which the token has not."""
    assert publish(rack, image).made == ("pve1", "pve2")
    made = [call for call in rack.fake.calls if call.method == "POST" and call.path.endswith("/qemu")]
    assert [call.parameters.keys() & {"tags", "pool"} for call in made] == [{"pool"}, {"pool"}]
    with rack.peer.client(f"{rack.client().token.id}={rack.client().token.secret}") as client:
        client.ask("POST", "/pools", poolid="desk")
        where = {"vmid": rack.cluster.vm_ids.first + 9, "pool": "desk"}
        ended = client.finish("POST", "/nodes/pve1/qemu", **where, tags="mine")
        assert ended.endswith(f"403 Permission check failed (/vms/{where['vmid']}, VM.Config.Options)")
        assert client.finish("POST", "/nodes/pve1/qemu", **where) == "OK"
        client.ask("PUT", f"/nodes/pve1/qemu/{where['vmid']}/config", tags="mine")
