"""What domains do is told by libvirt in the moment that it happens; its own test driver moves them."""

from collections.abc import Callable, Iterator
from contextlib import nullcontext
from types import SimpleNamespace

import libvirt
import pytest

from deskyard.errors import SiteError
from deskyard.plan.power import Moved, Power
from deskyard.site.libvirt import daemon, moves, power
from deskyard.site.libvirt.machines import LibvirtMachines
from deskyard.site.libvirt.moves import LibvirtMoves
from deskyard.wire.stages import Stage
from tests.desktop.lab import planned
from tests.unit.site.driver import NAME, XML, Domain, running

URI = "test:///default"
SECONDS = 20.0


class Machine:
    """A machine by its name, for what the test driver does not do."""

    def __init__(self, name: str = NAME) -> None:
        self._name = name

    def name(self) -> str:
        return self._name


@pytest.fixture
def domain(monkeypatch: pytest.MonkeyPatch) -> Iterator[Domain]:
    """A running domain of its own."""
    with running(monkeypatch) as found:
        yield found


def stages(heard: LibvirtMoves, last: Stage) -> list[Stage]:
    """The stages up to that one, each once in a row."""
    found: list[Stage] = []
    while not found or found[-1] is not last:
        moved = heard.next(SECONDS)
        assert moved is not None, found
        if not found or found[-1] is not moved.stage:
            found.append(moved.stage)
    return found


def test_what_a_domain_does_is_heard_in_order(domain: Domain) -> None:
    with moves.listening([NAME], URI) as heard:
        with daemon.connection(URI) as link:
            machine = link.lookupByName(NAME)
            machine.suspend()
            machine.resume()
            machine.destroy()
            machine.create()
        assert stages(heard, Stage.PAUSED) == [Stage.PAUSED]
        assert stages(heard, Stage.STOPPED) == [Stage.BOOTING, Stage.STOPPED]
        assert stages(heard, Stage.BOOTING) == [Stage.BOOTING]


def test_a_hypervisor_that_is_restarted_is_what_a_listener_ends_by(monkeypatch: pytest.MonkeyPatch) -> None:
    closed: list[Callable[..., None]] = []

    def refused(*_: object) -> None:
        raise libvirt.libvirtError("client socket is closed")

    broken = SimpleNamespace(
        domainEventRegisterAny=lambda *_: 1,
        registerCloseCallback=lambda callback, _: closed.append(callback),
        unregisterCloseCallback=refused,
        domainEventDeregisterAny=refused,
        close=refused,
    )
    monkeypatch.setattr(libvirt, "open", lambda _: broken)
    with pytest.raises(SiteError, match="ended, or was restarted"), moves.listening([NAME], URI) as heard:
        closed[0](broken, 0, None)
        heard.rest(SECONDS)


@pytest.mark.parametrize(
    ("detail", "end"),
    [
        (libvirt.VIR_DOMAIN_EVENT_STOPPED_DESTROYED, "plug pulled"),
        (libvirt.VIR_DOMAIN_EVENT_STOPPED_FAILED, "QEMU ended"),
        (libvirt.VIR_DOMAIN_EVENT_STOPPED_SHUTDOWN, ""),
        # Its own kernel did.
        (libvirt.VIR_DOMAIN_EVENT_STOPPED_CRASHED, ""),
        (None, "the hypervisor ended, or was restarted"),
    ],
)
def test_an_end_that_nothing_in_a_machine_made_is_told_apart(
    monkeypatch: pytest.MonkeyPatch, detail: int | None, end: str
) -> None:
    monkeypatch.setattr(moves, "NEWS_SECONDS", 0.0)
    heard = LibvirtMoves(frozenset([NAME]))
    lifecycle = heard.callbacks()[libvirt.VIR_DOMAIN_EVENT_ID_LIFECYCLE]
    lifecycle(None, Machine(), libvirt.VIR_DOMAIN_EVENT_STARTED, 0, None)
    if detail is None:
        heard.closed(None, 0, None)
    else:
        lifecycle(None, Machine(), libvirt.VIR_DOMAIN_EVENT_STOPPED, detail, None)
    assert heard.end_from_outside() == end


def test_what_libvirt_refuses_is_an_error_with_its_remedy() -> None:
    refused = r"hypervisor = 'test:///default': Domain not found.*\n.*run it again"
    with pytest.raises(SiteError, match=refused), daemon.connection(URI) as link:
        link.lookupByName("nobody")


def test_a_machine_that_goes_while_all_are_asked_is_left_out(domain: Domain, monkeypatch: pytest.MonkeyPatch) -> None:
    gone = domain.connect().createXML(XML.replace(NAME, f"{NAME}-gone"))
    gone.destroy()
    listed = SimpleNamespace(listAllDomains=lambda: [gone, domain])
    monkeypatch.setattr(daemon, "answers", lambda: True)
    monkeypatch.setattr(daemon, "connection", lambda: nullcontext(listed))
    machines = LibvirtMachines(planned("dev1"))
    monkeypatch.setattr(machines, "_names", [NAME, gone.name()])
    assert machines.desired() == {NAME: Power.RUNNING}
    assert {name: found["state"] for name, found in machines.states().items()} == {NAME: "running"}


def test_nothing_of_other_machines_is_heard(domain: Domain) -> None:
    with moves.listening(["lab-dev2"], URI) as heard:
        domain.suspend()
        assert heard.next(0.3) is None
        assert heard.next(0) is None


def test_wish_to_be_off_is_how_a_machine_begins_to_stop(domain: Domain) -> None:
    heard = LibvirtMoves(frozenset([NAME]))
    wanted = heard.callbacks()[libvirt.VIR_DOMAIN_EVENT_ID_METADATA_CHANGE]
    for wish in (Power.OFF, Power.PAUSED, Power.RUNNING):
        power.want(domain, wish)
        wanted(None, domain, 0, power.METADATA, None)
        wanted(None, domain, 0, "urn:another", None)
    heard_stages = [moved.stage for moved in iter(lambda: heard.next(0), None)]
    assert heard_stages == [Stage.STOPPING, Stage.BOOTING]
    power.want(domain, Power.OFF)
    power.shut_down(domain)
    wanted(None, domain, 0, power.METADATA, None)
    assert heard.next(0) is None


@pytest.mark.parametrize(
    ("event", "detail", "stage"),
    [
        (libvirt.VIR_DOMAIN_EVENT_STARTED, libvirt.VIR_DOMAIN_EVENT_STARTED_RESTORED, Stage.BOOTING),
        (libvirt.VIR_DOMAIN_EVENT_SHUTDOWN, libvirt.VIR_DOMAIN_EVENT_SHUTDOWN_GUEST, Stage.STOPPING),
        (libvirt.VIR_DOMAIN_EVENT_STOPPED, libvirt.VIR_DOMAIN_EVENT_STOPPED_SHUTDOWN, Stage.STOPPED),
        (libvirt.VIR_DOMAIN_EVENT_STOPPED, libvirt.VIR_DOMAIN_EVENT_STOPPED_SAVED, Stage.PAUSED),
        (libvirt.VIR_DOMAIN_EVENT_STOPPED, libvirt.VIR_DOMAIN_EVENT_STOPPED_CRASHED, Stage.ERROR),
        (libvirt.VIR_DOMAIN_EVENT_STOPPED, libvirt.VIR_DOMAIN_EVENT_STOPPED_FAILED, Stage.ERROR),
        (libvirt.VIR_DOMAIN_EVENT_CRASHED, libvirt.VIR_DOMAIN_EVENT_CRASHED_PANICKED, Stage.ERROR),
        (libvirt.VIR_DOMAIN_EVENT_SUSPENDED, libvirt.VIR_DOMAIN_EVENT_SUSPENDED_IOERROR, Stage.IO_ERROR),
        (libvirt.VIR_DOMAIN_EVENT_DEFINED, libvirt.VIR_DOMAIN_EVENT_DEFINED_ADDED, Stage.PROVISIONING),
        (libvirt.VIR_DOMAIN_EVENT_DEFINED, libvirt.VIR_DOMAIN_EVENT_DEFINED_UPDATED, None),
    ],
)
def test_each_of_libvirts_events_has_its_stage(event: int, detail: int, stage: Stage | None) -> None:
    heard = LibvirtMoves(frozenset([NAME]))
    heard.callbacks()[libvirt.VIR_DOMAIN_EVENT_ID_LIFECYCLE](None, Machine(), event, detail, None)
    moved = heard.next(0)
    assert (moved and moved.stage) is stage


@pytest.mark.parametrize(
    ("action", "reason", "detail"),
    [
        (libvirt.VIR_DOMAIN_EVENT_IO_ERROR_PAUSE, "enospc", "virtio-disk0: the host has no room"),
        (libvirt.VIR_DOMAIN_EVENT_IO_ERROR_PAUSE, "", "virtio-disk0"),
        (libvirt.VIR_DOMAIN_EVENT_IO_ERROR_REPORT, "enospc", None),
    ],
    ids=["no room", "no reason", "told to the guest alone"],
)
def test_failed_write_that_halts_a_machine_is_heard_with_its_reason(
    action: int, reason: str, detail: str | None
) -> None:
    heard = LibvirtMoves(frozenset([NAME]))
    failed = heard.callbacks()[libvirt.VIR_DOMAIN_EVENT_ID_IO_ERROR_REASON]
    failed(None, Machine(), "/disk", "virtio-disk0", action, reason, None)
    moved = heard.next(0)
    assert (moved and (moved.stage, moved.detail)) == (detail and (Stage.IO_ERROR, detail))


def test_restart_from_inside_is_heard(domain: Domain) -> None:
    heard = LibvirtMoves(frozenset([NAME]))
    heard.callbacks()[libvirt.VIR_DOMAIN_EVENT_ID_REBOOT](None, Machine(), None)
    moved = heard.next(0)
    assert isinstance(moved, Moved)
    assert (moved.stage, moved.detail) == (Stage.BOOTING, "restarted from inside")


def test_hypervisor_that_went_away_ends_the_listening() -> None:
    heard = LibvirtMoves(frozenset([NAME]))
    heard.closed(None, libvirt.VIR_CONNECT_CLOSE_REASON_EOF, None)
    with pytest.raises(SiteError, match="restarted"):
        heard.next(SECONDS)
