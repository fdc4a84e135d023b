"""A tier with smaller disks is refused with what would have to be freed; one that grows never asks a guest."""

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from deskyard.errors import ConfigError, SiteError
from deskyard.host.vm.agent_answer import HELD, held
from deskyard.plan.power import Power
from deskyard.workspace import smaller, workspace
from tests.desktop.lab import planned

GIB = 1 << 30
PLAN = planned("dev1", "dev2")
DEV1, DEV2 = (desktop.machine.domain for desktop in PLAN.desktops)
SIZE, HOME = PLAN.desktops[0].machine.disk_gib, PLAN.desktops[0].machine.home_gib or 0


class Guests:
    """Machines whose disks have these sizes, and whose guests hold so much."""

    def __init__(self, sizes: dict[str, dict[str, int]], holds: dict[str, int] | None = None) -> None:
        self.sizes, self.holds = sizes, holds
        self.asked: list[str] = []

    def desired(self) -> dict[str, Power]:
        return dict.fromkeys(self.sizes, Power.RUNNING)

    def disk_sizes(self, domain: str) -> dict[str, int]:
        return self.sizes[domain]

    def held(self, domain: str) -> dict[str, int]:
        self.asked.append(domain)
        if self.holds is None:
            raise SiteError("machine", domain, "is off", "start it")
        return self.holds


def refusal(guests: Any) -> ConfigError:
    with pytest.raises(ConfigError) as caught:
        smaller.require_none(PLAN, guests)
    return caught.value


@pytest.mark.parametrize("sizes", [{}, {DEV1: {"/": SIZE, "/home": HOME}}, {DEV1: {"/": SIZE - 1}, DEV2: {}}])
def test_disks_that_stay_or_grow_or_are_not_there_ask_no_guest(sizes: dict[str, dict[str, int]]) -> None:
    guests: Any = Guests(sizes)
    smaller.require_none(PLAN, guests)
    assert guests.asked == []


def test_home_that_holds_more_than_the_tier_is_to_be_freed_by_so_much() -> None:
    found = refusal(Guests({DEV2: {"/": SIZE, "/home": HOME + 10}}, {"/": 1, "/home": (HOME + 5) * GIB}))
    assert (found.field, found.value) == ("Pulumi.lab.yaml: desktops[1].tier", PLAN.desktops[1].tier)
    assert found.reason == f"the disk of /home has {HOME + 10} GiB, the tier {HOME}: no disk shrinks"
    needed = (HOME + 5) * 1024 - HOME * 1024 * 93 // 100
    assert f"free {needed} MiB in /home, which holds {(HOME + 5) * 1024}" in found.remedy
    assert "./inv backup.run lab/dev2" in found.remedy and "--to lab/OTHER" in found.remedy


def test_what_fits_already_is_said_to_fit() -> None:
    found = refusal(Guests({DEV1: {"/": SIZE * 2, "/home": HOME * 2}}, {"/": GIB, "/home": 2 * GIB}))
    assert "what / holds, 1024 MiB, fits, what /home holds, 2048 MiB, fits" in found.remedy
    assert f"the disk of / has {SIZE * 2} GiB" in found.reason and "the disk of /home" in found.reason


@pytest.mark.parametrize("holds", [None, {}])
def test_desktop_that_does_not_tell_is_refused_all_the_same(holds: dict[str, int] | None) -> None:
    assert "start it to learn what / holds" in refusal(Guests({DEV1: {"/": SIZE + 1}}, holds)).remedy


def test_desktop_without_a_volume_of_home_is_judged_by_its_system_disk() -> None:
    dev1 = PLAN.desktops[0]
    plan = replace(PLAN, desktops=(replace(dev1, machine=replace(dev1.machine, home_gib=None)),))
    guests: Any = Guests({DEV1: {"/": SIZE, "/home": 99}})
    smaller.require_none(plan, guests)


@pytest.mark.parametrize("sizes", [{DEV1: {"/": SIZE + 1}}, {DEV1: {"/": SIZE}}])
def test_refusal_of_the_engine_is_explained_only_where_a_disk_would_shrink(
    monkeypatch: pytest.MonkeyPatch, sizes: dict[str, dict[str, int]]
) -> None:
    def fail() -> Any:
        raise SiteError("workspace", "lab", "size_gib: a disk cannot shrink", "mend the cause")

    monkeypatch.setattr(workspace, "machines_of", lambda _: Guests(sizes))
    declared: Any = SimpleNamespace(plan=PLAN)
    shrinks = sizes[DEV1]["/"] > SIZE
    with pytest.raises(ConfigError if shrinks else SiteError, match="no disk shrinks" if shrinks else "cannot shrink"):
        workspace._steps(declared, fail)
    assert workspace._steps(declared, list) == []


def test_hypervisor_that_cannot_be_asked_hides_no_error_of_the_engine(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: Any) -> Any:
        raise SiteError("workspace", "lab", "the engine's own", "mend the cause")

    def silent(*_: Any) -> Any:
        raise SiteError("site", "local", "does not answer", "run ./inv site.up")

    monkeypatch.setattr(workspace, "machines_of", silent)
    declared: Any = SimpleNamespace(plan=PLAN)
    with pytest.raises(SiteError, match="the engine's own"):
        workspace._steps(declared, fail)


def test_what_a_guest_holds_is_read_from_its_df() -> None:
    table = "Mounted on          Used\n/             3221225472\n/home         1048576\n"
    assert held(0, table, "dev1") == {"/": 3 * GIB, "/home": 1 << 20}
    # Without a volume of its own, /home is on the system's disk.
    assert held(0, "Mounted on Used\n/ 7\n/ 7\n", "dev1") == {"/": 7}
    assert HELD[-2:] == ("/", "/home")


@pytest.mark.parametrize(("code", "output"), [(1, ""), (0, "x\n/ many\n"), (0, "x\n/ 1 2\n")])
def test_guest_whose_answer_makes_no_sense_holds_nothing_known(code: int, output: str) -> None:
    with pytest.raises(SiteError):
        held(code, output, "dev1")
