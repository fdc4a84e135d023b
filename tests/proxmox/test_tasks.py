"""site.* and image.publish against the peer: what they print, how they end, and what they leave alone."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from deskyard.image.store import store
from deskyard.image.store.seal import seal
from deskyard.image.store.signature import public_key_file, secret_key_file
from deskyard.site.proxmox.templates import DRAFT
from tests.proxmox.rack import DIGESTS, SECRET_CANARY, SITE, Rack
from tests.proxmox.site_on_peer import built_image
from tests.support import pve
from tests.support.inv import inv
from tests.support.pve import Peer

# The address that the peer shows for the bridge of each node.
ADDRESS = "192.0.2.11"
UPLINK = {
    "network": "192.0.2.0/24",
    "router": "192.0.2.1",
    "first": "192.0.2.100",
    "last": "192.0.2.200",
    "resolvers": ["192.0.2.1"],
}
KEYS = {"name", "state", "what", "why", "mend"}
DIGEST = "feedfacefeedface"


@pytest.fixture
def cluster(peer: Peer, root: pve.Client, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Rack:
    """A site with a cluster that is as it should be, and calls that are counted from here."""
    rack = Rack(peer, root, tmp_path, monkeypatch)
    rack.site(zone={"kind": "vxlan", "peers": [ADDRESS], "mtu": 1400}, uplink=UPLINK)
    root.ask("PUT", "/cluster/sdn/zones/deskyard", peers=ADDRESS, mtu=1400)
    assert root.finish("PUT", "/cluster/sdn") == "OK"
    root.ask("PUT", "/cluster/firewall/options", enable=1)
    peer.fake.calls.clear()
    return rack


@pytest.fixture
def image(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of a built image of a desktop, where builds are kept."""
    monkeypatch.setattr(store, "digests", lambda _: [DIGEST])
    folder = store.image_folder("desktop", DIGEST)
    built = built_image(tmp_path / "built", DIGEST)
    folder.mkdir(parents=True)
    built.disk.rename(folder / store.DISK)
    seal(folder, built.manifest)
    return folder


def writes(rack: Rack) -> list[str]:
    """What may have changed something."""
    return [str(call) for call in rack.peer.fake.calls.writes()]


# site.check


def test_a_good_cluster_is_found_good_and_left_alone(cluster: Rack, capsys: pytest.CaptureFixture[str]) -> None:
    output = inv(capsys, "site.check", SITE, "--json")
    assert output.code == 0
    assert all(finding.keys() == KEYS for finding in output.document)
    assert {finding["state"] for finding in output.document} <= {"ok", "warning"}
    assert "api" in {finding["name"] for finding in output.document}
    assert writes(cluster) == []
    for_people = inv(capsys, "site.check", SITE)
    assert (for_people.code, for_people.out.splitlines()[-1][:8]) == (0, "0 error,")


@pytest.mark.parametrize(
    ("fault", "finding"),
    [
        (lambda rack: rack.root.ask("PUT", "/cluster/firewall/options", enable=0), "firewall"),
        (lambda rack: rack.peer.fake.apitokens.clear(), "api"),
        (lambda rack: setattr(rack.peer.fake, "quorate", False), "quorum"),
    ],
    ids=["firewall off", "token unknown", "no quorum"],
)
def test_what_has_to_be_mended_ends_with_code_1_and_says_how(
    cluster: Rack, capsys: pytest.CaptureFixture[str], fault: Callable[[Rack], object], finding: str
) -> None:
    fault(cluster)
    output = inv(capsys, "site.check", SITE, "--json")
    wrong = [row for row in output.document if row["state"] == "error"]
    assert (output.code, [row["name"] for row in wrong]) == (1, [finding])
    assert wrong[0]["why"] and wrong[0]["mend"]
    for_people = inv(capsys, "site.check", SITE)
    assert for_people.code == 1
    assert f"-> {wrong[0]['mend'].splitlines()[0]}" in for_people.out
    assert SECRET_CANARY not in output.out + output.err + for_people.out + for_people.err


# site.images and site.roles


def test_images_are_listed_with_drafts_told_apart(cluster: Rack, capsys: pytest.CaptureFixture[str]) -> None:
    output = inv(capsys, "site.images", SITE, "--json")
    assert output.code == 0
    found = {
        (template["node"], template["image"], template["digest"], template["draft"]) for template in output.document
    }
    assert found == {(node, image, DIGESTS[image], False) for node in cluster.peer.fake.nodes for image in DIGESTS}
    draft = cluster.peer.fake.vm(output.document[0]["vmid"])
    draft.config["tags"] = f"{draft.config['tags']};{DRAFT}"
    lines = inv(capsys, "site.images", SITE).out.splitlines()
    assert lines[0].split() == ["IMAGE", "DIGEST", "NODE", "ID"]
    assert [line.split()[3] for line in lines[1:] if line.endswith("draft")] == [str(draft.vmid)]
    assert writes(cluster) == []


def test_where_nothing_is_published_the_list_is_empty(cluster: Rack, capsys: pytest.CaptureFixture[str]) -> None:
    cluster.peer.fake.vms.clear()
    output = inv(capsys, "site.images", SITE, "--json")
    assert (output.code, output.document) == (0, [])


def test_roles_are_told_without_asking_the_cluster(cluster: Rack, capsys: pytest.CaptureFixture[str]) -> None:
    assert inv(capsys, "site.roles", SITE, "--release", "9.0", "--json").code == 0
    assert len(cluster.peer.fake.calls) == 0


# image.publish


def publish(capsys: pytest.CaptureFixture[str], *more: str) -> dict[str, Any]:
    """What publishing says that it did."""
    output = inv(capsys, "image.publish", "desktop", "--site", SITE, "--json", *more)
    assert output.code == 0, output.err
    document: dict[str, Any] = output.document
    return document


def test_a_dry_run_says_what_the_run_does_and_changes_nothing(
    cluster: Rack, image: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = cluster.peer.fake.left()
    would = publish(capsys, "--dry-run")
    assert (would["dry_run"], would["changed"], would["templates"]) == (True, True, {})
    assert (writes(cluster), cluster.peer.fake.left()) == ([], before)
    assert "would be made on pve1" in inv(capsys, "image.publish", "desktop", "--site", SITE, "--dry-run").out

    done = publish(capsys)
    assert (done["dry_run"], done["changed"], done["made"]) == (False, True, would["made"])
    assert done["templates"].keys() == set(cluster.peer.fake.nodes)
    assert (done["image"], done["digest"]) == ("desktop", DIGEST)
    assert {template["digest"] for template in inv(capsys, "site.images", SITE, "--json").document} >= {DIGEST}

    cluster.peer.fake.calls.clear()
    again = publish(capsys)
    assert (again["changed"], again["made"], again["templates"]) == (False, [], done["templates"])
    assert writes(cluster) == []
    assert "nothing to do" in inv(capsys, "image.publish", "desktop", "--site", SITE).out


def test_an_image_that_is_not_built_is_named_with_the_command_that_builds_it(
    cluster: Rack, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in DIGESTS:
        output = inv(capsys, "image.publish", name, "--site", SITE, "--json")
        assert (output.code, output.document["error"]["remedy"]) == (1, f"run ./inv image.build {name}")
    assert len(cluster.peer.fake.calls) == 0


@pytest.mark.parametrize(
    ("file", "part"),
    [(store.DISK, "disk"), (store.SBOM, "sbom"), (store.MANIFEST, "manifest")],
)
def test_an_image_that_was_changed_after_it_was_signed_is_refused_and_its_part_named(
    cluster: Rack, image: Path, capsys: pytest.CaptureFixture[str], file: str, part: str
) -> None:
    with (image / file).open("ab") as content:
        content.write(b" ")
    for more in ((), ("--dry-run",)):
        output = inv(capsys, "image.publish", "desktop", "--site", SITE, "--json", *more)
        assert (output.code, output.document["error"]["value"]) == (1, f"desktop@{DIGEST}")
        assert output.document["error"]["reason"].startswith(f"its {part} ")
    assert len(cluster.peer.fake.calls) == 0


def test_an_image_without_its_signature_is_refused_and_says_how_to_sign_it(
    cluster: Rack, image: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (image / store.SIGNATURE).unlink()
    output = inv(capsys, "image.publish", "desktop", "--site", SITE, "--json")
    assert (output.code, "image.sign" in output.document["error"]["reason"]) == (1, True)
    assert len(cluster.peer.fake.calls) == 0
    assert inv(capsys, "image.sign", "desktop").code == 0
    assert publish(capsys)["changed"]


def test_an_image_from_elsewhere_is_published_with_its_builders_key_alone(
    cluster: Rack, image: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    builder = public_key_file().rename(tmp_path / "builder.pub")
    secret_key_file().unlink()
    assert inv(capsys, "image.publish", "desktop", "--site", SITE).code == 1
    assert len(cluster.peer.fake.calls) == 0
    assert publish(capsys, "--key", str(builder))["changed"]


def test_an_image_that_nobody_declared_is_refused(cluster: Rack, capsys: pytest.CaptureFixture[str]) -> None:
    output = inv(capsys, "image.publish", "desktip", "--site", SITE, "--json")
    assert (output.code, "desktip" in output.err) == (1, True)
    assert len(cluster.peer.fake.calls) == 0


def test_a_site_of_this_machine_takes_no_image(cluster: Rack, image: Path, capsys: pytest.CaptureFixture[str]) -> None:
    output = inv(capsys, "image.publish", "desktop", "--site", "local", "--json")
    assert (output.code, output.document["error"]["reason"]) == (1, "is no Proxmox VE cluster")


@pytest.mark.parametrize("arguments", [(), ("desktop",), ("--site", SITE)], ids=str)
def test_without_image_or_site_nothing_is_begun(
    cluster: Rack, capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...]
) -> None:
    assert inv(capsys, "image.publish", *arguments).code != 0
    assert len(cluster.peer.fake.calls) == 0


def test_an_upload_that_fails_ends_with_code_1_and_the_clusters_words(
    cluster: Rack, image: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    cluster.peer.fake.storages["local"]["avail"] = 10
    output = inv(capsys, "image.publish", "desktop", "--site", SITE, "--json")
    assert output.code == 1
    assert output.document["error"].keys() == {"field", "value", "reason", "remedy"}
    assert SECRET_CANARY not in output.out + output.err
