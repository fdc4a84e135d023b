"""What root makes in a user's state is that user's, who goes on with it; what is another's is named with its remedy."""

import ast
import os
from functools import partial
from pathlib import Path
from types import SimpleNamespace

import pytest
from invoke import Context, Exit

from deskyard.declaration import promise
from deskyard.declaration.stack_text import save
from deskyard.desktop import customise_delivery
from deskyard.errors import HostError
from deskyard.host import lock
from deskyard.host.background import Background
from deskyard.host.changes import DONE, Run, Spool
from deskyard.host.lock import alone
from deskyard.host.places import places, tree
from deskyard.host.secret_file import write_secret
from deskyard.isolation import verification
from deskyard.life.idle import asleep
from deskyard.model.site import Site
from deskyard.model.workspace import Workspace
from deskyard.plan.pool.seat import Entry, Event
from deskyard.plan.workspace import plan_workspace
from deskyard.site import certificate_authority
from deskyard.site.libvirt.limits import memory
from deskyard.site.ssh_link import SshLink
from deskyard.tasks.front import Unnoted, command
from deskyard.workspace import readiness
from deskyard.workspace.ledger import Ledger
from tests.support.sources import parsed

# Some account that is not root's.
USER = 64_711
PLAN = plan_workspace(
    Workspace.check({"name": "lab", "network": "10.80.1.0/24", "desktops": [{"name": "dev1"}]}, "test"), Site(), "tcg"
)
# Who makes folders on this machine by itself, and where: never in a user's state, where root may be the first.
MAKES_FOLDERS = {
    "host/secret_file.py": "anywhere",
    "host/toolchain/go_build.py": "the cache",
    "host/toolchain/plugins.py": "the home of the engine, which makes its own",
    "host/toolchain/release.py": "the cache",
    "host/vm/guest_boot.py": "where its caller has one",
    "host/vm/scratch.py": "the images",
    "image/base/artifact.py": "the cache",
    "image/base/base_disk.py": "the cache",
    "image/store/files.py": "the cache",
    "desktop/customise_source.py": "the cache",
    "declaration/stack_file.py": "the stacks",
    "life/backup/home/files.py": "where its user says",
    "life/backup/home/folder.py": "where its user says",
    "site/libvirt/backup/backups.py": "libvirt's own",
    "site/libvirt/daemon.py": "the hypervisor's, which is root's and QEMU's user passes",
    "site/ssh_link.py": "the temporary files, for a socket of this very account",
    "control/ground/folder.py": "Mission Control's own",
    "control/process/pages.py": "the cache",
    "control/store/backup.py": "Mission Control's own",
    "control/store/elsewhere.py": "Mission Control's own",
}
# What runs elsewhere, or for who develops.
ELSEWHERE = ("gateway/", "computer/", "guest/", "lab/", "image/build/")
DECLARATION = "config:\n  deskyard:network: 10.80.1.0/24\n  deskyard:desktops: [{name: dev1}]\n"


@pytest.fixture
def given(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, tuple[int, int]]:
    """What root gives to whom, by its path below the home."""
    monkeypatch.setenv("DESKYARD_HOME", str(tmp_path))
    found: dict[str, tuple[int, int]] = {}
    is_root, fchown = os.geteuid() == 0, os.fchown
    if is_root:
        os.chown(tmp_path, USER, USER)

    def give(handle: int, user: int, group: int) -> None:
        path = Path(f"/proc/self/fd/{handle}").readlink()
        found[str(path.relative_to(tmp_path))] = (user, group)
        if is_root:
            fchown(handle, user, group)

    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.setattr(os, "fchown", give)
    return found


def test_what_root_makes_in_a_users_state_is_that_users(given: dict[str, tuple[int, int]], tmp_path: Path) -> None:
    with alone("power"):
        pass
    write_secret(places().sites / "local" / "key", b"secret")
    Ledger("local", "lab").note(Entry(Event.BEGUN, "s1", "m1", 1.0))
    program = Background("sleeper", places().state / "programs")
    program.start(["sleep", "60"])
    program.stop()
    mine = (tmp_path.stat().st_uid, tmp_path.stat().st_gid)
    assert {*given.values()} == {mine}
    made = {path.removesuffix(f".{os.getpid()}") for path in given}
    seats = "state/sites/local/workspaces/lab"
    assert made == {
        *("state", "state/locks", "state/locks/power"),
        *("state/sites", "state/sites/local", "state/sites/local/.key"),
        *("state/sites/local/workspaces", seats, f"{seats}/seats.jsonl"),
        *("state/programs", "state/programs/sleeper.log", "state/programs/sleeper.pid"),
    }
    given.clear()
    # What was there keeps its owner, and what is elsewhere is given by who made it.
    with alone("power"):
        write_secret(tmp_path / "control" / "key", b"secret")
    assert given == {}


def test_all_that_tasks_of_root_write_in_a_users_state_is_that_users(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DESKYARD_HOME", str(tmp_path))
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    given = set[int]()
    monkeypatch.setattr(os, "fchown", lambda handle, *_: given.add(os.fstat(handle).st_ino))
    monkeypatch.setattr(readiness, "machines_of", lambda _: SimpleNamespace(keep_evidence=lambda *_: None))
    Spool().note(Run("backup.run", "lab"), DONE)
    link = SshLink(PLAN.site, PLAN.name)
    link.write_config("10.80.1.250", [])
    link.pin("dev1", "ssh-ed25519 AAA1")
    customise_delivery.note(PLAN, "dev1")
    asleep.note(PLAN, "dev1")
    memory.note("dev1")
    certificate_authority.authority(PLAN.site, "lab.internal")
    verification._write(PLAN, {"started": "now"})
    readiness.keep_evidence(PLAN, [])
    with promise.given(PLAN.site, PLAN.name):
        made = {path.stat().st_ino: str(path.relative_to(tmp_path)) for path in places().state.rglob("*")}
        assert len(made) > 20
        assert {path for inode, path in made.items() if inode not in given} == set()


def test_root_and_the_user_note_what_they_do_in_one_place(
    given: dict[str, tuple[int, int]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    owner = tmp_path.stat().st_uid
    for account in (0, owner, 0):
        monkeypatch.setattr(os, "geteuid", partial(int, account))
        Spool().note(Run("backup.run", "lab"), DONE)
    assert [line.number for line in Spool().lines()] == [1, 2, 3]
    monkeypatch.setattr(os, "geteuid", lambda: owner + 1)
    with pytest.raises(HostError, match="not this account's alone"):
        Spool().note(Run("backup.run", "lab"), DONE)


def test_no_other_way_of_making_a_folder_in_a_state_comes_back() -> None:
    sources = tree() / "deskyard"
    found = {
        name
        for path in sources.rglob("*.py")
        if not (name := str(path.relative_to(sources))).startswith(ELSEWHERE) and _makes_folders(parsed(path))
    }
    assert found == {*MAKES_FOLDERS}


def _makes_folders(module: ast.Module) -> bool:
    calls = (node.func for node in ast.walk(module) if isinstance(node, ast.Call))
    return any(isinstance(call, ast.Attribute) and call.attr in ("mkdir", "makedirs", "mkdtemp") for call in calls)


def test_nobody_but_root_gives_anything(given: dict[str, tuple[int, int]], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    write_secret(places().state / "key", b"secret")
    assert given == {}


def test_a_link_is_not_followed_to_what_is_not_the_users(given: dict[str, tuple[int, int]], tmp_path: Path) -> None:
    with alone("power"):
        pass
    (tmp_path / "shadow").touch()
    (places().state / "locks" / "planted").symlink_to(tmp_path / "shadow")
    with pytest.raises(OSError, match="symbolic links"), alone("planted"):
        pass
    assert "shadow" not in given


def test_a_lock_that_another_account_made_is_taken(
    given: dict[str, tuple[int, int]], monkeypatch: pytest.MonkeyPatch
) -> None:
    with alone("power"):
        pass

    def refused(path: Path, *_: int) -> int:
        raise PermissionError(13, "Permission denied", str(path))

    monkeypatch.setattr(lock, "opened", refused)
    with alone("power"), pytest.raises(HostError, match="another task holds it"), alone("power", at_once=True):
        pass


def test_a_declaration_that_root_edits_keeps_its_owner(
    given: dict[str, tuple[int, int]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, owners = tmp_path / "Pulumi.lab.yaml", list[tuple[int, int, int]]()
    path.write_text(DECLARATION)
    path.chmod(0o600)

    def chown(fresh: Path, user: int, group: int, *, follow_symlinks: bool) -> None:
        assert not follow_symlinks
        owners.append((user, group, fresh.stat().st_ino))

    monkeypatch.setattr(os, "chown", chown)
    before = path.stat()
    save(path, DECLARATION.replace("dev1", "dev2"), "deskyard:desktops")
    assert owners == [(before.st_uid, before.st_gid, path.stat().st_ino)]
    assert path.stat().st_mode & 0o777 == 0o600


@command(changes=Unnoted.LOOKS)
def reading(_: Context, path: str) -> None:
    raise PermissionError(13, "Permission denied", path)


def test_a_file_of_another_account_is_named_with_its_remedy(
    given: dict[str, tuple[int, int]], capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(Exit):
        reading(Context(), str(places().state / "key"))
    said = capsys.readouterr().err
    assert f"state = '{places().state}/key': Permission denied\n  -> give {places().state} to who runs" in said
    with pytest.raises(PermissionError):
        reading(Context(), "/etc/shadow")
