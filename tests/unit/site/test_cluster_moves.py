"""Moves of a cluster's machines are found by looking, at a bounded pace."""

import time
from typing import Any

import pytest

from deskyard.plan.power import Power
from deskyard.site.proxmox.moves import LOOK_SECONDS, ClusterMoves
from deskyard.wire.stages import Stage


def states(**machines: str) -> dict[str, dict[str, Any]]:
    return {name: {"state": state, "desired": Power.RUNNING} for name, state in machines.items()}


class Cluster:
    """States by look, the last of them for ever; a look takes so long, and time passes in pauses alone."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, *looks: dict[str, dict[str, Any]], takes: float = 0.0) -> None:
        self.looks, self.takes, self.now, self.pauses = list(looks), takes, 0.0, list[float]()
        monkeypatch.setattr(time, "monotonic", lambda: self.now)

    def look(self) -> dict[str, dict[str, Any]]:
        self.now += self.takes
        return self.looks.pop(0) if len(self.looks) > 1 else self.looks[0]

    def sleep(self, seconds: float) -> None:
        self.pauses.append(seconds)
        self.now += seconds


def test_each_machine_that_differs_is_news_once_and_what_is_gone_is_not_there(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = Cluster(
        monkeypatch,
        states(dev1="running", dev2="running"),
        states(dev1="running", dev2="running"),
        states(dev1="stopped", dev2="running", dev3="running"),
        states(dev1="stopped", dev3="running"),
    )
    moves = ClusterMoves(cluster.look, cluster.sleep, lambda: 7.0)
    found = [moves.next(60) for _ in range(3)]
    assert [moved and (moved.domain, moved.stage, moved.at) for moved in found] == [
        ("dev1", Stage.STOPPED, 7.0),
        ("dev3", Stage.BOOTING, 7.0),
        ("dev2", Stage.PROVISIONING, 7.0),
    ]
    assert cluster.pauses == [LOOK_SECONDS]


def test_nothing_new_ends_in_time(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = Cluster(monkeypatch, states(dev1="running"))
    moves = ClusterMoves(cluster.look, cluster.sleep)
    assert moves.next(10) is None
    assert 10 <= cluster.now <= 10 + 2 * LOOK_SECONDS
    assert moves.next(0) is None


def test_slow_cluster_is_looked_at_less_often(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = Cluster(monkeypatch, states(dev1="running"), takes=4.0)
    ClusterMoves(cluster.look, cluster.sleep).next(30)
    assert set(cluster.pauses) == {12.0}
