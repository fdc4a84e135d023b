"""Backups on a Proxmox Backup Server: what it alone can be, lack or say. All else is in test_backups and test_restores.

The peer's server (`tests/support/pve/backup_server.py`) is what pve-storage 0c56bad8 shows of one.
"""

from collections.abc import Callable, Iterator
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from deskyard.errors import ConfigError, SiteError
from deskyard.life import health
from deskyard.life.backup import backup, restoration, retention
from deskyard.life.backup.vault import vault_of
from deskyard.model.care import BackupSchedule
from deskyard.plan.care import backup_due
from deskyard.site.files import read_site
from deskyard.site.finding import Finding
from deskyard.site.proxmox import client
from deskyard.site.proxmox.client import Pace
from deskyard.site.proxmox.doctor.doctor import examine
from tests.proxmox import test_contract
from tests.proxmox.backed_up import NAME, SERVER, STORAGE, TARGET, Desk, desk_on
from tests.proxmox.rack import SITE
from tests.support.pve import Client, Peer
from tests.support.pve.asking import refused
from tests.support.pve.calls import Call

published = test_contract.published
LAST = (1, 0, 0, 0, 0, 0)
KEY, OTHER = "6f:1d:22:b0:8e:41:5c:93", "aa:00:11:22:33:44:55:66"


@pytest.fixture
def desk(peer: Peer, root: Client, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Desk]:
    # What a server refuses, a node says with a status that is asked again.
    monkeypatch.setattr(client, "Pace", lambda: Pace(first_pause=0.01, longest_pause=0.02))
    with desk_on(peer, root, tmp_path, monkeypatch, SERVER) as desk:
        yield desk


def verdict(desk: Desk, made: dict[str, Any], state: str) -> None:
    """The server's own verification has ended."""
    volume = desk.volumes[made["manifest"].partition(":")[2]]
    volume["verification"] = {"state": state, "upid": "UPID:backup:0000:0000:0000:00000000:verify:desks:root@pam:"}


def refuses(desk: Desk, text: str, *works: Callable[[], object], error: type[Exception] = SiteError) -> str:
    """Each of these is refused before anything is written; the remedy of the last."""
    remedy = ""
    for work in works:
        desk.fake.calls.clear()
        with pytest.raises(error, match=text) as caught:
            work()
        assert desk.fake.calls.writes() == []
        remedy = getattr(caught.value, "remedy", "")
    return remedy


def verify() -> object:
    return restoration.verify(TARGET)


def restore() -> object:
    return restoration.restore(TARGET, "latest")


def test_a_backup_is_called_as_the_server_calls_it_and_proved_as_any(desk: Desk, published: Any) -> None:
    made = backup.run(TARGET)["backup"]
    ((name, kept),) = desk.volumes.items()
    assert (made["manifest"], kept["format"]) == (f"{STORAGE}:{name}", "pbs-vm")
    assert name.startswith(f"backup/vm/{desk.vm.vmid}/20")
    assert name.endswith("Z")
    restoration.verify(TARGET)
    verdict(desk, made, "ok")
    (row,) = backup.listing(TARGET)["backups"]
    assert (row["verified"] is not None, row["damaged"]) == (True, False)
    restoration.restore(TARGET, made["id"])
    assert desk.holds == made["manifest"]
    assert sorted(set(test_contract._faults(desk.published(), published))) == []


def test_a_server_out_of_reach_is_said_and_takes_nothing_from_a_backup(desk: Desk) -> None:
    backup.run(TARGET)
    verified = restoration.verify(TARGET)["backup"]
    # Nobody has noticed yet; then pvestatd has.
    desk.store["unreachable"] = True
    desk.written.clear()
    works = (lambda: backup.listing(TARGET), lambda: backup.run(TARGET), verify, restore)
    refuses(desk, "Connection refused", *works)
    refuses(desk, "Connection refused", lambda: retention.prune(TARGET, LAST, really=True))
    desk.store["active"] = 0
    assert "pvesm status" in refuses(desk, "is active on no node", *works)
    assert desk.written == []
    desk.store.update({"active": 1, "unreachable": False})
    assert backup.listing(TARGET)["backups"] == [verified]


def test_a_server_that_goes_while_a_backup_is_tried_out_leaves_its_verdict(desk: Desk) -> None:
    backup.run(TARGET)
    verified = restoration.verify(TARGET)["backup"]
    before = desk.fake.left()["machines"]

    def gone(call: Call) -> None:
        desk.store["unreachable"] |= call.method == "POST" and call.path.endswith("/qemu")

    desk.store["unreachable"], desk.fake.faults.on_call = False, gone
    with pytest.raises(SiteError, match="Connection refused"):
        verify()
    desk.store["unreachable"], desk.fake.faults.on_call = False, None
    assert backup.listing(TARGET)["backups"] == [verified]
    assert desk.fake.left()["machines"] == before


def test_a_server_that_is_full_has_nothing_of_a_backup_and_takes_the_next_once_it_has_room(desk: Desk) -> None:
    desk.store["full"] = True
    with pytest.raises(SiteError, match="No space left on device"):
        backup.run(TARGET)
    assert (desk.volumes, desk.ids()) == ({}, [])
    desk.store["full"] = False
    assert desk.ids() == [] != [backup.run(TARGET)["backup"]["id"]] == desk.ids()


def test_one_that_is_still_being_made_is_none_and_stays(desk: Desk) -> None:
    made = backup.run(TARGET)["backup"]
    # It has no index: neither notes nor a size are known (list_snapshots of the server).
    desk.keep_foreign(size=1).pop("notes")
    assert desk.ids() == [made["id"]]
    done = retention.prune(TARGET, LAST, really=True)
    assert (done["half"], done["removed"], len(desk.volumes)) == (0, [], 2)


def test_one_that_the_server_found_damaged_counts_no_more_and_is_never_restored(
    desk: Desk, capsys: pytest.CaptureFixture[str]
) -> None:
    old, new = (backup.run(TARGET)["backup"] for _ in range(2))
    restoration.verify(TARGET, new["id"])
    verdict(desk, new, "failed")
    before, row = desk.config(), backup.listing(TARGET)["backups"][-1]
    assert (row["id"], row["damaged"], row["verified"]) == (new["id"], True, None)
    assert f"{new['id']}  " in backup.text(backup.listing(TARGET))
    assert "DAMAGED, says its server" in backup.text(backup.listing(TARGET)).splitlines()[-1]
    works = [work(TARGET, new["id"]) for work in (_restored, _would_be, _verified)]
    remedy = refuses(desk, f"found {new['id']} damaged", *works, error=ConfigError)
    assert old["id"] in remedy
    assert desk.config() == before
    # The newest is the newest that is whole, and that there was another is said.
    capsys.readouterr()
    desk.held = old["nonce"]
    restoration.restore(TARGET, "latest")
    assert desk.holds == old["manifest"]
    assert f"{new['id']} is damaged, says its server: {old['id']}" in capsys.readouterr().err
    assert "it was not verified" in backup.survivors(NAME)[0]
    # Found whole by a later verification there, it counts as before.
    verdict(desk, new, "ok")
    desk.held = new["nonce"]
    assert backup.listing(TARGET)["backups"][-1]["verified"] is not None
    restoration.restore(TARGET, "latest")
    assert desk.holds == new["manifest"]


def _restored(target: str, name: str) -> Callable[[], object]:
    return lambda: restoration.restore(target, name)


def _would_be(target: str, name: str) -> Callable[[], object]:
    return lambda: restoration.would_restore(target, name)


def _verified(target: str, name: str) -> Callable[[], object]:
    return lambda: restoration.verify(target, name)


def test_where_all_are_damaged_none_is_taken_and_another_is_due(desk: Desk) -> None:
    made = backup.run(TARGET)["backup"]
    restoration.verify(TARGET)
    verdict(desk, made, "failed")
    refuses(desk, f"found {made['id']} damaged", verify, restore, error=ConfigError)
    assert backup.survivors(NAME) == ["dev1: no backup"]
    schedule, now = BackupSchedule(every="1d"), datetime.now().astimezone()
    assert backup_due(schedule, vault_of(SITE, NAME).present("dev1"), now)
    verdict(desk, made, "ok")
    assert not backup_due(schedule, vault_of(SITE, NAME).present("dev1"), now + timedelta(hours=1))


def test_the_age_of_backups_is_that_of_the_newest_that_is_whole(desk: Desk) -> None:
    made = [backup.run(TARGET)["backup"] for _ in range(2)]
    restoration.verify(TARGET)
    verdict(desk, made[1], "failed")
    rows = health.look(NAME, "dev1")["machines"]["dev1"]
    assert [row["detail"] for row in rows if row["check"] == "backup"] == ["none is verified"]


def test_a_damaged_one_takes_no_place_in_a_policy_and_goes_when_it_is_old_and_a_newer_one_is_proved(
    desk: Desk, capsys: pytest.CaptureFixture[str]
) -> None:
    old, damaged, new = (backup.run(TARGET)["backup"] for _ in range(3))
    verdict(desk, damaged, "failed")
    done = retention.prune(TARGET, (2, *LAST[1:]), really=True)
    assert (done["removed"], desk.ids()) == ([], [old["id"], damaged["id"], new["id"]])
    assert "1 of them are damaged, and stay until they are old and a newer one is verified" in capsys.readouterr().err
    restoration.verify(TARGET, new["id"])
    # Sound, it would stay, too, and the server may find it whole yet.
    done = retention.prune(TARGET, (2, *LAST[1:]), really=True)
    assert (done["removed"], len(desk.ids())) == ([], 3)
    desk.volumes[damaged["manifest"].partition(":")[2]]["protected"] = 1
    done = retention.prune(TARGET, LAST, really=True)
    assert [row["id"] for row in done["removed"]] == [old["id"]]
    desk.volumes[damaged["manifest"].partition(":")[2]]["protected"] = 0
    done = retention.prune(TARGET, LAST, really=True)
    assert [row["id"] for row in done["removed"]] == [damaged["id"]]
    assert desk.ids() == [new["id"]]


def test_an_encrypted_one_is_used_with_its_key_and_without_it_says_so_before_anything_is_touched(desk: Desk) -> None:
    desk.store.update({"encryption-key": KEY, "key": KEY})
    backup.run(TARGET)
    verified = restoration.verify(TARGET)["backup"]
    restoration.restore(TARGET, "latest")
    assert desk.holds == verified["manifest"]
    for configured, key, said in (
        (None, None, f"missing key - manifest was created with key {KEY}"),
        (OTHER, OTHER, f"wrong key - manifest's key {KEY}"),
        (KEY, None, "no encryption key file found"),
    ):
        desk.store.update({"encryption-key": configured, "key": key})
        remedy = refuses(desk, f"has not the key that it is encrypted with: .*{said}", verify, restore)
        # It stays so however often it is asked.
        assert len(desk.fake.calls.to("GET", "/extractconfig")) == 1
        assert remedy.endswith(f"pvesm set {STORAGE} --encryption-key FILE")
        # It says nothing of the backup.
        assert backup.listing(TARGET)["backups"] == [verified]
    # Without the key file no further one is made either, and none that is not encrypted.
    with pytest.raises(SiteError, match=r"encryption configured .* but no encryption key file found"):
        backup.run(TARGET)
    assert desk.ids() == [verified["id"]]


def test_one_that_is_not_encrypted_is_used_whatever_key_the_storage_has(desk: Desk) -> None:
    made = backup.run(TARGET)["backup"]
    desk.store.update({"encryption-key": KEY, "key": KEY})
    restoration.verify(TARGET)
    restoration.restore(TARGET, made["id"])
    assert desk.holds == made["manifest"]


def test_an_account_that_may_not_prune_is_named_with_what_it_needs(desk: Desk) -> None:
    made = [backup.run(TARGET)["backup"]["id"] for _ in range(2)]
    desk.store["keeps"] = True
    with pytest.raises(SiteError, match=f"the account of {STORAGE} may not delete it") as caught:
        retention.prune(TARGET, LAST, really=True)
    assert (caught.value.value, "DatastorePowerUser" in caught.value.remedy) == (made[0], True)
    assert desk.ids() == made
    desk.store["keeps"] = False
    retention.prune(TARGET, LAST, really=True)
    assert desk.ids() == made[1:]


def test_backups_of_another_site_s_machine_with_the_same_number_are_no_one_s_here(desk: Desk) -> None:
    """As where two clusters keep theirs in one namespace."""
    made = backup.run(TARGET)["backup"]
    notes = str(next(iter(desk.volumes.values()))["notes"])
    desk.keep_foreign(size=6 << 30, notes=notes.replace(f"site={SITE}", "site=elsewhere"))
    assert desk.ids() == [made["id"]]
    retention.prune(TARGET, LAST, really=True)
    assert len(desk.volumes) == 2


def found(desk: Desk, **changes: Any) -> Finding:
    """What site.check says of the storage for backups, once it is so."""
    desk.store.update(changes)
    (finding,) = (each for each in examine(read_site(SITE)) if each.name == "storage_backups")
    return finding


def test_site_check_says_of_a_server_what_keeps_backups_from_it(desk: Desk) -> None:
    assert found(desk).state == "ok"
    finding = found(desk, content="none")
    assert (finding.state, finding.mend) == ("error", f"pvesm set {STORAGE} --content backup")
    finding = found(desk, content="backup", active=0)
    assert (finding.state, finding.mend.split("   #")[0]) == ("error", f"pvesm status --storage {STORAGE}")


def test_site_check_refuses_a_storage_of_a_type_that_can_never_take_it(desk: Desk) -> None:
    finding = found(desk, type="lvmthin", content="images")
    assert (finding.state, finding.what) == ("error", f"storage {STORAGE} is of type lvmthin")
    assert finding.mend.endswith("pbs in proxmox.storages.backups of the site's file")
    desk.store.update(type="pbs", content="backup")
    desk.rack.site(storages={"images": STORAGE, "disks": STORAGE, "backups": STORAGE})
    wrong = {each.name: each.why for each in examine(read_site(SITE)) if each.what.endswith(" is of type pbs")}
    assert {name: why for name, why in wrong.items() if name != "linked_clones"} == {
        "storage_images": "that type cannot hold content import",
        "storage_disks": "that type cannot hold content images",
    }


# The peer.


def test_the_peer_s_server_is_as_the_sources_say(desk: Desk, root: Client) -> None:
    backup.run(TARGET)
    ((name, kept),) = desk.volumes.items()
    path = f"/nodes/{desk.vm.node}/storage/{STORAGE}/content"
    (row,) = root.ask("GET", path, content="backup")
    # `protected` is not there as long as nobody protects it.
    assert {"volid", "format", "size", "content", "vmid", "ctime", "subtype", "notes"} == row.keys()
    kept["notes"] += "\nmore"
    assert "more" not in root.ask("GET", path)[0]["notes"]
    refused(root.get(f"{path}/{STORAGE}:backup/vzdump-qemu-1-2026_01_01-00_00_00.vma.zst"), 500, "unable to parse PBS")
    root.ask("PUT", f"{path}/{STORAGE}:{name}", protected=1)
    assert root.finish("DELETE", f"{path}/{STORAGE}:{name}").endswith("cannot remove protected snapshot")
    config = root.ask("GET", f"/nodes/{desk.vm.node}/vzdump/extractconfig", volume=f"{STORAGE}:{name}")
    assert f"scsi0: {desk.vm.config['scsi0']}\n" in config
