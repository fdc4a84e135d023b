"""One workspace of three real systems for the tests of this folder."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from deskyard.desktop import key_delivery
from deskyard.host.places import places
from deskyard.plan import key_file
from deskyard.site.libvirt import daemon
from tests.desktop.lab import Lab, planned
from tests.desktop.owner import Owner
from tests.support.requirements import need_root


@pytest.fixture(scope="package")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    """A gateway with desktops `desk` and `other`, reached as those of a site on this machine are."""
    need_root("runs containers")
    folder, cache = tmp_path_factory.mktemp("lab"), places().cache
    cache.mkdir(parents=True, exist_ok=True)
    (folder / "home").mkdir()
    # The tree of the hosts is kept for all runs; everything else is this run's.
    (folder / "home" / "cache").symlink_to(cache)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("DESKYARD_HOME", str(folder / "home"))
        lab = Lab(folder / "yard", planned("desk", "other"))
        patch.setattr(daemon, "inside", lab.inside)
        # Whether or not a hypervisor of ours runs on this machine.
        patch.setattr(daemon, "namespace", lambda: lab.yard.name)
        with lab:
            yield lab


@pytest.fixture
def owner(lab: Lab, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Owner:
    """Who has the keys; the desktops of the lab have none yet."""
    desktops = [desktop.name for desktop in lab.plan.desktops]
    if any((lab.root(desktop) / key_file.PATH.lstrip("/")).exists() for desktop in desktops):
        key_delivery.deliver(lab.plan, {desktop: {} for desktop in desktops})
    (lab.link.folder / key_delivery.MARK).unlink(missing_ok=True)
    return Owner(lab, tmp_path, monkeypatch, capsys)
