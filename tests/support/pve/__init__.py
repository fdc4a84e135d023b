"""A Proxmox VE cluster for tests: fakepve behind real HTTP and TLS, with state where Deskyard needs it."""

from tests.support.pve.cluster import GIB, Capacity
from tests.support.pve.fake import Fake
from tests.support.pve.guests import Guest
from tests.support.pve.peer import Client, Peer

__all__ = ["GIB", "Capacity", "Client", "Fake", "Guest", "Peer"]
