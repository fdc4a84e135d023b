"""A domain stops, starts and pauses as it is wanted; libvirt's own test driver answers."""

import shutil
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace

import libvirt
import pytest

from deskyard.errors import SiteError
from deskyard.plan.power import Power
from deskyard.site.libvirt import daemon, documents, power, storage
from deskyard.site.libvirt.kinds.domain import DomainKind
from tests.unit.site.driver import NAME, XML, Domain, running


@pytest.fixture
def domain(monkeypatch: pytest.MonkeyPatch) -> Iterator[Domain]:
    """A running domain of its own."""
    with running(monkeypatch) as found:
        yield found


def test_domain_that_nobody_stopped_is_wanted_to_run(domain: Domain) -> None:
    assert power.desired(domain) is Power.RUNNING


def test_domain_that_is_not_defined_yet_is_wanted_to_run(domain: Domain) -> None:
    machine = domain.connect().createXML(XML.replace(NAME, f"{NAME}-new"))
    try:
        assert power.desired(machine) is Power.RUNNING
    finally:
        machine.destroy()


def test_machine_that_is_gone_meanwhile_has_no_disk_open(domain: Domain) -> None:
    link = domain.connect()
    gone = link.createXML(XML.replace(NAME, f"{NAME}-gone"))
    gone.destroy()
    listed = SimpleNamespace(listAllDomains=lambda _: [gone, domain])
    found = storage.running_machine_with(listed, "/d")
    assert found is not None and found.name() == NAME
    assert storage.running_machine_with(listed, "/e") is None


@pytest.mark.parametrize("wanted", [Power.OFF, Power.PAUSED])
def test_what_is_not_wanted_to_run_does_not_start_with_its_host(domain: Domain, wanted: Power) -> None:
    power.want(domain, wanted)
    assert (power.desired(domain), domain.autostart()) == (wanted, 0)
    power.want(domain, Power.RUNNING)
    assert (power.desired(domain), domain.autostart()) == (Power.RUNNING, 1)


def test_to_want_moves_nothing(domain: Domain) -> None:
    power.want(domain, Power.OFF)
    assert power.state(domain) == "running"


def test_stopped_domain_starts_without_a_step_of_its_clock(domain: Domain) -> None:
    power.shut_down(domain)
    assert power.state(domain) == "stopped"
    power.start(domain)
    assert power.state(domain) == "running"
    assert domain.shifts == []


@pytest.mark.parametrize(("to_disk", "state"), [(False, "paused"), (True, "saved")])
def test_paused_domain_goes_on_with_its_clock_set(domain: Domain, to_disk: bool, state: str) -> None:
    power.pause(domain, to_disk=to_disk)
    assert power.state(domain) == state
    power.start(domain)
    assert power.state(domain) == "running"
    assert len(domain.shifts) == 1


def test_memory_in_a_process_can_go_to_disk_later(domain: Domain) -> None:
    power.pause(domain, to_disk=False)
    power.pause(domain, to_disk=True)
    assert power.state(domain) == "saved"


@pytest.mark.parametrize("goes_on", [power.start, power.shut_down])
def test_memory_on_disk_goes_before_the_process_that_has_it_too_goes_on(
    domain: Domain, goes_on: Callable[[Domain], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    # As a daemon leaves it that was killed while it saved; the driver drops one of the two.
    power.pause(domain, to_disk=False)
    there = ["memory"]
    monkeypatch.setattr(domain, "hasManagedSaveImage", lambda: len(there), raising=False)
    monkeypatch.setattr(domain, "managedSaveRemove", there.clear, raising=False)
    monkeypatch.setattr(domain, "resume", lambda: there or domain.machine.resume(), raising=False)
    goes_on(domain)
    assert there == []
    assert power.state(domain) == ("running" if goes_on is power.start else "stopped")


@pytest.mark.parametrize(
    ("error", "free", "refusal"),
    [
        (libvirt.VIR_DOMAIN_DISK_ERROR_NO_SPACE, 20, None),
        (libvirt.VIR_DOMAIN_DISK_ERROR_NO_SPACE, 19, "1 MiB too few"),
        (libvirt.VIR_DOMAIN_DISK_ERROR_UNSPEC, 20, "its disk vda met an error that is no want of room"),
    ],
)
def test_halted_domain_may_go_on_once_the_share_is_free_that_new_disks_need(
    domain: Domain, monkeypatch: pytest.MonkeyPatch, error: int, free: int, refusal: str | None
) -> None:
    disk = SimpleNamespace(total=200 << 20, free=free << 20)
    monkeypatch.setattr(shutil, "disk_usage", lambda _: disk)
    monkeypatch.setattr(domain, "diskErrors", lambda: {"vda": error}, raising=False)
    with pytest.raises(SiteError, match=refusal) if refusal else nullcontext():
        power.require_room_again(domain)
    assert (domain.shifts, power.state(domain)) == ([], "running")


def test_halted_domain_goes_on_with_its_clock_set(domain: Domain, monkeypatch: pytest.MonkeyPatch) -> None:
    domain.suspend()
    monkeypatch.setattr(
        domain, "state", lambda: [libvirt.VIR_DOMAIN_PAUSED, libvirt.VIR_DOMAIN_PAUSED_IOERROR], raising=False
    )
    power.start(domain)
    assert domain.machine.state()[0] == libvirt.VIR_DOMAIN_RUNNING
    assert len(domain.shifts) == 1


def test_what_is_off_cannot_be_paused(domain: Domain) -> None:
    power.shut_down(domain)
    with pytest.raises(SiteError, match="nothing to pause"):
        power.pause(domain, to_disk=True)


def test_paused_domain_hears_a_shutdown(domain: Domain) -> None:
    power.pause(domain, to_disk=False)
    power.shut_down(domain)
    assert power.state(domain) == "stopped"


def test_shutdown_keeps_saved_memory_and_force_drops_it(domain: Domain) -> None:
    power.pause(domain, to_disk=True)
    power.shut_down(domain)
    assert power.state(domain) == "saved"
    power.shut_down(domain, force=True)
    assert power.state(domain) == "stopped"


def test_guest_that_does_not_listen_is_left_running(domain: Domain, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(domain, "shutdown", lambda: None, raising=False)
    with pytest.raises(SiteError, match="still runs"):
        power.shut_down(domain, seconds=0, pause=lambda _: None)
    assert power.state(domain) == "running"
    power.shut_down(domain, force=True)
    assert power.state(domain) == "stopped"


@pytest.mark.parametrize("kept", ["saved memory", "a snapshot", "nothing"])
def test_domain_is_forgotten_with_all_that_is_kept_of_it(domain: Domain, kept: str) -> None:
    if kept == "a snapshot":
        domain.snapshotCreateXML("<domainsnapshot><name>before</name></domainsnapshot>", 0)
    if kept == "saved memory":
        power.pause(domain, to_disk=True)
    else:
        power.shut_down(domain)
    power.forget(domain)
    assert NAME not in [found.name() for found in domain.connect().listAllDomains()]


@pytest.fixture
def logs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of console logs."""
    monkeypatch.setattr(documents, "console_log", lambda machine: str(tmp_path / f"{machine}-console.log"))
    return tmp_path


def test_what_a_domain_wrote_to_its_console_goes_with_it_and_nobody_elses(domain: Domain, logs: Path) -> None:
    mine = [f"{name}-console.log{part}" for name in (NAME, f"{NAME}.verify") for part in ("", ".0", ".12")]
    others = [
        f"{NAME}.log",
        f"{NAME}0-console.log",
        f"x{NAME}-console.log",
        f"{NAME}-console.log.old",
        f"{NAME}-console.log.0.gz",
        f"{NAME.replace('-', '.')}-console.log",
    ]
    for name in (*mine, *others):
        (logs / name).write_text("a secret of before")
    kept = logs / "kept"
    kept.write_text("of somebody")
    (logs / f"{NAME}-console.log.3").symlink_to(kept)
    power.shut_down(domain)
    power.forget(domain)
    assert sorted(path.name for path in logs.iterdir()) == sorted([*others, "kept"])
    assert kept.read_text() == "of somebody"


def test_domain_without_a_console_log_or_whose_folder_is_gone_is_forgotten(domain: Domain, logs: Path) -> None:
    logs.rmdir()
    power.shut_down(domain)
    power.forget(domain)
    assert NAME not in [found.name() for found in domain.connect().listAllDomains()]


def test_domain_that_cannot_be_forgotten_keeps_what_it_wrote(
    domain: Domain, logs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (logs / f"{NAME}-console.log").write_text("of now")

    def refuse(_: int) -> None:
        raise libvirt.libvirtError("it is busy")

    monkeypatch.setattr(domain, "undefineFlags", refuse, raising=False)
    with pytest.raises(libvirt.libvirtError, match="busy"):
        power.forget(domain)
    assert (logs / f"{NAME}-console.log").read_text() == "of now"


@pytest.mark.parametrize("checkpoints", [["theirs"], []])
def test_checkpoints_of_a_backup_tool_are_forgotten_only_where_some_are(
    domain: Domain, monkeypatch: pytest.MonkeyPatch, checkpoints: list[str]
) -> None:
    # The driver, unlike QEMU's, knows no such flag: on a real one it is tests/provider/test_libvirt.py.
    given: list[int] = []
    monkeypatch.setattr(domain, "listAllCheckpoints", lambda: checkpoints, raising=False)
    monkeypatch.setattr(domain, "undefineFlags", given.append, raising=False)
    power.forget(domain)
    assert bool(given[0] & libvirt.VIR_DOMAIN_UNDEFINE_CHECKPOINTS_METADATA) is bool(checkpoints)


@pytest.mark.parametrize(("wanted", "drift"), [(Power.RUNNING, ["running"]), (Power.OFF, []), (Power.PAUSED, [])])
def test_domain_that_is_off_is_drift_only_if_it_is_wanted_to_run(
    domain: Domain, wanted: Power, drift: list[str]
) -> None:
    power.want(domain, wanted)
    power.shut_down(domain)
    state = DomainKind().read(domain.connect(), NAME, {})
    assert state is not None
    assert DomainKind().stale(state) == drift


def test_guest_whose_clock_cannot_be_set_is_named(domain: Domain, monkeypatch: pytest.MonkeyPatch) -> None:
    power.pause(domain, to_disk=False)
    monkeypatch.setattr(domain, "date", lambda _: (1, "date: cannot set date\n"), raising=False)
    with pytest.raises(SiteError, match=r"lab-dev1.*its clock cannot be set: date: cannot set date"):
        power.start(domain)


@pytest.mark.parametrize(("wanted", "drift"), [(Power.RUNNING, ["running"]), (Power.PAUSED, [])])
def test_domain_that_somebody_halted_is_drift_only_if_it_is_wanted_to_run(
    domain: Domain, wanted: Power, drift: list[str]
) -> None:
    power.want(domain, wanted)
    domain.suspend()
    state = DomainKind().read(domain.connect(), NAME, {})
    assert state is not None
    assert DomainKind().stale(state) == drift


@pytest.mark.parametrize(("paused", "state"), [(False, "stopped"), (True, "saved")])
def test_end_of_the_hypervisor_keeps_the_memory_of_what_is_paused(domain: Domain, paused: bool, state: str) -> None:
    if paused:
        power.pause(domain, to_disk=False)
    daemon._stop_guests(domain.connect(), force=True)
    assert power.state(domain) == state
    # What was halted goes on at the next start.
    power.start(domain)
    assert power.state(domain) == "running"


@pytest.mark.parametrize("busy", [False, True])
def test_end_of_the_hypervisor_stops_nothing_while_memory_of_what_is_paused_cannot_be_kept(
    domain: Domain, monkeypatch: pytest.MonkeyPatch, busy: bool
) -> None:
    def no_room(_: int = 0) -> None:
        raise SiteError("storage", "/pool", "1 MiB are free", "add a disk")

    def refused(_: int) -> None:
        raise libvirt.libvirtError("a job is at it")

    power.pause(domain, to_disk=False)
    if busy:
        monkeypatch.setattr(domain, "managedSave", refused, raising=False)
    else:
        monkeypatch.setattr(storage, "require_room", no_room)
    link = domain.connect()
    other = link.createXML(XML.replace(NAME, f"{NAME}-other"))
    try:
        listed = SimpleNamespace(listAllDomains=lambda _: [other, domain])
        reason = "a job is at it" if busy else "1 MiB are free"
        with pytest.raises(SiteError, match=rf"cannot be kept: {NAME}: {reason}\n.*desktop\.stop --force"):
            daemon._stop_guests(listed, force=True)
        assert (power.state(domain), power.state(other)) == ("paused", "running")
    finally:
        other.destroy()


def test_end_of_the_hypervisor_names_the_machine_whose_plug_it_pulls(
    domain: Domain, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(power, "SHUTDOWN_SECONDS", 0.0)
    monkeypatch.setattr(domain, "shutdown", lambda: None, raising=False)
    daemon._stop_guests(SimpleNamespace(listAllDomains=lambda _: [domain]), force=True)
    assert power.state(domain) == "stopped"
    assert f"{NAME} did not shut down within 0 s: its plug is pulled" in capsys.readouterr().err


def test_an_emulated_guest_has_the_time_to_shut_down_that_it_has_alone() -> None:
    kinds = [SimpleNamespace(XMLDesc=lambda _, kind=kind: f"<domain type='{kind}'/>") for kind in ("qemu", "kvm")]
    found = [daemon._patience(domain) for domain in kinds]
    assert found == [power.EMULATED_SHUTDOWN_SECONDS, power.SHUTDOWN_SECONDS]
