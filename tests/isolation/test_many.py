"""Many workspaces on one host, all ordered pairs at once: nothing of one reaches another."""

import random
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from deskyard.isolation.probing import Verdict, new_mark, send
from deskyard.plan.isolation import probe as verification_probe
from deskyard.plan.isolation.catalogue import between
from deskyard.plan.isolation.probe import watched
from deskyard.plan.workspace import WorkspacePlan
from tests.isolation.conftest import planned
from tests.isolation.site import LAYERS, Site
from tests.isolation.test_layers import report_of

SAMPLE, ALL = 4, 50


@contextmanager
def crowd(count: int, seed: int) -> Iterator[tuple[Site, list[WorkspacePlan]]]:
    """So many workspaces with networks and modes of chance, on one host."""
    chance = random.Random(seed)
    plans = [
        planned(f"w{number}", number, egress=chance.choice(["open", "none"]))
        for number in chance.sample(range(10, 600), count)
    ]
    with pytest.MonkeyPatch.context() as patience, Site() as site:
        patience.setattr(verification_probe, "WAIT_SECONDS", 1.5)
        first = site.add(plans[0], services=False)
        site.add_like(first, *plans[1:], services=False)
        yield site, plans


def leaks(site: Site, plans: list[WorkspacePlan]) -> list[Verdict]:
    """Every ordered pair is tried; what arrived that must not."""
    mark = new_mark()
    probes = between(plans, mark)
    pairs = len(plans) * (len(plans) - 1)
    assert len([probe for probe in probes if probe.topic == "workspaces"]) == pairs * 15
    watch = {name: nics for plan in plans for name, nics in watched(plan).items()}
    verdicts = send(probes, watch, mark, site.start)
    silent = [verdict for verdict in verdicts if verdict.outcome.startswith("not sent")]
    assert not silent, report_of(silent)
    return [verdict for verdict in verdicts if not verdict.ok]


@pytest.mark.parametrize("count", [SAMPLE, pytest.param(ALL, marks=pytest.mark.deep)])
def test_no_workspace_of_many_reaches_another(count: int, random_seed: int) -> None:
    with crowd(count, random_seed) as (site, plans):
        found = leaks(site, plans)
        assert not found, report_of(found)
        # The same with one gateway wide open: its workspace, and no other, is reported.
        weak = site.workspaces[plans[-1].name]
        weak.switch(LAYERS - {"gateway"})
        assert {verdict.probe.start for verdict in leaks(site, plans)} == {f"{weak.plan.name}/one"}
