"""A repository on another machine: the real restic by the real ssh to OpenSSH's own server, on loopback."""

import os
import random
from collections.abc import Iterator
from pathlib import Path

import pytest

from deskyard.errors import CommandError, ConfigError, SiteError
from deskyard.life.backup.repository import Repository, repository_of
from deskyard.plan import backup as plan
from deskyard.plan.backup import Backup, Source
from tests.support.sftp_server import SftpServer, serve
from tests.unit.life.restic import lock_anew, use_restic

MIB = 1 << 20
SIZE = 12 * MIB


class Away:
    """A repository that is reached by SFTP, the folder in which it lies, and a disk."""

    def __init__(self, folder: Path, server: SftpServer) -> None:
        self.server, self.folder = server, folder / "srv" / "lab"
        self.disk, self.again = folder / "disk", folder / "restored"
        self.disk.write_bytes(random.Random(7).randbytes(3 * MIB))
        os.truncate(self.disk, SIZE)

    @property
    def repository(self) -> Repository:
        """As the site's file names it."""
        return repository_of("local", "lab")

    def keep(self, name: str, script: str = "cat {}") -> Backup:
        """Make a backup of the disk."""
        source = Source("vda", SIZE, 3 * MIB, ["sh", "-c", script.replace("{}", str(self.disk))])
        kept, added = self.repository.keep(source, "dev1", name)
        self.repository.finish(Backup(name, "dev1", len(self.ids()), running=True, disks=(kept,), added=added))
        return plan.backups(self.repository.snapshots(), "dev1")[-1]

    def ids(self) -> list[str]:
        """The backups that are listed."""
        return [found.id for found in plan.backups(self.repository.snapshots(), "dev1")]

    def pack(self) -> Path:
        """The largest of the files that hold content."""
        return max((self.folder / "data").rglob("*"), key=lambda path: path.stat().st_size)


@pytest.fixture
def away(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Away]:
    """A site whose backups go to another machine, which is there and known."""
    monkeypatch.setenv("DESKYARD_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("DESKYARD_STACKS", str(tmp_path / "stacks"))
    with serve(tmp_path / "server", monkeypatch) as server:
        away = Away(tmp_path, server)
        (tmp_path / "stacks/sites").mkdir(parents=True)
        site = tmp_path / "stacks/sites/local.yaml"
        site.write_text(f"backups: {server.location(away.folder.parent)}\n")
        use_restic(monkeypatch, lambda key: lock_anew(away.folder, key, key))
        yield away


def test_a_disk_goes_there_and_comes_back_and_one_that_has_not_changed_adds_nothing(away: Away) -> None:
    assert away.repository.prepare()
    first = away.keep("a")
    assert first.added > 2 * MIB
    assert away.keep("b").added < MIB // 10
    assert away.repository.restore(first.disks[0], away.again).read_bytes() == away.disk.read_bytes()
    # Strict whatever the settings of ssh say, and without the key of the repository.
    lines = away.server.asked.splitlines()
    assert all("-oStrictHostKeyChecking=yes" in line and "-oBatchMode=yes" in line for line in lines)
    assert away.repository.key.read_text() not in away.server.asked


def test_what_is_damaged_there_is_found(away: Away) -> None:
    away.repository.prepare()
    kept = away.keep("a")
    pack = away.pack()
    whole = pack.read_bytes()
    pack.chmod(0o600)
    pack.write_bytes(whole[: len(whole) // 2] + bytes([whole[len(whole) // 2] ^ 1]) + whole[len(whole) // 2 + 1 :])
    with pytest.raises(CommandError):
        away.repository.restore(kept.disks[0], away.again)
    pack.unlink()
    with pytest.raises(CommandError):
        away.repository.restore(kept.disks[0], away.again)


def test_what_is_cut_off_is_never_listed_and_the_next_one_works(away: Away) -> None:
    away.repository.prepare()
    away.keep("a")
    with pytest.raises(SiteError):
        away.keep("b", "head -c 2000000 {}")
    with pytest.raises(CommandError):
        away.keep("c", "head -c 2000000 {}; exit 3")
    assert away.ids() == ["a"]
    assert not away.repository.prepare()
    away.keep("e")
    assert away.ids() == ["a", "e"]


def test_a_host_that_is_not_known_or_lets_nobody_in_is_refused_with_what_to_do(away: Away) -> None:
    server = away.server
    server.make_known(False)
    with pytest.raises(ConfigError, match="the key of its host is not known here") as caught:
        away.repository.prepare()
    assert "ssh-keyscan" in str(caught.value)
    server.make_known(True)
    server.new_key("host")
    with pytest.raises(ConfigError, match="another key than the one that is known"):
        away.repository.prepare()
    server.make_known(True)
    server.let_in(False)
    with pytest.raises(ConfigError, match="does not let this user in"):
        away.repository.prepare()
    server.let_in(True)
    server.offer(False)
    with pytest.raises(ConfigError, match="cannot be reached, or has no SFTP"):
        away.repository.prepare()
    # Nothing is left of a repository that was never made; of one that is there, the same is said.
    assert not away.repository.key.exists()
    assert not away.folder.exists()
    server.offer(True)
    away.repository.prepare()
    server.make_known(False)
    with pytest.raises(ConfigError, match="the key of its host is not known here"):
        away.repository.snapshots()
