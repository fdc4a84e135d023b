"""A repository in a bucket: the real restic to an S3 server that is not ours, by TLS on loopback.

What can be said without a server is in `test_bucket.py`; this needs one that no machine has by itself.
"""

import os
import random
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from deskyard.errors import CommandError, ConfigError, SiteError
from deskyard.life.backup.repository import Repository, repository_of
from deskyard.plan import backup as plan
from deskyard.plan.backup import Backup, Source
from tests.support.s3_server import ADMIN, READER, REGION, WRITER, S3Server, need_server
from tests.unit.life.restic import RESTIC

pytestmark = pytest.mark.deep
MIB = 1 << 20
SIZE = 12 * MIB


class Away:
    """A repository in a bucket, and a disk."""

    def __init__(self, folder: Path, server: S3Server, monkeypatch: pytest.MonkeyPatch) -> None:
        self.server, self._monkeypatch = server, monkeypatch
        self._site, self.again = folder / "stacks/sites/local.yaml", folder / "restored"
        self.disk, self.kept = folder / "disk", server.bucket / "kept/lab"
        self.disk.write_bytes(random.Random(7).randbytes(3 * MIB))
        os.truncate(self.disk, SIZE)
        self._site.parent.mkdir(parents=True)
        self.named()
        self.give(WRITER)

    def named(self, location: str = "", **settings: object) -> None:
        """Write the site's file."""
        store = {"region": REGION, "ca": str(self.server.certificates.authority), "path_style": True, **settings}
        store = {name: value for name, value in store.items() if value is not None}
        self._site.write_text(yaml.safe_dump({"backups": location or self.server.location, "backups_s3": store}))

    def give(self, keys: tuple[str, str]) -> None:
        """Have these keys in the environment."""
        for variable, value in zip(("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"), keys, strict=True):
            self._monkeypatch.setenv(variable, value)

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
        """The largest of the objects that hold content."""
        return max((self.kept / "data").rglob("*"), key=lambda path: path.stat().st_size)


@pytest.fixture
def away(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Away]:
    """A site whose backups go to a bucket that is there and lets it write."""
    monkeypatch.setenv("DESKYARD_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("DESKYARD_STACKS", str(tmp_path / "stacks"))
    monkeypatch.setattr("deskyard.life.backup.repository.locate", lambda _: RESTIC)
    server = S3Server(tmp_path / "server", need_server())
    with server.running():
        yield Away(tmp_path, server, monkeypatch)


def test_a_disk_goes_there_and_comes_back_and_one_that_has_not_changed_adds_nothing(away: Away) -> None:
    assert away.repository.prepare()
    first = away.keep("a")
    assert first.added > 2 * MIB
    assert away.keep("b").added < MIB // 10
    assert away.repository.restore(first.disks[0], away.again).read_bytes() == away.disk.read_bytes()
    # Below the prefix and the workspace's name, and nothing of the question whether it can be written to.
    assert {path.name for path in away.kept.iterdir()} >= {"config", "data", "snapshots"}
    assert not (away.kept / "deskyard-reach").exists()


def test_keys_of_a_file_are_used_and_no_others(away: Away, tmp_path: Path) -> None:
    file = tmp_path / "keys"
    file.write_text("[default]\naws_access_key_id = {}\naws_secret_access_key = {}\n".format(*WRITER))
    file.chmod(0o600)
    away.give(("nobody", "nothing"))
    away.named(credentials_file=str(file))
    away.repository.prepare()
    away.keep("a")
    assert away.ids() == ["a"]


def test_a_region_that_is_not_named_is_found_out(away: Away) -> None:
    away.named(region=None)
    away.repository.prepare()
    away.keep("a")
    assert away.ids() == ["a"]


def test_what_is_damaged_there_is_found(away: Away) -> None:
    away.repository.prepare()
    kept = away.keep("a")
    pack = away.pack()
    whole = bytearray(pack.read_bytes())
    whole[len(whole) // 2] ^= 1
    pack.write_bytes(whole)
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


def test_what_cannot_be_reached_is_named_before_anything_is_there(away: Away) -> None:
    def refuses(reason: str) -> None:
        with pytest.raises(ConfigError, match=reason) as caught:
            away.repository.prepare()
        assert "hunter2" not in str(caught.value)
        assert not away.repository.key.exists()

    away.give(("nobody", WRITER[1]))
    refuses("does not know the access key")
    away.give((WRITER[0], "wrong"))
    refuses("the secret is not that of the access key")
    away.give(READER)
    refuses("the keys may not write")
    away.give(WRITER)
    away.named(ca=None)
    refuses("the certificate of its server is not trusted")
    away.named(region="eu-other-1")
    refuses("another region, eu-test-1")
    away.give(ADMIN)
    away.named(away.server.location.replace("/desks/", "/other/"))
    refuses("has no such bucket")
    away.named(away.server.location.replace("https", "http"), ca=None)
    with pytest.raises(ConfigError):
        away.repository.prepare()
    assert [path.name for path in (away.server.folder / "objects").iterdir()] == ["desks"]
    assert list(away.server.bucket.iterdir()) == []
