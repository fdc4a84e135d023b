"""Tells by its files whether a declaration changed since it was read: they are looked at often, and read seldom."""

from deskyard.declaration import declaration
from deskyard.errors import DeskyardError
from deskyard.host.places import Stamp, stamp
from deskyard.site.files import site_file


class Stamps:
    """The stamps of declarations; of which site a workspace is, is read when its own file changes."""

    def __init__(self) -> None:
        self._sites: dict[str, tuple[Stamp, str]] = {}

    def of(self, name: str) -> tuple[Stamp, Stamp]:
        """The stamp of a workspace's file, and of its site's."""
        own = stamp(declaration.stack_file(name))
        if name not in self._sites or self._sites[name][0] != own:
            self._sites[name] = own, _site_of(name)
        return own, stamp(site_file(self._sites[name][1]))

    def forget(self, name: str) -> None:
        """Forget a workspace that is gone."""
        self._sites.pop(name, None)


def _site_of(name: str) -> str:
    try:
        return declaration.site_name(name)
    except DeskyardError:
        # What is wrong with the file is told by who reads all of it.
        return ""
