"""The repository of backups, on the real restic: what is not whole is never one, what is damaged is found."""

import os
import random
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from deskyard.errors import CommandError, ConfigError, DeskyardError, SiteError
from deskyard.host import command
from deskyard.host.command import Result
from deskyard.host.deadline import Deadline
from deskyard.life.backup.repository import Repository, repository_of
from deskyard.plan import backup as plan
from deskyard.plan.backup import Backup, NoVerdict, Source
from tests.unit.life.restic import RESTIC, use_restic

MIB = 1 << 20
SIZE = 24 * MIB


@pytest.fixture
def repository(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Repository:
    """A repository that is there."""
    monkeypatch.setenv("DESKYARD_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("DESKYARD_STACKS", str(tmp_path / "stacks"))
    use_restic(monkeypatch)
    repository = repository_of("local", "lab")
    assert repository.prepare()
    return repository


@pytest.fixture
def disk(tmp_path: Path) -> Path:
    """The bytes of a disk: some, and a hole."""
    path = tmp_path / "disk"
    path.write_bytes(random.Random(7).randbytes(6 * MIB))
    os.truncate(path, SIZE)
    return path


def source(script: str) -> Source:
    return Source("vda", SIZE, 6 * MIB, ["sh", "-c", script])


def keep(repository: Repository, disk: Path, name: str = "a", desktop: str = "dev1", made: int = 1) -> Backup:
    kept, added = repository.keep(source(f"cat {disk}"), desktop, name)
    repository.finish(Backup(name, desktop, made, running=True, nonce="n", disks=(kept,), added=added))
    return listed(repository, desktop)[-1]


def listed(repository: Repository, desktop: str = "dev1") -> list[Backup]:
    return plan.backups(repository.snapshots(), desktop)


def packs(repository: Repository) -> list[Path]:
    return sorted(Path(repository.location, "data").rglob("*"), key=lambda path: path.stat().st_size)


def test_disk_comes_back_byte_for_byte_with_its_holes(repository: Repository, disk: Path, tmp_path: Path) -> None:
    backup = keep(repository, disk)
    restored = repository.restore(backup.disks[0], tmp_path / "restored")
    assert restored.read_bytes() == disk.read_bytes()
    assert restored.stat().st_blocks * 512 < SIZE // 2
    assert 5 * MIB < backup.added < 7 * MIB
    assert keep(repository, disk, "b", made=2).added < MIB // 10


@pytest.mark.parametrize(
    ("script", "error"),
    [
        ("head -c 5000000 {}; exit 3", CommandError),
        ("head -c 5000000 {}", SiteError),
        ("cat {} {}", SiteError),
        ("kill -KILL $$", CommandError),
    ],
    ids=["ends with an error", "is short", "is long", "is killed"],
)
def test_producer_that_does_not_give_the_whole_disk_makes_no_backup(
    repository: Repository, disk: Path, script: str, error: type[DeskyardError]
) -> None:
    before = keep(repository, disk)
    with pytest.raises(error):
        repository.keep(source(script.replace("{}", str(disk))), "dev1", "b")
    assert listed(repository) == [before]
    repository.forget(plan.leftovers(repository.snapshots(), "dev1"))
    repository.prune()
    assert listed(repository) == [before]


def test_flipped_byte_is_found(repository: Repository, disk: Path, tmp_path: Path) -> None:
    backup = keep(repository, disk)
    pack = packs(repository)[-1]
    pack.chmod(0o600)
    content = bytearray(pack.read_bytes())
    content[len(content) // 2] ^= 1
    pack.write_bytes(content)
    with pytest.raises(CommandError):
        repository.restore(backup.disks[0], tmp_path / "restored")


def test_dropped_pack_is_found(repository: Repository, disk: Path, tmp_path: Path) -> None:
    backup = keep(repository, disk)
    packs(repository)[-1].unlink()
    with pytest.raises(CommandError):
        repository.restore(backup.disks[0], tmp_path / "restored")


def restic_that(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, does: str) -> None:
    """Let `restore` do something else than the real restic, which does all the rest."""
    program = tmp_path / "restic"
    program.write_text(f'#!/bin/sh\ncase " $* " in *" restore "*) {does};; esac\nexec {RESTIC} "$@"\n')
    program.chmod(0o755)
    monkeypatch.setattr("deskyard.life.backup.repository.locate", lambda _: program)


@pytest.mark.parametrize(
    ("does", "words"),
    [
        ("kill -KILL $$", "exit code -9"),
        ("echo >&2 'write vda.raw: no space left on device'; exit 1", "no space left"),
        ("echo >&2 'Load(<data/1>): read tcp: connection reset by peer'; exit 1", "connection reset"),
        ("echo >&2 'unable to create lock'; exit 11", "unable to create lock"),
        ('mv "$GONE" "$GONE.away"; echo >&2 odd; exit 1', "odd"),
    ],
    ids=["killed", "no room", "no way", "locked", "gone meanwhile"],
)
def test_restore_that_fails_for_a_reason_of_its_own_says_nothing_of_the_backup(
    repository: Repository, disk: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, does: str, words: str
) -> None:
    backup = keep(repository, disk)
    monkeypatch.setenv("GONE", repository.location)
    restic_that(monkeypatch, tmp_path, does)
    with pytest.raises(NoVerdict, match=words):
        repository.restore(backup.disks[0], tmp_path / "restored")


def test_restore_that_fails_though_its_repository_opens_says_that_the_backup_is_bad(
    repository: Repository, disk: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    backup = keep(repository, disk)
    restic_that(monkeypatch, tmp_path, "echo >&2 odd; exit 1")
    with pytest.raises(CommandError, match="odd"):
        repository.restore(backup.disks[0], tmp_path / "restored")


def test_restore_that_takes_too_long_says_nothing_of_the_backup(
    repository: Repository, disk: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    backup = keep(repository, disk)
    restic_that(monkeypatch, tmp_path, "exec sleep 60")
    monkeypatch.setattr("deskyard.life.backup.repository.LONG_SECONDS", 0.2)
    monkeypatch.setattr("deskyard.life.backup.repository.LOCK_SECONDS", 0.0)
    with pytest.raises(NoVerdict, match="did not end"):
        repository.restore(backup.disks[0], tmp_path / "restored")


def test_killed_run_leaves_others_whole_and_the_next_one_works(repository: Repository, disk: Path) -> None:
    before = keep(repository, disk)
    argv = [str(RESTIC), "--repo", repository.location, "backup", "--stdin-from-command"]
    env = {**os.environ, "RESTIC_PASSWORD_FILE": str(repository.key)}
    slow = [*argv, "--stdin-filename", "vda.raw", "--", "sh", "-c", f"head -c 9000000 {disk}; echo >&2 begun; sleep 60"]
    with subprocess.Popen(slow, env=env, stderr=subprocess.PIPE, text=True, start_new_session=True) as killed:
        assert killed.stderr is not None
        assert any("begun" in line for line in killed.stderr)
        assert list(Path(repository.location, "locks").iterdir()) != []
        os.killpg(killed.pid, signal.SIGKILL)
    assert not repository.prepare()
    assert list(Path(repository.location, "locks").iterdir()) == []
    repository.prune()
    assert listed(repository) == [before]


class Watched:
    """Every call of restic, by its arguments and the time that it has; the time is cut so that a test ends."""

    def __init__(self) -> None:
        self.calls: list[tuple[list[str], float]] = []

    def __call__(self, argv: list[str], *, timeout: float, **named: Any) -> Result:
        self.calls.append((argv, timeout))
        return command.run(argv, timeout=min(timeout, 120.0), **named)


@pytest.fixture
def watched(repository: Repository, monkeypatch: pytest.MonkeyPatch) -> Watched:
    watched = Watched()
    monkeypatch.setattr("deskyard.life.backup.repository.run", watched)
    return watched


@contextmanager
def at_a_backup(repository: Repository) -> Iterator[subprocess.Popen[bytes]]:
    """Another desktop's backup, which reads what nobody writes until its input is closed."""
    env = {**os.environ, "RESTIC_PASSWORD_FILE": str(repository.key)}
    argv = [str(RESTIC), "--repo", repository.location, "backup", "--stdin", "--stdin-filename", "vda.raw"]
    locks = Path(repository.location, "locks")
    with subprocess.Popen(argv, env=env, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL) as slow:
        try:
            assert Deadline(60).wait_for(lambda: any(locks.iterdir()), 0.05)
            yield slow
        finally:
            assert slow.stdin is not None
            slow.stdin.close()
            slow.wait(timeout=60)


def test_verdict_waits_for_a_backup_of_another_desktop_and_says_so(
    repository: Repository, disk: Path, watched: Watched, monkeypatch: pytest.MonkeyPatch
) -> None:
    backup, said = keep(repository, disk), list[str]()
    with at_a_backup(repository) as slow:

        def heard(line: str) -> None:
            said.append(line)
            assert slow.stdin is not None
            slow.stdin.close()

        monkeypatch.setattr("deskyard.life.backup.repository.say", heard)
        repository.tag(plan.with_verdict(backup, 5))
    assert [backup.verified for backup in listed(repository)] == [5]
    assert any("already locked, waiting" in line for line in said)


def test_whoever_only_looks_waits_for_nobody(repository: Repository, disk: Path, watched: Watched) -> None:
    older, newer = keep(repository, disk), keep(repository, disk, "b", made=2)
    with at_a_backup(repository) as slow:
        assert repository.outdated("dev1", {"last": 1}) == [older.manifest]
        assert not repository.prepare()
        assert slow.poll() is None
    assert listed(repository) == [older, newer]


def test_what_waits_for_a_lock_has_the_time_to(repository: Repository, disk: Path, watched: Watched) -> None:
    backup = keep(repository, disk)
    repository.prepare()
    repository.tag(plan.with_verdict(backup, 5))
    repository.outdated("dev1", {"last": 1})
    repository.forget([backup.manifest])
    repository.prune()
    waiting = {name for argv, timeout in watched.calls if timeout > 3600 for name in argv}
    assert {"backup", "tag", "forget", "prune"} <= waiting
    others = [argv for argv, timeout in watched.calls if timeout <= 3600]
    assert [argv for argv in others if not {"--no-lock", "unlock"} & {*argv}] == []
    assert all(argv[argv.index("--retry-lock") + 1] == "3600s" for argv, _ in watched.calls)


def test_verdict_is_kept_and_can_be_taken_back(repository: Repository, disk: Path) -> None:
    backup = keep(repository, disk)
    repository.tag(plan.with_verdict(backup, 5))
    (proved,) = listed(repository)
    assert (proved.verified, proved.disks) == (5, backup.disks)
    repository.tag(plan.with_verdict(proved, None))
    assert [backup.verified for backup in listed(repository)] == [None]


def test_policy_of_a_desktop_leaves_other_desktops_alone(repository: Repository, disk: Path) -> None:
    names = ["a", "b", "c"]
    mine = [keep(repository, disk, name, made=place) for place, name in enumerate(names)]
    other = keep(repository, disk, "a", "dev2")
    assert repository.outdated("dev1", {"last": 1}) == [mine[1].manifest, mine[0].manifest]
    repository.forget([mine[0].manifest])
    assert plan.leftovers(repository.snapshots(), "dev1") == [mine[0].disks[0].snapshot]
    repository.forget([mine[0].disks[0].snapshot])
    repository.prune()
    assert (listed(repository), listed(repository, "dev2")) == (mine[1:], [other])


def test_key_is_its_owners_alone_and_is_not_made_for_a_repository_that_has_another(repository: Repository) -> None:
    assert repository.key.stat().st_mode & 0o777 == 0o600
    key = repository.key.read_bytes()
    repository.key.unlink()
    with pytest.raises(ConfigError, match="put its key into"):
        repository.prepare()
    assert not repository.key.exists()
    repository.key.write_bytes(key)
    assert not repository.prepare()


def test_place_that_is_not_there_is_not_made(
    monkeypatch: pytest.MonkeyPatch, repository: Repository, tmp_path: Path
) -> None:
    (tmp_path / "stacks/sites").mkdir(parents=True)
    (tmp_path / "stacks/sites/local.yaml").write_text(f"backups: {tmp_path}/mount/\n")
    elsewhere = repository_of("local", "lab")
    assert elsewhere.location == f"{tmp_path}/mount/lab"
    with pytest.raises(ConfigError, match="mount it"):
        elsewhere.prepare()
    (tmp_path / "mount").mkdir()
    elsewhere.prepare()
    assert elsewhere.snapshots() == []
