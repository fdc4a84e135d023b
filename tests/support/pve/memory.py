"""What the peer holds, kept and put back: any number of tests start from the same cluster."""

import copy
from typing import Any

from tests.support.pve.peer import Peer

# What is plain data is the cluster's, but for these.
NOT_HELD = frozenset({"host", "port", "requests"})
PLAIN = (dict, list, set, str, int, float, bool, type(None))


class Memory:
    """The cluster of a peer at one moment."""

    def __init__(self, peer: Peer) -> None:
        self._peer = peer
        self._held = peer.wait(self._look())

    def put_back(self) -> None:
        """Let the cluster be as it was; faults and the record of calls stay."""
        self._peer.wait(self._put_back())

    async def _look(self) -> dict[str, Any]:
        fake = vars(self._peer.fake).items()
        return copy.deepcopy({name: value for name, value in fake if name not in NOT_HELD and isinstance(value, PLAIN)})

    async def _put_back(self) -> None:
        self._peer.fake.__dict__.update(copy.deepcopy(self._held))
