"""What a killed restore has left on the disk of the hypervisor goes with its workspace, and no other's does."""

import os
import sys
from pathlib import Path
from subprocess import run

import pytest

from deskyard.engine.on_libvirt import LibvirtBackend
from deskyard.model.site import Site
from deskyard.plan.names import domain
from deskyard.site.libvirt import storage
from deskyard.site.libvirt.backup import backups, remnants
from deskyard.site.libvirt.backup.backups import LibvirtBackups

# Of a task that was killed while disks were restored.
KILLED = """
import os, signal, sys
from pathlib import Path
from deskyard.site.libvirt import storage
from deskyard.site.libvirt.backup import backups

backups.RESTORED, storage.require_room, os.geteuid = Path(sys.argv[1]), lambda _: None, lambda: 0
with backups.LibvirtBackups(sys.argv[2]).room(sys.argv[3], 1) as folder:
    (folder / "vda.raw").write_text("restored")
    os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.fixture
def restored(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where disks are restored; not there yet."""
    folder = tmp_path / "restored"
    for module in (backups, remnants):
        monkeypatch.setattr(module, "RESTORED", folder)
    monkeypatch.setattr(storage, "require_room", lambda _: None)
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    return folder


def test_what_killed_tasks_left_is_listed_and_goes(restored: Path) -> None:
    backend = LibvirtBackend(Site())
    assert backend.remnants("lab") == []
    for name, purpose in ((domain("lab", "dev1"), "restore"), (domain("lab", "dev2"), "verify")):
        killed = run([sys.executable, "-c", KILLED, str(restored), name, purpose], check=False, timeout=60)
        assert killed.returncode == -9
    # Of a workspace whose name begins alike, and of one that ends by itself.
    (restored / f"{domain('lab2', 'dev1')}.restore").mkdir()
    with LibvirtBackups(domain("lab", "dev3")).room("restore", 1):
        pass
    found = backend.remnants("lab", settled=True)
    assert [remnant.desktop for remnant in found] == ["dev1", "dev2"]
    assert found[0].what == f"{restored}/deskyard-lab.dev1.restore, in which a backup of it was restored (restore)"
    assert (restored / "deskyard-lab.dev1.restore/vda.raw").exists()
    for remnant in found:
        remnant.remove()
    assert [path.name for path in restored.iterdir()] == ["deskyard-lab2.dev1.restore"]
