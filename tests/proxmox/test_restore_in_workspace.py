"""A desktop of a workspace that was taken back to a backup, with the real engine: nothing to mend."""

from collections.abc import Iterator

import pytest

from deskyard.plan.backup import Backup
from deskyard.plan.proxmox.system_tag import Systems
from deskyard.plan.proxmox.view import tags_of
from deskyard.site.files import read_site
from deskyard.site.proxmox.client import connect
from deskyard.site.proxmox.life.backups import ClusterArchive
from tests.proxmox.bench import NAME, Bench
from tests.proxmox.rack import SITE

STORAGE = "safe"


@pytest.fixture
def up(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> Iterator[Bench]:
    """A workspace of two desktops, on a site with a storage for backups."""
    bench.up()
    fake = bench.rack.peer.fake
    monkeypatch.setitem(fake.storages, STORAGE, {**fake.storages["shared"], "content": "backup", "volumes": {}})
    bench.rack.site(storages={"backups": STORAGE})
    bench.rack._grant()
    yield bench
    bench.rack.site()
    bench.rack._grant()


def test_exchanged_disks_are_no_drift(up: Bench) -> None:
    rack = up.rack
    archive = ClusterArchive(connect(read_site(SITE)), SITE, NAME)
    made = archive.make(Backup("20260101-000000", "dev1", 1, running=True, nonce="n"))
    before = dict(rack.machines(NAME)["dev1"].config)
    with archive.staged(made) as staged:
        assert rack.root.finish("POST", f"{rack.node_path(NAME, 'dev1')}/status/stop") == "OK"
        with staged.swap():
            assert rack.root.finish("POST", f"{rack.node_path(NAME, 'dev1')}/status/start") == "OK"
    after = dict(rack.machines(NAME)["dev1"].config)
    for disk in ("scsi0", "scsi1"):
        volume = str(after.pop(disk)).partition(",")[0]
        assert (rack.peer.fake._qm_volume(volume) or {})["archive"] == made.manifest
    # Of what was restored nobody knows the image.
    assert Systems.of(tags_of(before)).image == "desktop-desktop0digest"
    before["tags"] = ";".join(Systems().among(tags_of(before)))
    assert after == {key: value for key, value in before.items() if key not in ("scsi0", "scsi1")}
    archive.drop([made])
    up.settled("dev1", "dev2")
