"""An owner's keys on live machines: on the desktop that names them, and nowhere else.

The same on containers, with several desktops and every refusal, is in tests/desktop.
"""

import hashlib
import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import yaml

from deskyard.host.places import places
from deskyard.plan import key_file
from tests.support.processes import Seen, watching
from tests.support.workspaces import Running

pytestmark = pytest.mark.vm
# Nothing to change about the machines; emulated desktops take their time to greet.
UP_SECONDS = 1200
FIRST, SECOND = "canary-7d41-first-value", "canary-e902-second-value"
# Where a guest keeps what it was told: settings, user-data, histories, logs, journals, dumps.
FOLDERS = "/etc /home /root /run /tmp /var/lib /var/log /var/spool /var/tmp"
FILES = f"sudo timeout 200 grep -rlsF --devices=skip -f - {FOLDERS}"
JOURNAL = "exec 3<&0; sudo journalctl --all --output=export --no-pager | grep -cF -f <(cat <&3)"
BOOT = "cat /proc/sys/kernel/random/boot_id"


@dataclass
class Owner:
    """Who declares keys for the desktop of a workspace; all that was said is kept."""

    running: Running
    said: list[str] = field(default_factory=list)

    @property
    def file(self) -> Path:
        """The stack file."""
        return self.running.declared.folder / f"Pulumi.{self.running.name}.yaml"

    def inv(self, *arguments: str, timeout: float = 300, stdin: str = "") -> str:
        """Run a task."""
        done = self.running.inv(*arguments, timeout=timeout, stdin=stdin)
        self.said += [done.stdout, done.stderr]
        return done.stdout

    def set_key(self, value: str, name: str = "anthropic") -> None:
        """Encrypt a key."""
        self.inv("desktop.set-key", self.running.name, name, stdin=f"{value}\n")

    def name_it(self, *keys: str) -> None:
        """Say which keys the desktop gets."""
        content = yaml.safe_load(self.file.read_text())
        content["config"]["deskyard:desktops"][0]["keys"] = list(keys)
        self.file.write_text(yaml.safe_dump(content))

    def customise(self, folder: str) -> None:
        """Say what customises all desktops."""
        content = yaml.safe_load(self.file.read_text())
        content["config"]["deskyard:customise"] = {"from": folder}
        self.file.write_text(yaml.safe_dump(content))

    def up(self) -> None:
        """Bring the workspace to what is declared."""
        self.inv("workspace.up", self.running.name, timeout=UP_SECONDS)

    def listed(self) -> Any:
        """What `desktop.keys` says."""
        return json.loads(self.inv("desktop.keys", f"{self.running.name}/desk", "--json"))


@pytest.fixture(scope="module")
def given(ours: Running) -> Iterator[tuple[Owner, Seen]]:
    """The desktop of `ours` has a key; what processes showed meanwhile. At the end it has none, as before."""
    owner, before = Owner(ours), (ours.declared.folder / f"Pulumi.{ours.name}.yaml").read_text()
    try:
        with watching() as seen:
            owner.set_key(FIRST)
            owner.name_it("anthropic")
            owner.up()
        yield owner, seen
    finally:
        owner.file.write_text(before)
        owner.up()


def found_in(running: Running, host: str, canary: str) -> set[str]:
    """Files and journals of a guest that hold a canary; it is looked for without being on a command line."""
    done = running.ssh(host, FILES, stdin=f"{canary}\n", check=False)
    assert done.returncode in (0, 1, 2), f"{host}: the search did not end well ({done.returncode})\n{done.stderr}"
    journal = running.ssh(host, JOURNAL, stdin=f"{canary}\n", check=False).stdout.strip()
    assert journal.isdigit(), f"{host}: the journal could not be searched: {journal!r}"
    return {*done.stdout.split(), *({"journal"} if int(journal) else ())}


def test_the_desktop_has_its_key_and_only_its_agent_reads_it(given: tuple[Owner, Seen]) -> None:
    ours = given[0].running
    assert ours.ssh("desk", f"stat -c '%a %U %G' {key_file.PATH}").stdout.split() == ["640", "root", key_file.GROUP]
    script = f'. {key_file.PATH}; printf %s "$ANTHROPIC_API_KEY" | sha256sum'
    output = ours.ssh("desk", f"sudo -u {key_file.GROUP} sh -s", stdin=script).stdout.split()[0]
    assert output == hashlib.sha256(FIRST.encode()).hexdigest(), "the agent reads another value than the owner set"
    assert ours.ssh("desk", f"sudo -u nobody cat {key_file.PATH}", check=False).returncode != 0
    listed = given[0].listed()
    assert [(row["name"], row["state"]) for row in listed["keys"]] == [("anthropic", "in step")], listed
    assert listed["in_step"], listed


@pytest.mark.deep  # searches whole guests
def test_the_key_is_nowhere_else(given: tuple[Owner, Seen], other: Running) -> None:
    owner, seen = given
    assert seen.looks > 10, "the processes were not looked at"
    # The engine hands the configuration to its plugins in their environment, which only their own account reads.
    assert "cmdline" not in seen.places_of(FIRST), "a command line showed the key"
    assert found_in(owner.running, "desk", FIRST) == {key_file.PATH}
    assert found_in(owner.running, "gateway", FIRST) == set()
    assert other.ssh("desk", f"test -e {key_file.PATH}", check=False).returncode == 1, "another desktop has a key file"
    folders = (owner.running.declared.folder, places().workspace(owner.running.plan.site, owner.running.name))
    files = [path for folder in folders for path in folder.rglob("*") if path.is_file()]
    assert any(".pulumi" in path.parts for path in files), "no state was looked at"
    leaks = [path for path in files if FIRST.encode() in path.read_bytes()]
    assert leaks == []
    assert not any(FIRST in text for text in owner.said), "a task said the key"


def test_rotation_and_removal_need_no_restart(given: tuple[Owner, Seen]) -> None:
    owner, ours = given[0], given[0].running
    boot = ours.ssh("desk", BOOT).stdout
    owner.set_key(SECOND)
    assert owner.listed()["keys"][0]["state"] == "changed"
    owner.up()
    assert owner.listed()["in_step"]
    assert found_in(ours, "desk", FIRST) == set(), "the old value is still there"
    owner.name_it()
    owner.up()
    assert ours.ssh("desk", f"test -e {key_file.PATH}", check=False).returncode == 1, "the key is still there"
    assert found_in(ours, "desk", SECOND) == set()
    assert ours.ssh("desk", BOOT).stdout == boot, "the desktop was restarted"
