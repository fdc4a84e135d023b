"""Backups of desktops by their cluster: whole ones are listed, half ones never; what is not kept goes.

The peer makes them as pve-manager 14a22df3 does; names and types of parameters are held against the published schema.
"""

import json
from collections.abc import Iterator
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from deskyard.errors import ConfigError, SiteError
from deskyard.life import care, health
from deskyard.life.backup import backup, final, restoration, retention
from deskyard.life.backup.home import files
from deskyard.plan.backup import NONCE, NoVerdict
from deskyard.plan.proxmox.view import Owner, read_view
from deskyard.site.files import read_site
from deskyard.site.proxmox.client import ApiError, connect
from deskyard.site.proxmox.client import Client as Api
from deskyard.site.proxmox.doctor.doctor import examine
from deskyard.site.proxmox.life import copies, trial
from deskyard.site.proxmox.life.copies import Copy
from deskyard.site.proxmox.task import wait_task
from tests.proxmox import test_contract
from tests.proxmox.backed_up import FOLDER, NAME, SERVER, STORAGE, TARGET, Desk, desk_on
from tests.proxmox.rack import SITE
from tests.proxmox.test_restores import Kill, Killed
from tests.support.pve import Client, Peer
from tests.support.pve.asking import refused

published = test_contract.published
ALL = (0, 0, 0, 0, 0, 0)


# What no storage has a part in.
anywhere = pytest.mark.parametrize("kind", [FOLDER])


@pytest.fixture(params=[FOLDER, SERVER])
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def desk(peer: Peer, root: Client, tmp_path: Any, monkeypatch: pytest.MonkeyPatch, kind: str) -> Iterator[Desk]:
    with desk_on(peer, root, tmp_path, monkeypatch, kind) as desk:
        yield desk


def test_a_backup_is_listed_with_what_was_written_into_the_desktop_before(
    desk: Desk, published: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    assert backup.text(backup.listing(TARGET)) == f"{TARGET} has no backups"
    done = backup.run(TARGET)
    ((volume, kept),) = desk.volumes.items()
    made = done["backup"]
    assert desk.written == [(NONCE, made["nonce"])]
    assert len(made["nonce"]) == 32
    # A file is as large as it is; a server says of a backup how large its disks are.
    size = 6 << 30 if desk.on_server else 3 << 20
    assert (made["manifest"], made["added"], done["location"]) == (f"{STORAGE}:{volume}", size, STORAGE)
    assert {f"site={SITE}", f"workspace={NAME}", "desktop=dev1", f"nonce={made['nonce']}"} < set(kept["notes"].split())
    (row,) = backup.listing(TARGET)["backups"]
    assert json.dumps(row) == json.dumps(made)
    assert "50 % read" in capsys.readouterr().err
    assert sorted(set(test_contract._faults(desk.published(), published))) == []
    (call,) = desk.fake.calls.to("POST", "/vzdump")
    assert (call.parameters["mode"], call.parameters["remove"]) == ("snapshot", "0")


@anywhere
def test_no_single_file_is_read_out_of_a_backup_of_the_cluster_and_it_is_said_what_can_be(
    desk: Desk, tmp_path: Path
) -> None:
    made = backup.run(TARGET)["backup"]["id"]
    with pytest.raises(SiteError, match="no single file is read"):
        files.listing(TARGET, "/home")
    with pytest.raises(SiteError, match="no single file is read") as caught:
        files.get(TARGET, files.Wanted("/home/agent", str(tmp_path / "to")))
    assert (caught.value.field, caught.value.value) == ("backup", made)
    assert f"./inv backup.restore {TARGET} {made}" in caught.value.remedy
    assert not (tmp_path / "to").exists()


def test_one_that_is_off_is_backed_up_with_the_nonce_that_it_has(desk: Desk) -> None:
    first = backup.run(TARGET)["backup"]
    desk.rack.root.finish("POST", f"{desk.rack.node_path(NAME, 'dev1')}/status/stop")
    second = backup.run(TARGET)["backup"]
    assert (second["running"], second["nonce"]) == (False, first["nonce"])
    assert len(desk.written) == 1


def test_what_is_not_whole_is_never_listed_and_the_next_one_works(desk: Desk) -> None:
    for fault in ("read", "notes", "cut", "late", "empty"):
        with desk.wrong(fault), pytest.raises(SiteError):
            backup.run(TARGET)
        assert (desk.ids(), desk.volumes) == ([], {}), fault
    made = backup.run(TARGET)["backup"]
    assert desk.ids() == [made["id"]]


def test_one_whose_maker_died_is_half_and_goes_when_backups_are_pruned(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patched:
        patched.setattr(Api, "put", lambda *_, **__: (_ for _ in ()).throw(KeyboardInterrupt))
        with pytest.raises(KeyboardInterrupt):
            backup.run(TARGET)
    assert (desk.ids(), len(desk.volumes)) == ([], 1)
    made = backup.run(TARGET)["backup"]
    done = retention.prune(TARGET, (1, *ALL[1:]), really=True)
    assert (done["half"], done["removed"]) == (1, [])
    assert [f"{STORAGE}:{volume}" for volume in desk.volumes] == [made["manifest"]]


def left_without_notes(desk: Desk, monkeypatch: pytest.MonkeyPatch, fault: str) -> str:
    """The volume of a backup whose task could write no notes, and whose maker died meanwhile."""
    before = set(desk.volumes)
    with monkeypatch.context() as patched, desk.wrong(fault):
        Kill(patched).at(1, heard=True)
        with pytest.raises(Killed):
            backup.run(TARGET)
    (left,) = set(desk.volumes) - before
    assert "notes" not in desk.volumes[left]
    return left


@pytest.mark.parametrize("fault", ["notes", "cut"])
def test_one_without_notes_whose_maker_died_is_half_and_goes_with_the_next_backup_or_pruning(
    desk: Desk, monkeypatch: pytest.MonkeyPatch, published: Any, fault: str
) -> None:
    kept = backup.run(TARGET)["backup"]
    left_without_notes(desk, monkeypatch, fault)
    assert (desk.ids(), len(desk.volumes)) == ([kept["id"]], 2)
    assert retention.prune(TARGET, (1, *ALL[1:]))["half"] == 1
    assert len(desk.volumes) == 2
    retention.prune(TARGET, (1, *ALL[1:]), really=True)
    assert (desk.ids(), len(desk.volumes)) == ([kept["id"]], 1)
    left_without_notes(desk, monkeypatch, fault)
    made = backup.run(TARGET)["backup"]
    assert (desk.ids(), len(desk.volumes)) == ([kept["id"], made["id"]], 2)
    calls = desk.published()
    assert [call for call in calls if call.path.endswith("/tasks") and call.parameters.get("typefilter") == "vzdump"]
    assert sorted(set(test_contract._faults(calls, published))) == []


def test_what_has_no_notes_and_is_not_certainly_of_a_killed_backup_is_left_alone(
    desk: Desk, root: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Whole, its notes taken away by somebody.
    cleared = backup.run(TARGET)["backup"]["manifest"].partition(":")[2]
    desk.volumes[cleared].pop("notes")
    # Left by a killed backup, and protected by somebody since.
    protected = left_without_notes(desk, monkeypatch, "notes")
    desk.volumes[protected]["protected"] = 1
    # Of somebody else: in the same moment by another name, and by a task of another token with our words.
    desk.keep_foreign(ctime=desk.volumes[protected]["ctime"]).pop("notes")
    with desk.wrong("notes"):
        notes = f"deskyard-unfinished site={SITE} workspace={NAME} desktop=dev1 id=20260101-000000 nonce=n made=1"
        given = {"vmid": desk.vm.vmid, "storage": STORAGE, "mode": "snapshot", "notes-template": notes}
        assert root.finish("POST", f"nodes/{desk.vm.node}/vzdump", **given) == "OK"
    there = dict(desk.volumes)
    assert len(there) == 4
    made = backup.run(TARGET)["backup"]
    assert retention.prune(TARGET, (1, *ALL[1:]), really=True)["half"] == 0
    assert set(desk.volumes) == {*there, made["manifest"].partition(":")[2]}


def test_what_an_earlier_backup_left_keeps_none_away_if_it_cannot_be_removed(
    desk: Desk, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    left = left_without_notes(desk, monkeypatch, "notes")
    with monkeypatch.context() as patched:
        patched.setattr(Api, "delete", lambda *_, **__: (_ for _ in ()).throw(SiteError("x", "y", "is busy", "wait")))
        made = backup.run(TARGET)["backup"]
    assert "could not be removed: is busy" in capsys.readouterr().err
    assert set(desk.volumes) == {left, made["manifest"].partition(":")[2]}


def test_pruning_says_first_what_goes_and_leaves_what_is_protected_or_of_others(desk: Desk) -> None:
    made = [backup.run(TARGET)["backup"] for _ in range(4)]
    desk.keep_foreign()
    desk.volumes[made[0]["manifest"].partition(":")[2]]["protected"] = True
    said = retention.prune(TARGET, (2, *ALL[1:]))
    assert ([row["id"] for row in said["removed"]], len(desk.volumes)) == ([made[1]["id"]], 5)
    assert "would go" in retention.text(said)
    retention.prune(TARGET, (2, *ALL[1:]), really=True)
    assert desk.ids() == [made[0]["id"], made[2]["id"], made[3]["id"]]
    assert len(desk.volumes) == 4


def test_a_storage_that_prunes_by_itself_takes_no_backup_from_the_project(desk: Desk) -> None:
    desk.fake.storages[STORAGE]["keep-last"] = 1
    first = backup.run(TARGET)["backup"]
    with pytest.raises(SiteError, match="job errors"):
        backup.run(TARGET)
    assert desk.ids() == [first["id"]]


def test_what_outlives_the_workspace_is_said_before_it_goes(desk: Desk) -> None:
    assert backup.survivors(NAME) == ["dev1: no backup"]
    backup.run(TARGET)
    (line,) = backup.survivors(NAME)
    assert line.startswith("dev1: a backup of ")
    assert line.endswith(f"stays, in {STORAGE}; it was not verified")


@anywhere
def test_a_site_without_a_storage_for_backups_says_which_setting_to_add(desk: Desk) -> None:
    desk.rack.site()
    with pytest.raises(ConfigError, match="no storage of the site takes backups") as caught:
        backup.run(TARGET)
    assert caught.value.field == "proxmox.storages.backups"
    assert desk.written == []
    assert backup.survivors(NAME) == ["dev1: no backup"]


def test_a_desktop_that_goes_is_backed_up_and_booted_before(desk: Desk) -> None:
    (said,) = final.notice(NAME, ["dev1"], "x", backup=True)
    assert said.startswith(f"dev1: backed up to {STORAGE} and verified before")
    assert desk.volumes == {}
    final.keep(NAME, ["dev1"], "x")
    (made,) = backup.listing(TARGET)["backups"]
    assert made["verified"] is not None
    assert desk.copies() == []


@anywhere
def test_a_desktop_on_a_site_without_a_storage_for_backups_goes_only_without_one(desk: Desk) -> None:
    desk.rack.site()
    desk.fake.calls.clear()
    for work in (lambda: final.notice(NAME, ["dev1"], "x", backup=True), lambda: final.keep(NAME, ["dev1"], "x")):
        with pytest.raises(SiteError, match="so nothing was touched: no storage of the site takes backups") as caught:
            work()
        assert caught.value.remedy.endswith("then ./inv site.check; or without a backup: x")
    assert "is lost" in final.notice(NAME, ["dev1"], "x", backup=False)[0]
    assert {call.method for call in desk.fake.calls} == {"GET"}


def found(desk: Desk) -> list[Any]:
    """What is said of the backups of the desktop."""
    rows = health.look(NAME, "dev1")["machines"]["dev1"]
    return [(row["state"], row["detail"]) for row in rows if row["check"] == "backup"]


def test_the_age_of_backups_in_the_storage_is_looked_at(desk: Desk) -> None:
    assert found(desk) == []
    backup.run(TARGET)
    assert found(desk) == [("warning", "none is verified")]
    restoration.verify(TARGET)
    assert found(desk) == [("ok", "0 hours old, the last verified one 0 hours")]
    desk.rack.site()
    assert found(desk) == []


def test_a_backup_that_is_due_is_made_verified_and_pruned_by_care(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    desk.rack.declare(NAME, desktops=[{"name": "dev1", "backup": {"every": "1d", "keep_last": 1}}])
    assert found(desk) == [("warning", "none")]
    old = backup.run(TARGET)["backup"]["id"]
    later = datetime.now().astimezone() + timedelta(days=1)
    monkeypatch.setattr(care, "_now", lambda: later)
    monkeypatch.setattr(care._Visit, "make", lambda visit, _: visit._report)
    (row,) = care.run(NAME, how=care.How(only_due=True))["desktops"]
    assert row["backup"].endswith(" verified, 1 older ones removed")
    assert [made for made in desk.ids() if made != old] == [row["backup"].split()[0]] == desk.ids()
    desk.rack.site()
    assert found(desk)[0][0] == "failed"


def test_a_storage_that_takes_none_is_named_before_anything_is_done(desk: Desk) -> None:
    desk.fake.storages[STORAGE]["content"] = "images"
    with pytest.raises(SiteError, match="does not take backups"):
        backup.run(TARGET)
    assert desk.written == []
    wrong = [finding for finding in examine(read_site(SITE)) if finding.name == "storage_backups"]
    assert [finding.state for finding in wrong] == ["error"]


def test_a_paused_desktop_is_refused_before_anything_is_done(desk: Desk) -> None:
    desk.rack.root.finish("POST", f"{desk.rack.node_path(NAME, 'dev1')}/status/suspend")
    with pytest.raises(SiteError, match="is paused"):
        backup.run(TARGET)
    assert (desk.written, desk.volumes) == ([], {})


def test_a_backup_counts_once_it_was_booted_apart_from_everything(desk: Desk, published: Any) -> None:
    made = backup.run(TARGET)["backup"]
    before, seen = desk.fake.left(), list[Any]()
    desk.asked = lambda: seen.extend((vm.status, vm.pool, dict(vm.config)) for vm in desk.copies())
    desk.fake.calls.clear()
    done = restoration.verify(TARGET)["backup"]
    assert (done["id"], done["verified"] is not None) == (made["id"], True)
    assert backup.listing(TARGET)["backups"] == [done]
    assert "a verified backup of" in backup.survivors(NAME)[0]
    # What ran was a copy: off every network, in no workspace, of an identity of its own. Nothing of it is left.
    state, pool, config = seen[0]
    assert (state, pool) == ("running", f"deskyard-trials.{SITE}")
    assert not [key for key in config if key.startswith("net")]
    assert config["tags"] == f"deskyard-trial.{SITE}.{NAME}.dev1"
    assert config["smbios1"] != desk.vm.config["smbios1"]
    assert {**desk.fake.left(), "pools": set()} == {**before, "pools": set()}
    assert sorted(set(test_contract._faults(desk.published(), published))) == []


def test_backup_of_before_another_network_is_tried_all_the_same(desk: Desk, root: Client) -> None:
    backup.run(TARGET)
    (archive,) = desk.fake.archives.values()
    assert "bridge=" in archive["net0"]
    # Two NICs on a bridge which the token has no right to, as on one that is gone.
    archive |= {name: "virtio=BC:24:11:00:00:01,bridge=vmbr1" for name in ("net0", "net1")}
    restoration.verify(TARGET)
    assert backup.listing(TARGET)["backups"][-1]["verified"] is not None
    assert desk.copies() == []


def test_the_peer_refuses_a_restore_whose_bridge_somebody_may_not_use(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    backup.run(TARGET)
    (archive,) = desk.fake.archives.values()
    archive["net0"] = "virtio=BC:24:11:00:00:01,bridge=vmbr1"
    monkeypatch.setattr(Copy, "_nics_in", lambda *_: [])
    with pytest.raises(SiteError, match=r"Permission check failed.*SDN\.Use"):
        restoration.verify(TARGET)


def test_what_is_not_what_it_says_counts_no_more_and_leaves_nothing(desk: Desk) -> None:
    backup.run(TARGET)
    nonce, before = desk.held, desk.fake.left()["machines"]
    wrongs = {"nonce": "held", "errors": "looks"}
    for wrong, where in wrongs.items():
        desk.held, desk.looks = nonce, "mount / ext4 rw\n"
        restoration.verify(TARGET)
        setattr(desk, where, "other" if where == "held" else "errors sda1 3\nmount / ext4 rw\n")
        with pytest.raises(SiteError, match=wrong):
            restoration.verify(TARGET)
        assert backup.listing(TARGET)["backups"][-1]["verified"] is None
    with desk.wrong("restore"), pytest.raises(SiteError, match=r"short vma extent|wrong CRC"):
        restoration.verify(TARGET)
    assert desk.fake.left()["machines"] == before


def test_what_a_failed_restore_left_of_a_killed_trial_goes_with_the_next(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    backup.run(TARGET)
    before = desk.fake.left()["machines"]
    with desk.wrong("restore"), monkeypatch.context() as patched:
        patched.setattr(Copy, "remove", lambda _: None)
        with pytest.raises(SiteError, match=r"short vma extent|wrong CRC"):
            restoration.verify(TARGET)
    (left,) = desk.fake.left()["machines"] - before
    # It has neither name nor tags; its pool tells whose it is.
    assert (desk.fake.vm(left).config, desk.fake.vm(left).pool) == ({"memory": "128"}, f"deskyard-trials.{SITE}")
    here, other = desk.vm.node, next(node for node in desk.fake.nodes if node != desk.vm.node)
    desk.fake.vm(left).node = other
    desk.fake.set_node_offline(other)
    copies._clear_husks(connect(read_site(SITE)), SITE)
    assert left in desk.fake.left()["machines"]
    desk.fake.set_node_offline(other, offline=False)
    desk.fake.vm(left).node = here
    restoration.verify(TARGET)
    assert desk.fake.left()["machines"] == before


@anywhere
def test_a_nic_that_comes_back_before_the_start_stops_the_trial(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    backup.run(TARGET)
    before = desk.fake.left()["machines"]
    monkeypatch.setattr(Api, "put", lambda *_, **__: None)
    with pytest.raises(SiteError, match="twin of the desktop"):
        restoration.verify(TARGET)
    assert desk.fake.calls.to("POST", "/status/start") == []
    assert desk.fake.left()["machines"] == before


def test_what_a_killed_trial_left_goes_with_the_next_once_its_time_is_over(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    backup.run(TARGET)
    before = desk.fake.left()["machines"]
    with monkeypatch.context() as patched:
        patched.setattr(Copy, "remove", lambda _: None)
        restoration.verify(TARGET)
    (left,) = desk.copies()
    # It may still go on, elsewhere.
    restoration.verify(TARGET)
    assert desk.copies() == [left]
    left.config["description"] = "until=5"
    restoration.verify(TARGET)
    assert desk.fake.left()["machines"] == before


def test_a_trial_for_which_there_is_no_room_is_refused_early_and_says_nothing_of_the_backup(desk: Desk) -> None:
    backup.run(TARGET)
    verified = restoration.verify(TARGET)["backup"]
    desk.fake.storages["local-lvm"]["avail"] = (4 << 30) - 1
    desk.fake.calls.clear()
    with pytest.raises(SiteError, match=r"4095 MiB are free on .*; the disks of a backup take 6144"):
        restoration.verify(TARGET)
    assert desk.fake.calls.writes() == []
    assert backup.listing(TARGET)["backups"] == [verified]


@pytest.mark.parametrize("unanswered", [True, False], ids=["no answer", "no memory"])
def test_a_trial_that_the_cluster_does_not_start_says_nothing_of_the_backup(
    desk: Desk, monkeypatch: pytest.MonkeyPatch, unanswered: bool
) -> None:
    backup.run(TARGET)
    verified = restoration.verify(TARGET)["backup"]
    before = desk.fake.left()["machines"]

    def fail(client: Any, upid: str, seconds: float) -> Any:
        if "qmstart" in upid:
            if unanswered:
                raise ApiError("cluster", "POST", "no answer", "see whether it runs")
            raise SiteError("task", upid, "start failed: cannot set up guest memory: Cannot allocate memory", "mend it")
        return wait_task(client, upid, seconds)

    monkeypatch.setattr(trial, "wait_task", fail)
    with pytest.raises(NoVerdict):
        restoration.verify(TARGET)
    assert backup.listing(TARGET)["backups"] == [verified]
    assert desk.fake.left()["machines"] == before


@anywhere
def test_a_trial_is_no_machine_of_the_workspace(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    backup.run(TARGET)
    monkeypatch.setattr(Copy, "remove", lambda _: None)
    restoration.verify(TARGET)
    assert len(desk.copies()) == 1
    view = read_view(desk.rack.root.ask("GET", "/cluster/resources", type="vm"), (), {})
    desktop = view.machine_of(Owner(SITE, NAME, "dev1"))
    assert desktop is not None
    assert desktop.vm_id == desk.vm.vmid
    own = {vm.vmid for vm in desk.rack.machines(NAME).values()}
    assert {machine.vm_id for machine in view.machines_of(SITE, NAME)} == own


def test_each_right_is_needed(desk: Desk) -> None:
    token = desk.fake.roles
    for role, lost in (("DeskyardBackedUp", "VM.Backup"), ("DeskyardBackups", "Datastore.AllocateSpace")):
        held = set(token[role])
        token[role] = held - {lost}
        with pytest.raises(SiteError, match=lost):
            backup.run(TARGET)
        token[role] = held
    backup.run(TARGET)
    restoration.verify(TARGET)
    restoration.restore(TARGET, "latest")


# The peer.


@anywhere
def test_the_peer_refuses_what_vzdump_refuses(desk: Desk, root: Client) -> None:
    given = {"vmid": desk.vm.vmid, "storage": STORAGE}
    path = f"/nodes/{desk.vm.node}/vzdump"
    for text in ("two\nlines", "{{secret}}", "a\\b"):
        refused(root.post(path, data={**given, "notes-template": text}), 400, "notes-template")
    assert root.ask("POST", "/nodes/pve2/vzdump" if desk.vm.node == "pve1" else "/nodes/pve1/vzdump", **given) == "OK"
    assert desk.volumes == {}
