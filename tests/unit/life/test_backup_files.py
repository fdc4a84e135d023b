"""Files of a backup, on the real restic, debugfs and sandbox: good ones come whole, and nothing harms this machine."""

import json
import os
import random
import shutil
import stat
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from invoke import Context, Exit

from deskyard.errors import ConfigError, DeskyardError, SiteError
from deskyard.life.backup import backup
from deskyard.life.backup.home import files
from deskyard.life.backup.home.disk import home_of
from deskyard.life.backup.home.files import Wanted
from deskyard.life.backup.home.tree import Tree
from deskyard.life.power import Machine
from deskyard.plan.backup import Backup, Disk, Moment, Source
from deskyard.tasks.life import backup as tasks
from tests.support import hostile_home
from tests.support.requirements import need_programs, need_root
from tests.unit.life.desk import TARGET, Desk
from tests.unit.life.machines import Machines

DOCS = "/home/agent/docs"
GOOD = {"blob", "deep", "empty", "forged", "holes", "inside", "report.txt", "setuid", "line\nbreak \x1b[31m"}
SYSTEM_START = 1 << 20


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """What was on the desktop."""
    need_root("its /home holds devices, and the sandbox takes rights away")
    need_programs("bwrap", "debugfs", "mkfs.ext4", "sfdisk")
    return hostile_home.tree(tmp_path)


@pytest.fixture
def image(home: Path, tmp_path: Path) -> Path:
    """The volume of /home of the desktop."""
    return hostile_home.image(tmp_path, home)


@dataclass
class Kept:
    """The backups of a desktop, each the files that its disks were; none of them is read from a repository."""

    backups: list[tuple[Backup, list[Path]]] = field(default_factory=list)

    def keep(self, *disks: Path) -> str:
        """Keep what disks hold."""
        number = len(self.backups)
        kept = [Disk(name, path.stat().st_size, 1, "") for name, path in zip(("vda", "vdc"), disks, strict=False)]
        found = Backup(f"backup-{number}", "dev1", number, running=True, disks=tuple(kept))
        self.backups.append((found, list(disks)))
        return found.id

    def present(self, desktop: str) -> list[Backup]:
        return [found for found, _ in self.backups if found.desktop == desktop]

    @contextmanager
    def home(self, _: Machine, found: Backup) -> Iterator[Tree]:
        (paths,) = [paths for kept, paths in self.backups if kept is found]
        with tempfile.TemporaryDirectory() as folder:

            def restored(disk: Disk) -> Path:
                return Path(shutil.copy(paths[found.disks.index(disk)], Path(folder, disk.target)))

            with home_of(found, restored) as tree:
                yield tree


@pytest.fixture
def kept(machines: Machines, blank: Path, image: Path, monkeypatch: pytest.MonkeyPatch) -> Kept:
    """Backups of lab/dev1; the first is of its disks: a blank one for the system, and the volume."""
    kept = Kept()
    monkeypatch.setattr(files, "vault_of", lambda *_: kept)
    kept.keep(blank, image)
    return kept


@pytest.fixture
def blank(tmp_path: Path) -> Path:
    """A disk without anything."""
    path = tmp_path / "blank"
    path.write_bytes(bytes(1 << 20))
    return path


@pytest.fixture
def to(tmp_path: Path) -> Path:
    """A folder of this machine, with a file beside it that is nobody's to touch."""
    folder = tmp_path / "yard/to"
    folder.mkdir(parents=True)
    (folder.parent / "climbed").write_text(hostile_home.SECRET)
    return folder


def brought(folder: Path) -> set[str]:
    return {str(path.relative_to(folder)) for path in folder.rglob("*")}


def get(path: str, to: Path, backup: str = "latest", *, force: bool = False, dry_run: bool = False) -> dict[str, Any]:
    return files.get(TARGET, Wanted(path, str(to), backup, force, dry_run))


def test_good_files_come_whole_and_the_others_are_named(kept: Kept, home: Path, to: Path) -> None:
    done = get(DOCS, to)
    assert (done["backup"], done["damaged"], done["cut"]) == ("backup-0", 0, False)
    there = {path.name for path in (to / "docs").iterdir()}
    assert there == {*GOOD, os.fsdecode(b"latin-\xff"), "long"}
    for name in GOOD - {"deep", "inside"}:
        assert (to / "docs" / name).read_bytes() == (home / "agent/docs" / name).read_bytes()
    assert (to / "docs/deep/deeper/key").read_text() == "private"
    assert (to / "docs/deep/back").readlink() == Path("../report.txt")
    assert (to / "docs/inside").read_text() == "private"
    left = {row["path"].removeprefix(f"{DOCS}/"): row["why"] for row in done["left_out"]}
    assert left.keys() == {"memory", "pipe", "endless", "passwd", "out", "sly", "deep/loop", "../../../climbed"}
    assert left["memory"] == left["pipe"] == "is a device, a pipe or a socket"
    assert left["passwd"] == f"is a link that leads out of {DOCS}: to /etc/passwd"
    assert (to.parent / "climbed").read_text() == hostile_home.SECRET
    assert {path.name for path in to.parent.iterdir()} == {"to", "climbed"}
    assert f"left out: {DOCS}/deep/loop: is in the tree elsewhere" in files.text(done)


def test_what_comes_has_the_rights_of_its_folder_and_none_above(kept: Kept, to: Path) -> None:
    os.chown(to, 4321, 8765)
    get(DOCS, to)
    facts = {path: path.lstat() for path in to.rglob("*")}
    assert {(found.st_uid, found.st_gid) for found in facts.values()} == {(4321, 8765)}
    assert {stat.S_IFMT(found.st_mode) for found in facts.values()} == {stat.S_IFREG, stat.S_IFDIR, stat.S_IFLNK}
    assert stat.S_IMODE((to / "docs/setuid").stat().st_mode) == 0o755
    assert stat.S_IMODE((to / "docs/deep/deeper/key").stat().st_mode) == 0o600
    assert (to / "docs/report.txt").stat().st_mtime == 1_000_000_000
    assert (to / "docs/holes").stat().st_blocks * 512 < 1 << 20


def test_file_comes_alone_from_the_backup_that_is_named(
    kept: Kept, blank: Path, image: Path, to: Path, tmp_path: Path
) -> None:
    later = tmp_path / "later"
    shutil.copy(image, later)
    hostile_home.write(later, "rm /agent/docs/report.txt")
    kept.keep(blank, later)
    with pytest.raises(ConfigError, match=r"no report.txt in /home/agent/docs") as caught:
        get(f"{DOCS}/report.txt", to)
    assert caught.value.field == "path" and "backup.files" in caught.value.remedy
    # What is wrong beside it is not said.
    assert get(f"{DOCS}/report.txt", to, "backup-0")["left_out"] == []
    assert brought(to) == {"report.txt"}


def test_nothing_is_replaced_without_force_and_nothing_is_written_in_a_dry_run(kept: Kept, to: Path) -> None:
    done = get(f"{DOCS}/report.txt", to, dry_run=True)
    assert (done["files"], done["bytes"], brought(to)) == (1, 9, set())
    assert get(DOCS, to.parent / "new", dry_run=True)["folders"] == 3
    assert not (to.parent / "new").exists()
    (to / "report.txt").write_text("mine")
    with pytest.raises(ConfigError, match="is there already") as caught:
        get(f"{DOCS}/report.txt", to)
    assert "--force" in caught.value.remedy
    assert (to / "report.txt").read_text() == "mine"
    get(f"{DOCS}/report.txt", to, force=True)
    assert (to / "report.txt").read_text() == "a report\n"


def test_link_that_waits_in_the_folder_is_replaced_and_never_followed(kept: Kept, to: Path) -> None:
    secret = to.parent / "climbed"
    (to / "report.txt").symlink_to(secret)
    get(f"{DOCS}/report.txt", to, force=True)
    assert (to / "report.txt").is_symlink() is False
    (to / "docs").symlink_to(to.parent)
    with pytest.raises(ConfigError, match="docs is there already, and is no folder"):
        get(DOCS, to, force=True)
    (to / "docs").unlink()
    (to / "docs").mkdir()
    (to / "docs/deep").symlink_to(to.parent)
    with pytest.raises(ConfigError, match="docs/deep is there already, and is no folder"):
        get(DOCS, to, force=True)
    assert secret.read_text() == hostile_home.SECRET
    assert {path.name for path in to.parent.iterdir()} == {"to", "climbed"}


@pytest.mark.parametrize(
    ("path", "reason"),
    [
        ("/etc/passwd", "not the plain path"),
        ("/home/../etc/passwd", "not the plain path"),
        ("agent", "not the plain path"),
        (f"{DOCS}/passwd/x", "is a link, which leads to /etc/passwd"),
        (f"{DOCS}/report.txt/x", "report.txt is a file"),
        ("/home/nobody", "there is no nobody in /home"),
    ],
)
def test_path_that_is_none_of_home_is_refused(kept: Kept, to: Path, path: str, reason: str) -> None:
    with pytest.raises(ConfigError, match=reason):
        get(path, to)
    with pytest.raises(ConfigError, match=reason):
        files.listing(TARGET, path)
    assert brought(to) == set()


def test_folder_that_is_not_there_or_has_no_room_is_refused_before_anything_is_written(
    kept: Kept, to: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(ConfigError, match="there is no folder"):
        get(DOCS, to / "a/b")
    with pytest.raises(ConfigError, match="neither an absolute path nor a desktop"):
        get(DOCS, Path("to"))
    with pytest.raises(ConfigError, match="no such backup"):
        get(DOCS, to, "backup-9")
    monkeypatch.setattr(shutil, "disk_usage", lambda _: SimpleNamespace(free=1 << 20))
    with pytest.raises(SiteError, match="1 MiB are free on its disk"):
        get(DOCS, to / "new")
    monkeypatch.setattr(files, "MOST_BROUGHT", 5)
    with pytest.raises(ConfigError, match="more than 5 files"):
        get(DOCS, to)
    assert brought(to) == set()


def test_list_says_what_is_there_and_when_it_is_cut(kept: Kept, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = {row["path"]: row for row in files.listing(TARGET, DOCS)["entries"]}
    assert rows[f"{DOCS}/report.txt"]["bytes"] == 9
    assert rows[f"{DOCS}/report.txt"]["changed"].startswith("2001-09-09")
    assert rows[f"{DOCS}/memory"]["kind"] == "other"
    text = files.listing_text(files.listing(TARGET, DOCS))
    assert "line?break ?[31m" in text
    assert all(line.isprintable() for line in text.split("\n"))
    assert json.dumps(files.listing(TARGET, DOCS)).isascii()
    deep = files.listing(TARGET, "/home", recursive=True)
    assert f"{DOCS}/deep/deeper/key" in {row["path"] for row in deep["entries"]}
    assert (deep["cut"], deep["damaged"]) == (False, 0)
    assert [row["path"] for row in files.listing(TARGET, f"{DOCS}/report.txt")["entries"]] == [f"{DOCS}/report.txt"]
    monkeypatch.setattr(files, "MOST_LISTED", 4)
    for found in (files.listing(TARGET, DOCS), files.listing(TARGET, "/home", recursive=True)):
        assert (len(found["entries"]), found["cut"]) == (4, True)
        assert "cut: there is more" in files.listing_text(found)


def test_home_of_a_desktop_without_a_volume_is_read_from_its_system(
    kept: Kept, home: Path, blank: Path, to: Path, tmp_path: Path
) -> None:
    system, disk = tmp_path / "system", tmp_path / "system.disk"
    system.mkdir()
    home.rename(system / "home")
    content = hostile_home.image(tmp_path, system, "/home").read_bytes()
    disk.write_bytes(bytes(SYSTEM_START) + content + bytes(SYSTEM_START))
    table = "label: gpt\nstart=2048, type=4F68BCE3-E8CD-4DB1-96E7-FBCAF984B709\n"
    subprocess.run(["sfdisk", "-q", str(disk)], input=table, text=True, check=True, timeout=60)
    # Its volume was never used.
    kept.keep(disk, blank)
    get(f"{DOCS}/report.txt", to)
    assert (to / "report.txt").read_text() == "a report\n"
    kept.keep(blank, blank)
    with pytest.raises(SiteError, match="none of its disks holds an ext4 file system"):
        files.listing(TARGET, "/home")


def test_file_whose_bytes_are_gone_is_named_and_leaves_no_half_of_itself(
    kept: Kept, blank: Path, image: Path, to: Path
) -> None:
    hostile_home.tear(image, "/agent/docs/blob")
    done = get(DOCS, to)
    assert (done["damaged"], done["files"]) == (
        1,
        sum(path.is_file() and not path.is_symlink() for path in to.rglob("*")),
    )
    (why,) = [row["why"] for row in done["left_out"] if row["path"] == f"{DOCS}/blob"]
    assert "bytes of 3145728" in why
    assert not (to / "docs/blob").exists()
    assert (to / "docs/report.txt").read_text() == "a report\n"
    assert not [name for name in brought(to) if ".deskyard-" in name]


def test_tasks_print_what_came_and_end_with_1_if_something_could_not_be_read(
    kept: Kept, image: Path, to: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    tasks.get(Context(), TARGET, f"{DOCS}/report.txt", str(to))
    tasks.files(Context(), TARGET, DOCS, json=True)
    first, _, rest = capsys.readouterr().out.partition("\n")
    assert first == f"1 files, 0 folders, 0 links, 0 KiB of backup-0 are in {to}"
    assert f"{DOCS}/report.txt" in {row["path"] for row in json.loads(rest)["entries"]}
    hostile_home.tear(image, "/agent/docs/blob")
    with pytest.raises(Exit) as ended:
        tasks.get(Context(), TARGET, DOCS, str(to))
    assert ended.value.code == 1
    assert f"left out: {DOCS}/blob: inode " in capsys.readouterr().out


@pytest.mark.parametrize("seed", range(12))
def test_file_system_with_random_bytes_ends_in_files_or_in_an_error(
    kept: Kept, image: Path, to: Path, seed: int
) -> None:
    bent, chance = bytearray(image.read_bytes()), random.Random(seed)
    for _ in range(200):
        bent[chance.randrange(1024, 2 << 20)] = chance.randrange(256)
    image.write_bytes(bent)
    try:
        done = get("/home", to)
    except DeskyardError as error:
        assert error.remedy
    else:
        assert done["files"] + done["left_out_count"] > 0
    assert {path.name for path in to.parent.iterdir()} == {"to", "climbed"}
    assert (to.parent / "climbed").read_text() == hostile_home.SECRET
    kinds = {stat.S_IFMT(path.lstat().st_mode) for path in to.rglob("*")}
    assert kinds <= {stat.S_IFREG, stat.S_IFDIR, stat.S_IFLNK}


def test_disk_that_is_damaged_all_over_is_given_up(kept: Kept, to: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("deskyard.life.backup.home.tree.MOST_DAMAGED", 0)
    monkeypatch.setattr("deskyard.host.vm.ext4.MOST_ANSWER", 300)
    with pytest.raises(SiteError, match="more than 0 files and folders cannot be read"):
        files.listing(TARGET, DOCS)


def test_files_come_out_of_the_repository_and_nothing_of_them_stays_beside_the_desktop(
    desk: Desk, image: Path, to: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    @contextmanager
    def moment(_: str) -> Iterator[Moment]:
        paths = {"vda": desk.disk, "vdc": image}
        yield Moment(
            True, 0.0, [Source(name, path.stat().st_size, 1, ["cat", str(path)]) for name, path in paths.items()]
        )

    monkeypatch.setattr(desk, "moment", moment)
    made = backup.run(TARGET)["backup"]["id"]
    done = get(f"{DOCS}/deep/deeper", to)
    assert (done["backup"], done["files"], brought(to)) == (made, 1, {"deeper", "deeper/key"})
    assert not (desk.folder / "files").exists()
    assert desk.machines.moves == []
