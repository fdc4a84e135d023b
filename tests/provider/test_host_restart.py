"""A host loses its power and starts again, on real libvirt and QEMU: each machine is what it is wanted to be."""

import os
import shutil
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from deskyard.host.deadline import Deadline
from deskyard.plan.power import Power
from deskyard.site.libvirt import daemon
from deskyard.site.libvirt.kinds.domain import DomainKind
from deskyard.site.libvirt.link import POOL_PATH
from deskyard.site.libvirt.machines import LibvirtMachines
from tests.provider import witness
from tests.provider.own_hypervisor import OwnHypervisor, start_libvirtd

pytestmark = pytest.mark.vm

SIZE, END_SECONDS = "512m", 60.0
# The desktops by what each is wanted to be as the power fails, and what is found of it then.
STATES = {
    "runs": ("running", Power.RUNNING),
    "off": ("stopped", Power.OFF),
    # Its memory was its process's, and went with that.
    "paused": ("stopped", Power.PAUSED),
    "saved": ("saved", Power.PAUSED),
}
PLAN = witness.plan(*STATES)
DOMAINS = {name: PLAN.desktop(name).machine.domain for name in STATES}


@pytest.fixture(scope="module")
def own() -> Iterator[OwnHypervisor]:
    """A hypervisor whose host has lost its power, and was started again."""
    with OwnHypervisor(SIZE) as own:
        own.call(bring_up)
        own.call(lose_power)
        own.call(start_libvirtd)
        yield own


def bring_up() -> None:
    """Make the machines as the engine does, and have each as it is wanted."""
    folder = Path(POOL_PATH).parents[1] / "source"
    folder.mkdir()
    image, machines = witness.image(folder, "01d"), LibvirtMachines(PLAN)
    for name, domain in DOMAINS.items():
        witness.make(name, image)
        witness.await_more(domain)
        machines.want(domain, STATES[name][1])
    machines.shut_down(DOMAINS["off"], force=True)
    machines.pause(DOMAINS["paused"], to_disk=False)
    machines.pause(DOMAINS["saved"], to_disk=True)


def lose_power() -> None:
    """End QEMU and libvirt's daemons, each by its id; /run is empty as a host starts."""
    files = [*Path("/run/libvirt/qemu").glob("*.pid"), *daemon.DAEMON_PID_FILES, Path("/run/virtlogd.pid")]
    pids = {int(file.read_text()) for file in files if file.exists()}
    assert len(pids) >= len(STATES), files
    for pid in pids:
        os.kill(pid, signal.SIGKILL)
    assert Deadline(END_SECONDS).wait_for(lambda: not any(Path(f"/proc/{pid}").exists() for pid in pids), witness.PAUSE)
    shutil.rmtree("/run/libvirt")
    for file in files:
        file.unlink(missing_ok=True)


def states() -> dict[str, tuple[str, Power]]:
    """What each desktop is, and what it is wanted to be."""
    found = LibvirtMachines(PLAN).states()
    return {name: (found[domain]["state"], found[domain]["desired"]) for name, domain in DOMAINS.items()}


def test_what_is_wanted_to_run_starts_with_its_host_and_nothing_else_does(own: OwnHypervisor) -> None:
    # Whatever starts by itself was begun before libvirt's daemon answered anybody.
    own.call(await_boot, "runs")
    assert own.call(states) == STATES


def await_boot(name: str) -> None:
    """Wait until the guest has written on, since it booted once more."""
    witness.await_more(DOMAINS[name])
    assert boots(name) == 2


def boots(name: str) -> int:
    """How often the guest of a desktop has booted."""
    return sum(letter == "b" for letter, _ in witness.said(DOMAINS[name]))


def test_what_stays_as_it_is_wanted_is_no_drift_after_the_start(own: OwnHypervisor) -> None:
    assert own.call(as_the_engine_reads) == dict.fromkeys(STATES, True)


def as_the_engine_reads() -> dict[str, bool]:
    """Whether each machine is as it is wanted, by what the engine reads of it."""
    found = {}
    with daemon.connection() as link:
        for name, domain in DOMAINS.items():
            system, home = witness.disks(domain)
            read = DomainKind().read(link, domain, {"name": domain, "disk": str(system), "home": str(home)})
            assert read is not None
            found[name] = bool(read["running"])
    return found


def test_what_was_paused_to_disk_goes_on_with_its_memory_over_the_start(own: OwnHypervisor) -> None:
    own.call(go_on)


def go_on() -> None:
    """Let it go on, and see that it did not boot."""
    with witness.adapted():
        LibvirtMachines(PLAN).start(DOMAINS["saved"])
    witness.await_more(DOMAINS["saved"])
    assert boots("saved") == 1
