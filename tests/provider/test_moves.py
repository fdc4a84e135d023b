"""What machines do is pushed by a real libvirt and QEMU, in the order and at the time that it happens."""

import time

import pytest

from deskyard.errors import SiteError
from deskyard.plan.power import Power
from deskyard.site.libvirt import moves, power
from deskyard.site.libvirt.machines import loads
from deskyard.site.libvirt.moves import LibvirtMoves
from deskyard.wire.stages import Stage
from tests.provider.bench import PREFIX, Bench

pytestmark = pytest.mark.vm

SECONDS = 60.0


def stages(heard: LibvirtMoves, last: Stage, after: Stage | None = None) -> list[Stage]:
    """The stages up to that one, each once in a row: a start is told twice, as resumed and as started."""
    found: list[Stage] = []
    now = after
    while now is not last:
        moved = heard.next(SECONDS)
        assert moved is not None, found
        assert time.time() - SECONDS < moved.at <= time.time()
        if now is not moved.stage:
            now = moved.stage
            found.append(now)
    return found


def test_life_of_a_machine_is_heard_from_its_making_to_its_end(bench: Bench) -> None:
    with moves.listening([PREFIX]) as heard:
        bench.machine()
        assert stages(heard, Stage.BOOTING) == [Stage.PROVISIONING, Stage.BOOTING]
        machine = bench.link.lookupByName(PREFIX)
        power.pause(machine, to_disk=False)
        assert stages(heard, Stage.PAUSED, Stage.BOOTING) == [Stage.PAUSED]
        machine.resume()
        assert stages(heard, Stage.BOOTING) == [Stage.BOOTING]
        power.want(machine, Power.OFF)
        assert stages(heard, Stage.STOPPING, Stage.BOOTING) == [Stage.STOPPING]
        machine.destroy()
        assert stages(heard, Stage.STOPPED, Stage.STOPPING) == [Stage.STOPPED]
        machine.create()
        assert stages(heard, Stage.BOOTING) == [Stage.BOOTING]
        machine.managedSave()
        assert stages(heard, Stage.PAUSED, Stage.BOOTING) == [Stage.PAUSED]
        power.forget(machine)
        assert stages(heard, Stage.PROVISIONING, Stage.PAUSED) == [Stage.PROVISIONING]


def test_what_a_machine_takes_is_counted_while_it_runs(bench: Bench) -> None:
    bench.machine()
    machine = bench.link.lookupByName(PREFIX)
    first, second = (loads(bench.link, [PREFIX])[PREFIX] for _ in range(2))
    assert first.cpu_seconds is not None and second.cpu_seconds is not None
    assert 0 < first.cpu_seconds <= second.cpu_seconds <= machine.getCPUStats(True)[0]["cpu_time"] / 1e9
    assert loads(bench.link, ["another"]) == {}
    machine.destroy()
    assert loads(bench.link, [PREFIX]) == {}


def test_restart_of_a_guest_is_heard(bench: Bench) -> None:
    bench.machine()
    machine = bench.link.lookupByName(PREFIX)
    with moves.listening([PREFIX]) as heard:
        machine.reset()
        moved = heard.next(SECONDS)
        assert moved is not None
        assert moved.stage is Stage.BOOTING


def test_killed_qemu_is_an_error_in_the_moment_it_dies(bench: Bench) -> None:
    bench.machine()
    with moves.listening([PREFIX]) as heard:
        bench.kill()
        assert stages(heard, Stage.ERROR) == [Stage.ERROR]


def test_guest_that_does_not_listen_ends_the_wait_for_its_shutdown(bench: Bench) -> None:
    bench.machine()
    machine = bench.link.lookupByName(PREFIX)
    with moves.listening([PREFIX]) as heard, pytest.raises(SiteError, match="still runs"):
        power.shut_down(machine, seconds=1, pause=heard.rest)
    assert machine.isActive()
