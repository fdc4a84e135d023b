"""What can be made to go wrong, besides what fakepve itself can: its `fail`, `snapshot_lock`, `lose_quorum`, ..."""

import asyncio
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Literal

from tests.support.pve.calls import Call

# When a call is cut: before anything is done, or when it is done and only the answer is missing.
When = Literal["before", "after"]


@dataclass
class Faults:
    """Switches; all off."""

    # Storage whose lock cannot be had -> how many allocations still fail: PVE::Cluster::cfs_lock gives up after 10 s.
    storage_locks: Counter[str] = field(default_factory=Counter)
    # Kind of task (qmclone, qmstart, imgcopy, ...) -> real seconds for which it goes on behind its answer.
    slow_tasks: dict[str, float] = field(default_factory=dict)
    # Kinds of tasks that end with OK although the disks are not there: a storage that lost what it was told.
    lost_disks: set[str] = field(default_factory=set)
    # Storages of which no disk can be deleted: the task that removes a machine warns, and goes on (destroy_vm).
    stuck_storages: set[str] = field(default_factory=set)
    # Node -> how many reloads of its network still fail, once it has the configuration and before it has the bridges.
    failing_reloads: Counter[str] = field(default_factory=Counter)
    # For how many seconds a node reloads its network: who has it begin anew meanwhile is refused (ifupdown2).
    slow_reloads: float = 0.0
    # In how many listings a machine is not shown whole.
    late_listings: int = 2
    # How many looks at a machine still show it as it was after HA was told to start or stop it.
    late_ha: int = 1
    # Number of a call -> its connection is cut, before or after it is worked off.
    cuts: dict[int, When] = field(default_factory=dict)
    # From this call on nothing is answered any more.
    silent_from: int | None = None
    # Called with each call before it is worked off, in the thread of the API.
    on_call: Callable[[Call], None] | None = None

    def __post_init__(self) -> None:
        self._awake = asyncio.Event()

    def wake(self) -> None:
        """Let go of calls that are kept waiting."""
        self._awake.set()

    async def silence(self, call: Call) -> None:
        """Keep the call waiting if it is to get no answer."""
        if self.silent_from is not None and call.number >= self.silent_from:
            await self._awake.wait()
