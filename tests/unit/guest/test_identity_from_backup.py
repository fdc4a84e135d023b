"""A machine of a backup becomes another desktop: the program itself, on folders of a test in place of the system's."""

import contextlib
import os
import shutil
import sqlite3
import stat
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

from deskyard.guest.identity import from_backup, homes
from deskyard.life.backup.copying import SECRETS
from deskyard.plan.account import MANAGER
from deskyard.site.guest_program import source
from tests.support.requirements import need_programs, need_root

SECONDS = 120
WAS_MAC, MAC = "02:00:00:00:00:01", "02:00:00:00:00:02"
INSTANCE = "deskyard-lab.copy"
OWN = {
    "WAS": "dev1",
    "WAS_MAC": WAS_MAC,
    "NAME": "copy",
    "MAC": MAC,
    "MACHINE_ID": "1" * 32,
    "INSTANCE": INSTANCE,
    "MANAGER": MANAGER,
    "KEYS": "ssh-ed25519 AAAA operator",
    "SECRETS": "\n".join(SECRETS),
}
OWN_FILES = (*SECRETS, *(f"home/agent/{path}" for path in homes.AGENT_SECRETS))
# In mounts of its own: the folders of the test are /etc, /home and /var/lib there, and no service is any of its.
# Only a file system of its own is seen to be mounted.
START = """
set -e
desktop=$1
for folder in etc var/lib usr/bin/systemctl; do mount --bind "$desktop/$folder" "/$folder"; done
mount -t tmpfs tmpfs /home
cp -a "$desktop/home/." /home/
shift
"$@"
rm -r "$desktop/home"
cp -a /home "$desktop/home"
"""
LOG = "/etc/services"


PRIVATE_KEY = "PRIVATE KEY of dev1 " * 400


def a_state(path: Path) -> None:
    """The state of an agent as OpenClaw keeps it, ended by force: its last writes are in the log beside it."""
    program = """
import os, sqlite3, sys
state = sqlite3.connect(sys.argv[1], isolation_level=None)
state.execute("PRAGMA journal_mode = WAL")
for table in ("device_identities", "device_auth_tokens", "conversations"):
    state.execute(f"CREATE TABLE {table} (text TEXT)")
    state.execute(f"INSERT INTO {table} VALUES (?)", (sys.argv[2] if table != "conversations" else "hello",))
state.execute("CREATE TABLE config_machine_state (state_key TEXT, value_json TEXT)")
kept = ("nodeHost.config", sys.argv[2]), ("webPush.vapidKeys", sys.argv[2]), ("nodeHostess", "{}")
state.executemany("INSERT INTO config_machine_state VALUES (?, ?)", kept)
os._exit(0)
"""
    path.parent.mkdir(parents=True)
    subprocess.run([sys.executable, "-I", "-c", program, str(path), PRIVATE_KEY], check=True, timeout=SECONDS)
    assert b"PRIVATE KEY of dev1" in Path(f"{path}-wal").read_bytes()


@pytest.fixture
def desktop(tmp_path: Path) -> Path:
    """The folders of a desktop dev1 that was used."""
    need_root("stands for a machine's root, in mounts of its own")
    need_programs("unshare", "ssh-keygen", "systemctl")
    files = {
        "etc/passwd": f"root:x:0:0::/root:/bin/sh\n{MANAGER}:x:1000:1000::/home/{MANAGER}:/bin/sh\n",
        "etc/hostname": "dev1\n",
        "etc/machine-id": f"{'0' * 32}\n",
        "etc/ssh/ssh_host_ed25519_key": "key of dev1",
        "etc/ssh/ssh_host_rsa_key": "key of dev1",
        "etc/ssh/sshd_config": "Port 22\n",
        "etc/netplan/50-cloud-init.yaml": f"match: {{macaddress: {WAS_MAC}}}\n",
        "home/.deskyard/identity/ssh_host_ed25519_key": "key of dev1",
        "home/agent/work/report.txt": "by dev1\n",
        "home/agent/.openclaw/openclaw.json": "{}",
        "home/agent/.openclaw/devices/paired.json": "secret",
        f"home/{MANAGER}/.ssh/authorized_keys": "ssh-ed25519 BBBB of before\n",
        "var/lib/cloud/instances/deskyard-lab.dev1/user-data.txt": "hostname: dev1\nowners: [dev12, my-dev1]\n",
        "var/lib/cloud/instances/deskyard-lab.dev1/obj.pkl": "",
        "var/lib/cloud/data/instance-id": "deskyard-lab.dev1\n",
        "var/lib/cloud/data/previous-hostname": "dev1",
        "var/lib/deskyard/home-volume": "",
        "var/lib/deskyard/customise/scripts/first-boot-desktop.done": "",
        "var/lib/deskyard/customise/scripts/first-boot-workspace.done": "",
        # It ends by this code where some of it failed.
        "programs/cloud-init": f'#!/bin/sh\necho "cloud-init $@ $(cat /etc/hostname)" >>{LOG}\nexit 2\n',
        "usr/bin/systemctl": f'#!/bin/sh\necho "$@" >>{LOG}\n',
        **{path.removeprefix("/"): "secret" for path in OWN_FILES if ".openclaw/" not in path},
    }
    for name, text in files.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    for program in ("usr/bin/systemctl", "programs/cloud-init"):
        (tmp_path / program).chmod(0o755)
    browser = tmp_path / "home/agent/.config/chromium"
    browser.mkdir(parents=True)
    for name, to in (("SingletonLock", "dev1-4711"), ("SingletonCookie", "123"), ("SingletonSocket", "/tmp/socket")):
        (browser / name).symlink_to(to)
    (tmp_path / "home/agent/work/SingletonLock").symlink_to("dev12-4711")
    a_state(tmp_path / "home/agent/.openclaw/state/openclaw.sqlite")
    (tmp_path / "var/lib/cloud/instance").symlink_to("/var/lib/cloud/instances/deskyard-lab.dev1")
    return tmp_path


def become(desktop: Path, *, check: bool = True) -> str:
    """Run the program in the desktop as it is sent there; what it said of a failure."""
    return run_in(desktop, from_backup, "".join(f"{name}={value}\0" for name, value in OWN.items()), check)


def run_in(desktop: Path, program: ModuleType, values: str, check: bool = True) -> str:
    """Run a program in the desktop, as it is sent there; what it said of a failure."""
    python = [sys.executable, "-I", "-S", "-c", source(program)]
    argv = ["unshare", "--mount", "--propagation", "private", "sh", "-c", START, "sh", str(desktop), *python]
    path = {**os.environ, "PATH": f"{desktop / 'programs'}:{os.environ['PATH']}"}
    done = subprocess.run(argv, input=values.encode(), capture_output=True, timeout=SECONDS, check=False, env=path)
    assert done.returncode == 0 or not check, done.stderr.decode()
    return done.stderr.decode()


def test_nothing_by_which_the_first_desktop_is_known_is_left_and_its_files_are(desktop: Path) -> None:
    become(desktop)
    text = {name: (desktop / name).read_text() for name in ("etc/hostname", "etc/machine-id")}
    assert text == {"etc/hostname": "copy\n", "etc/machine-id": f"{'1' * 32}\n"}
    assert (desktop / "etc/netplan/50-cloud-init.yaml").read_text() == f"match: {{macaddress: {MAC}}}\n"
    kept = {path.name: path.read_text() for path in (desktop / "home/.deskyard/identity").iterdir()}
    assert sorted(kept) == ["ssh_host_ed25519_key", "ssh_host_ed25519_key.pub"]
    here = {path.name: path.read_text() for path in (desktop / "etc/ssh").glob("ssh_host_*")}
    assert here == kept and "of dev1" not in "".join(kept.values()) and "root@copy" in kept["ssh_host_ed25519_key.pub"]
    assert stat.S_IMODE((desktop / "home/.deskyard/identity/ssh_host_ed25519_key").stat().st_mode) == 0o600
    assert [path for path in OWN_FILES if os.path.lexists(desktop / path.removeprefix("/"))] == []
    assert (desktop / f"home/{MANAGER}/.ssh/authorized_keys").read_text() == f"{OWN['KEYS']}\n"
    assert (desktop / "home/agent/work/report.txt").read_text() == "by dev1\n"
    assert (desktop / "home/agent/.openclaw/openclaw.json").exists()
    # Without it the next start would take the volume for a new one, and fill it.
    assert (desktop / "var/lib/deskyard/home-volume").exists()
    stopped = (desktop / LOG[1:]).read_text()
    assert "stop agent-openclaw.service" in stopped and "stop ssh.service" in stopped


def test_cloud_init_finds_its_first_boot_over_and_the_new_name(desktop: Path) -> None:
    become(desktop)
    # Nothing is renamed under one that is at work.
    assert (desktop / LOG[1:]).read_text().splitlines()[0] == "cloud-init status --wait dev1"
    cloud = desktop / "var/lib/cloud"
    assert (cloud / "instance").readlink() == Path(f"/var/lib/cloud/instances/{INSTANCE}")
    assert [path.name for path in (cloud / "instances").iterdir()] == [INSTANCE]
    assert not (cloud / f"instances/{INSTANCE}/obj.pkl").exists()
    assert (cloud / f"instances/{INSTANCE}/user-data.txt").read_text() == "hostname: copy\nowners: [dev12, my-dev1]\n"
    data = [
        (cloud / "data" / name).read_text() for name in ("instance-id", "previous-instance-id", "previous-hostname")
    ]
    assert data == [f"{INSTANCE}\n", f"{INSTANCE}\n", "copy"]


def test_program_that_is_run_once_more_changes_the_keys_alone(desktop: Path) -> None:
    become(desktop)
    key = (desktop / "etc/ssh/ssh_host_ed25519_key").read_text()
    become(desktop)
    assert (desktop / "etc/ssh/ssh_host_ed25519_key").read_text() != key
    assert (desktop / "etc/hostname").read_text() == "copy\n"
    assert sorted(path.name for path in (desktop / "home/.deskyard").iterdir()) == ["identity"]


def test_agents_device_and_pairings_are_in_no_file_any_more_and_what_else_it_knows_is(desktop: Path) -> None:
    become(desktop)
    folder = desktop / "home/agent/.openclaw/state"
    assert [path.name for path in folder.iterdir()] == ["openclaw.sqlite"]
    assert b"PRIVATE KEY" not in (folder / "openclaw.sqlite").read_bytes()
    with contextlib.closing(sqlite3.connect(folder / "openclaw.sqlite")) as state:
        counts = {
            table: state.execute(f"SELECT count(*) FROM {table}").fetchone()[0]
            for table in ("device_identities", "device_auth_tokens", "conversations", "config_machine_state")
        }
    assert counts == {"device_identities": 0, "device_auth_tokens": 0, "conversations": 1, "config_machine_state": 1}


def test_agent_of_a_template_is_known_by_nothing_that_its_machines_would_share(desktop: Path) -> None:
    run_in(desktop, homes, "dev1")
    home = desktop / "home/agent"
    assert [path for path in homes.AGENT_SECRETS if os.path.lexists(home / path)] == []
    assert b"PRIVATE KEY" not in (home / homes.AGENT_STATE).read_bytes()
    assert list((home / ".config/chromium").iterdir()) == [] and (home / "work/report.txt").exists()


def test_browser_of_the_first_desktop_locks_no_profile_any_more(desktop: Path) -> None:
    become(desktop)
    assert list((desktop / "home/agent/.config/chromium").iterdir()) == []
    # Of a machine whose name only begins alike.
    assert (desktop / "home/agent/work/SingletonLock").is_symlink()


def test_scripts_of_the_first_desktop_are_none_that_the_new_one_has_run(desktop: Path) -> None:
    become(desktop)
    ran = desktop / "var/lib/deskyard/customise/scripts"
    assert [path.name for path in ran.iterdir()] == ["first-boot-workspace.done"]


def test_link_of_the_agents_leads_root_nowhere(desktop: Path) -> None:
    home, elsewhere = desktop / "home/agent", desktop / "etc/deskyard/devices"
    shutil.rmtree(home / ".openclaw")
    (home / ".openclaw").symlink_to("/etc/deskyard")
    elsewhere.mkdir()
    elsewhere.chmod(0o700)
    for path in (home, *home.rglob("*")):
        os.chown(path, 1001, 1001, follow_symlinks=False)
    refused = become(desktop, check=False)
    assert "in /home/agent could not be removed" in refused and elsewhere.is_dir()
