"""Which database Mission Control has: a cluster of its own on this machine, or one that is elsewhere."""

from collections.abc import Callable

from deskyard.control.ground.folder import Folder
from deskyard.control.store import address
from deskyard.control.store.administrator import nobody_asks
from deskyard.control.store.cluster import Cluster
from deskyard.control.store.elsewhere import Elsewhere
from deskyard.errors import HostError

Database = Cluster | Elsewhere


def database_at(folder: Folder, text: str | None, password: Callable[[], str] = nobody_asks) -> Database:
    """The database at the address that was kept; none was: the cluster of this machine."""
    return Elsewhere(folder, address.parsed(text), password) if text is not None else Cluster(folder)


def chosen(folder: Folder, kept: str | None) -> str | None:
    """The address that is in force: the environment's, or else what was kept; raises `HostError` for a silent move."""
    found = address.wanted()
    if found is None:
        return kept
    if kept is None and folder.has_cluster():
        remedy = "make a backup; run control.down, move that folder away, and restore the backup with the variable set"
        raise HostError(address.VARIABLE, None, f"is set, and {folder.cluster} holds a database", remedy)
    return str(found)
