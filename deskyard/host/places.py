"""Where Deskyard keeps things outside the tree, and whether a file was changed since."""

import os
from dataclasses import dataclass
from pathlib import Path

Stamp = tuple[int, int, int]


@dataclass(frozen=True)
class Places:
    """Folders of one user: what can be made again (cache), what is worth keeping (data), what is alive (state)."""

    cache: Path
    data: Path
    state: Path
    # Other accounts than the user's enter it: the database's, and those of Mission Control's processes.
    control: Path

    @property
    def toolchain(self) -> Path:
        """Programs that were downloaded or built."""
        return self.cache / "toolchain"

    @property
    def bases(self) -> Path:
        """Base disks: vendor images and bootstrapped ones."""
        return self.cache / "bases"

    @property
    def images(self) -> Path:
        """Built and tested images: one folder per name and digest."""
        return self.data / "images"

    @property
    def sites(self) -> Path:
        """The folders of sites, one each: certificate authority, management key, one folder per workspace."""
        return self.state / "sites"

    def authority(self, site: str) -> Path:
        """The certificate of a site's authority: what browsers are told to trust."""
        return self.sites / site / "ca.pem"

    @property
    def pulumi(self) -> Path:
        """Pulumi's home and the default backend."""
        return self.state / "pulumi"

    def workspace(self, site: str, workspace: str) -> Path:
        """The folder of what this machine knows of a workspace: ssh_config, known_hosts, screenshots of failures."""
        return self.sites / site / "workspaces" / workspace


def places() -> Places:
    """The folders in use: the XDG ones, or all below `DESKYARD_HOME` if that is set; `DESKYARD_CONTROL` moves one."""
    control = os.environ.get("DESKYARD_CONTROL")
    home = os.environ.get("DESKYARD_HOME")
    if home:
        cache, data, state = (Path(home) / part for part in ("cache", "data", "state"))
        return Places(cache, data, state, Path(control or Path(home) / "control"))
    return Places(
        _xdg("XDG_CACHE_HOME", ".cache"),
        _xdg("XDG_DATA_HOME", ".local/share"),
        _xdg("XDG_STATE_HOME", ".local/state"),
        Path(control or "/var/lib/deskyard/control"),
    )


def _xdg(variable: str, default: str) -> Path:
    return Path(os.environ.get(variable) or Path.home() / default) / "deskyard"


def stamp(path: Path) -> Stamp:
    """Stands for the content of a file without reading it: another one, if it was changed, replaced or removed."""
    try:
        found = path.stat()
    except OSError:
        return 0, 0, 0
    return found.st_mtime_ns, found.st_ino, found.st_size


def tree() -> Path:
    """The root of the checkout."""
    return Path(__file__).resolve().parents[2]
