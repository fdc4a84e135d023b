"""Memory for machines that start, as a real libvirt counts what their processes have taken."""

from pathlib import Path

import pytest

from deskyard.host import facts
from deskyard.plan.power import NoRoom
from deskyard.site.libvirt.limits import memory
from tests.provider.bench import PREFIX, Bench

pytestmark = pytest.mark.vm
# What a process takes between two looks at it.
NEARLY_MIB = 32


def taken_mib(domain: str) -> int:
    """The memory that the kernel says a machine's process has."""
    pid = Path(f"/run/libvirt/qemu/{domain}.pid").read_text()
    (line,) = [line for line in Path(f"/proc/{pid}/status").read_text().splitlines() if line.startswith("VmRSS:")]
    return int(line.split()[1]) >> 10


def test_a_machine_counts_from_its_start_on_with_what_it_has_not_taken_yet(
    bench: Bench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    available = tmp_path / "meminfo"
    monkeypatch.setattr(facts, "MEMORY_FILE", available)
    available.write_text(f"MemAvailable: {100 << 20} kB\n")
    # Of machines that others start meanwhile nothing is known.
    monkeypatch.setattr(memory, "_folder", lambda: tmp_path / "starting")
    before = memory.free_mib(bench.link)
    assert before == 100 << 10
    bench.machine()
    machine = bench.link.lookupByName(PREFIX)
    size = machine.maxMemory() >> 10
    rest = max(0, size // 2 - taken_mib(PREFIX))
    assert before - memory.free_mib(bench.link) == pytest.approx(rest, abs=NEARLY_MIB)
    machine.destroy()
    for _ in range(2):
        assert before - memory.free_mib(bench.link) == size // 2
        memory.take(machine)
    available.write_text(f"MemAvailable: {size - 1 << 10} kB\n")
    with pytest.raises(NoRoom, match=f"MiB are free for {PREFIX}"):
        memory.take(machine)
