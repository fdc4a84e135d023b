"""Files of a backup brought to a desktop: the program that takes them there is the real one, and runs here."""

import os
import stat
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from deskyard.engine import running
from deskyard.errors import ConfigError, HostError, SiteError
from deskyard.host.places import tree
from deskyard.life.backup.home import desktop, files
from deskyard.life.backup.home.disk import home_of
from deskyard.life.backup.home.files import Wanted
from deskyard.life.backup.home.tree import Tree
from deskyard.life.power import Machine
from deskyard.plan.backup import Backup, Disk
from deskyard.site.ssh_link import SshLink
from deskyard.workspace import turn
from tests.support import hostile_home
from tests.support.requirements import need_programs, need_root
from tests.unit.life.desk import TARGET
from tests.unit.life.machines import PLAN, Machines

DOCS, OTHER = "/home/agent/docs", "lab/dev2"
# By which the agent of the first desktop is known, and what keeps its browser from starting on another.
AGENTS = (
    ".openclaw/state/openclaw.sqlite",
    ".openclaw/state/openclaw.sqlite-wal",
    ".openclaw/identity/device.json",
    ".local/state/deskyard/agent-device.pem",
)
LOCK = ".config/chromium/SingletonLock"


@pytest.fixture
def image(tmp_path: Path) -> Path:
    """The volume of /home of lab/dev1, as it was backed up."""
    need_root("its /home holds devices, and the sandbox takes rights away")
    need_programs("bwrap", "debugfs", "mkfs.ext4", "sfdisk")
    home = hostile_home.tree(tmp_path)
    for name in (*AGENTS, ".openclaw/openclaw.json"):
        (home / "agent" / name).parent.mkdir(parents=True, exist_ok=True)
        (home / "agent" / name).write_text(name)
    (home / "agent" / LOCK).parent.mkdir(parents=True)
    (home / "agent" / LOCK).symlink_to("dev1-4711")
    return hostile_home.image(tmp_path, home)


@pytest.fixture
def agent(machines: Machines, image: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The home of the agent of lab/dev2."""
    home = tmp_path / "agent"
    (home / ".deskyard").mkdir(parents=True)
    found = Backup("backup-1", "dev1", 1, running=True, disks=(Disk("vdc", image.stat().st_size, 1, ""),))

    class Vault:
        def present(self, name: str) -> list[Backup]:
            return [found] if name == "dev1" else []

        @contextmanager
        def home(self, _: Machine, backup: Backup) -> Iterator[Tree]:
            with home_of(backup, lambda _: image) as tree:
                yield tree

    monkeypatch.setattr(files, "vault_of", lambda *_: Vault())
    monkeypatch.setattr(files, "machines_of", lambda _: machines)
    monkeypatch.setattr(running, "require_running", lambda *_: None)
    monkeypatch.setattr(desktop, "HERE", str(home))
    # Without the account, and without the way.
    monkeypatch.setattr(SshLink, "command", lambda self, host, remote, **_: remote[remote.index("--") + 1 :])
    monkeypatch.setenv("PATH", f"{Path(sys.executable).parent}:{os.environ['PATH']}")
    monkeypatch.setenv("PYTHONPATH", str(tree()))
    return home


def get(path: str, to: str = OTHER, **more: Any) -> dict[str, Any]:
    return files.get(TARGET, Wanted(path, to, **more))


def test_home_of_a_backup_comes_to_another_desktop_which_stays_itself(agent: Path, tmp_path: Path) -> None:
    (agent / ".bashrc").write_text("of the image")
    done = get("/home/agent", force=True)
    assert (done["damaged"], done["to"]) == (0, OTHER)
    assert (agent / "docs/report.txt").read_text() == "a report\n"
    assert (agent / "docs/report.txt").stat().st_mtime == 1_000_000_000
    assert (agent / "docs/blob").read_bytes() == (tmp_path / "tree/agent/docs/blob").read_bytes()
    assert (agent / "docs/forged").read_bytes() == hostile_home.FORGED
    assert (agent / "docs/holes").stat().st_size == (4 << 20) + 3
    assert (agent / "docs/holes").stat().st_blocks * 512 < 1 << 20
    # There a link leads where it did.
    assert (agent / "docs/passwd").readlink() == Path("/etc/passwd")
    assert stat.S_IMODE((agent / "docs/setuid").stat().st_mode) == 0o777
    assert (agent / ".bashrc").read_text() == "of the image"
    kinds = {stat.S_IFMT(path.lstat().st_mode) for path in agent.rglob("*")}
    assert kinds == {stat.S_IFREG, stat.S_IFDIR, stat.S_IFLNK}
    assert not list(agent.rglob(".deskyard-*"))
    left = {row["path"].removeprefix(f"{DOCS}/") for row in done["left_out"]}
    own = {"identity" if "/identity/" in name else name.rpartition("/")[2] for name in (*AGENTS, LOCK)}
    assert own <= {name.rpartition("/")[2] for name in left}
    others = {name for name in left if not name.startswith("/home/agent/.")}
    assert others == {"memory", "pipe", "endless", "deep/loop", "../../../climbed"}
    assert [name for name in (*AGENTS, LOCK) if os.path.lexists(agent / name)] == []
    assert (agent / ".openclaw/openclaw.json").exists()


def test_desktop_gets_back_what_its_own_agent_is_known_by(agent: Path) -> None:
    get("/home/agent", TARGET, force=True)
    assert {name: (agent / name).read_text() for name in AGENTS} == {name: name for name in AGENTS}
    assert (agent / LOCK).is_symlink()


def test_lost_file_comes_back_to_its_own_desktop_and_replaces_nothing(agent: Path) -> None:
    get(f"{DOCS}/deep/deeper/key", TARGET)
    assert (agent / "docs/deep/deeper/key").read_text() == "private"
    dry = get(f"{DOCS}/report.txt", TARGET, dry_run=True)
    assert (dry["files"], list((agent / "docs").iterdir())) == (1, [agent / "docs/deep"])
    get(f"{DOCS}/report.txt", TARGET)
    (agent / "docs/report.txt").write_text("newer")
    with pytest.raises(ConfigError, match="is there already") as caught:
        get(f"{DOCS}/report.txt", TARGET)
    assert (agent / "docs/report.txt").read_text() == "newer"
    assert "--force" in caught.value.remedy
    get(f"{DOCS}/report.txt", TARGET, force=True)
    assert (agent / "docs/report.txt").read_text() == "a report\n"


def test_file_that_is_damaged_leaves_nothing_there_and_the_next_one_comes(agent: Path, image: Path) -> None:
    image.chmod(0o644)
    hostile_home.tear(image, "/agent/docs/blob")
    done = get(DOCS)
    assert done["damaged"] == 1
    assert not (agent / "docs/blob").exists()
    assert (agent / "docs/report.txt").read_text() == "a report\n"
    assert not list(agent.rglob(".deskyard-*"))


@pytest.mark.parametrize(
    ("path", "to", "field", "reason"),
    [
        (DOCS, "other/dev2", "to", "of another workspace than the backup"),
        (DOCS, "lab/nobody", "desktop", "nobody"),
        ("/home/.deskyard/identity", OTHER, "path", "is not in /home/agent"),
        ("/home", OTHER, "path", "is not in /home/agent"),
        ("/home/agents", OTHER, "path", "is not in /home/agent"),
        ("/home/agent/../.deskyard", OTHER, "path", "not the plain path"),
    ],
)
def test_what_a_desktop_cannot_get_is_refused_before_anything_is_read(
    agent: Path, monkeypatch: pytest.MonkeyPatch, path: str, to: str, field: str, reason: str
) -> None:
    monkeypatch.setattr(files, "vault_of", lambda *_: pytest.fail("a backup was looked for"))
    with pytest.raises(ConfigError, match=reason) as caught:
        get(path, to)
    assert (caught.value.field, caught.value.remedy != "") == (field, True)


def test_desktop_that_is_off_busy_or_full_gets_nothing(agent: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with turn.of(PLAN, "dev2"), pytest.raises(HostError, match="another task"):
        get(DOCS)
    monkeypatch.setattr(files, "SPARE", 1 << 60)
    with pytest.raises(SiteError, match="are free on its disk"):
        get(DOCS)

    def off(_plan: Any, name: str) -> None:
        raise SiteError("desktop", name, "does not run", "run ./inv desktop.start")

    monkeypatch.setattr(running, "require_running", off)
    with pytest.raises(SiteError, match="does not run"):
        get(DOCS)
    assert list(agent.iterdir()) == [agent / ".deskyard"]


def test_what_cannot_be_written_there_ends_it_with_its_name(agent: Path) -> None:
    (agent / "docs/report.txt").mkdir(parents=True)
    with pytest.raises(SiteError, match=r"docs/report\.txt cannot be written: Is a directory") as caught:
        get(DOCS, force=True)
    assert caught.value.value == OTHER
    assert not list(agent.rglob(".deskyard-*"))
