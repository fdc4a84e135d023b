"""A repository in a bucket: the real restic to S3 servers that are not ours, by TLS on loopback.

What can be said without a server is in `test_bucket.py`.
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
from tests.support.connect_proxy import ConnectProxy
from tests.support.s3_server import DOMAIN, REGION, Moto, S3Server, Versitygw
from tests.unit.life.restic import cheap, use_restic

MIB = 1 << 20
SIZE = 12 * MIB
VERSITYGW = pytest.param(Versitygw, id="versitygw", marks=pytest.mark.deep)


class Away:
    """A repository in an empty bucket, and a disk."""

    def __init__(self, folder: Path, server: S3Server, monkeypatch: pytest.MonkeyPatch) -> None:
        self.server, self._monkeypatch = server, monkeypatch
        self._site, self.again = folder / "stacks/sites/local.yaml", folder / "restored"
        self.disk = folder / "disk"
        self.disk.write_bytes(random.Random(7).randbytes(3 * MIB))
        os.truncate(self.disk, SIZE)
        self._site.parent.mkdir(parents=True)
        self.named()
        self.give(server.writer)
        server.empty()
        use_restic(monkeypatch, self._relock)

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

    def pack(self) -> str:
        """The largest of the objects that hold content."""
        sizes = {name: size for name, size in self.server.names().items() if name.startswith("kept/lab/data/")}
        return max(sizes, key=lambda name: sizes[name])

    def _relock(self, password: bytes) -> None:
        (dear,) = (name for name in self.server.names() if name.startswith("kept/lab/keys/"))
        name, text = cheap(self.server.read(dear), password, password)
        self.server.write(f"kept/lab/keys/{name}", text)
        self.server.remove(dear)


@pytest.fixture(scope="module", params=[pytest.param(Moto, id="moto"), VERSITYGW])
def server(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[S3Server]:
    """A server with one bucket."""
    server: S3Server = request.param(tmp_path_factory.mktemp("s3") / "server")
    with server.running():
        yield server


@pytest.fixture
def away(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, server: S3Server) -> Away:
    """A site whose backups go to a bucket that is there and lets it write."""
    monkeypatch.setenv("DESKYARD_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("DESKYARD_STACKS", str(tmp_path / "stacks"))
    return Away(tmp_path, server, monkeypatch)


def test_a_disk_goes_there_and_comes_back_and_one_that_has_not_changed_adds_nothing(away: Away) -> None:
    assert away.repository.prepare()
    first = away.keep("a")
    assert first.added > 2 * MIB
    assert away.keep("b").added < MIB // 10
    assert away.repository.restore(first.disks[0], away.again).read_bytes() == away.disk.read_bytes()
    # Below the prefix and the workspace's name, and nothing of the question whether it can be written to.
    names = away.server.names()
    assert {name.split("/")[2] for name in names} >= {"config", "data", "snapshots"}
    assert all(name.startswith("kept/lab/") for name in names) and "kept/lab/deskyard-reach" not in names


def test_a_bucket_before_the_hosts_name_is_reached_by_that_name_alone(
    away: Away, monkeypatch: pytest.MonkeyPatch
) -> None:
    proxy = ConnectProxy(away.server.port)
    monkeypatch.setenv("HTTPS_PROXY", proxy.url)
    monkeypatch.setenv("NO_PROXY", "")
    away.named(f"s3:https://{DOMAIN}:{away.server.port}/desks/kept", path_style=False)
    with proxy.running():
        away.repository.prepare()
        away.keep("a")
        assert away.ids() == ["a"]
        away.give((away.server.writer[0], "wrong"))
        with pytest.raises(ConfigError, match="the secret is not that of the access key"):
            away.ids()
    assert proxy.asked == {f"desks.{DOMAIN}"}
    assert "kept/lab/config" in away.server.names()


def test_keys_of_a_file_are_used_and_no_others(away: Away, tmp_path: Path) -> None:
    file = tmp_path / "keys"
    file.write_text("[default]\naws_access_key_id = {}\naws_secret_access_key = {}\n".format(*away.server.writer))
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
    whole = bytearray(away.server.read(pack))
    whole[len(whole) // 2] ^= 1
    away.server.write(pack, bytes(whole))
    with pytest.raises(CommandError):
        away.repository.restore(kept.disks[0], away.again)
    away.server.remove(pack)
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
    writer, reader = away.server.writer, away.server.reader
    away.give(("nobody", writer[1]))
    _refuses(away, "does not know the access key")
    away.give((writer[0], "wrong"))
    _refuses(away, "the secret is not that of the access key")
    away.give(reader)
    _refuses(away, "the keys may not write")
    away.give(writer)
    away.named(ca=None)
    _refuses(away, "the certificate of its server is not trusted")
    away.give(away.server.admin)
    away.named(away.server.location.replace("/desks/", "/other/"))
    _refuses(away, "has no such bucket")
    away.named(away.server.location.replace("https", "http"), ca=None)
    with pytest.raises(ConfigError):
        away.repository.prepare()
    assert away.server.buckets() == ["desks"]


# moto takes any region.
@pytest.mark.parametrize("server", [VERSITYGW], indirect=True)
def test_another_region_than_that_of_the_bucket_is_named(away: Away) -> None:
    away.named(region="eu-other-1")
    _refuses(away, "another region, eu-test-1")


def _refuses(away: Away, reason: str) -> None:
    with pytest.raises(ConfigError, match=reason) as caught:
        away.repository.prepare()
    assert not any(keys[1] in str(caught.value) for keys in (away.server.writer, away.server.reader))
    assert not away.repository.key.exists()
    assert away.server.names() == {}
