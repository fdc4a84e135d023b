"""A desktop's system without its machine (deskyard/lab/desk.py), to which roles of images are applied.

Packages come from the registries, by a way out of its own. Everything a host writes is one folder, which goes with it.
"""

import json
import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from deskyard.host.command import Result, run
from deskyard.host.places import tree
from deskyard.lab import desk
from deskyard.lab.desk import DESK
from tests.support.containers import Containers
from tests.support.requirements import need_programs, need_root

APPLY_SECONDS = 2400.0
PLAYBOOK = """
- hosts: all
  gather_facts: false
  tasks:
    - name: Apply a role of the image
      ansible.builtin.include_role:
        name: "{{ image_role }}"
      loop: "{{ image_roles }}"
      loop_control:
        loop_var: image_role
"""


class Workbench(Containers):
    """The host, while its `with` block lasts."""

    def boot(self) -> None:
        """Create the host as Molecule has it."""
        desk.boot(self.yard)

    @property
    def root(self) -> Path:
        """The files of the host as it sees them."""
        return self.yard.folder / DESK / "root"

    @property
    def where(self) -> list[str]:
        """The options that lead testinfra to the host."""
        return [f"--hosts=ssh://{DESK}", f"--ssh-config={self.yard.ssh_config}"]

    def apply(self, roles: Sequence[str], variables: dict[str, Any] | None = None, *, check: bool = False) -> Result:
        """Apply roles as an image build does; with `check` nothing is to be touched."""
        result = self.try_to_apply(roles, variables, check=check)
        assert result.code == 0, f"{result.stdout[-6000:]}\n{result.stderr[-2000:]}"
        return result

    def try_to_apply(
        self,
        roles: Sequence[str],
        variables: dict[str, Any] | None = None,
        *,
        check: bool = False,
        way: Path | None = None,
    ) -> Result:
        """Apply roles, and answer what became of it; `way` is the ssh configuration of other sessions than usual."""
        folder = self.yard.folder
        (folder / "apply.yml").write_text(PLAYBOOK)
        (folder / "inventory").write_text(f"{DESK} ansible_user=root\n")
        (folder / "variables.json").write_text(json.dumps({"image_roles": list(roles), **(variables or {})}))
        argv = [str(Path(sys.executable).parent / "ansible-playbook"), "-i", str(folder / "inventory")]
        argv += ["--extra-vars", f"@{folder / 'variables.json'}", *(["--check"] if check else [])]
        env = {
            "ANSIBLE_CONFIG": str(tree() / "ansible/ansible.cfg"),
            "ANSIBLE_ROLES_PATH": str(tree() / "ansible/roles"),
            "ANSIBLE_SSH_ARGS": f"-F {way or self.yard.ssh_config}",
            "ANSIBLE_NOCOLOR": "1",
            "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
        }
        return run([*argv, str(folder / "apply.yml")], timeout=APPLY_SECONDS, env=env, check=False)

    def do(self, script: str, user: str = "root", check: bool = True, seconds: float = 120) -> Result:
        """Run a script on the host."""
        argv = ["ssh", "-F", str(self.yard.ssh_config), DESK, "sudo", "-i", "-u", user, "sh", "-s"]
        done = run(argv, timeout=seconds, stdin=script, check=False)
        assert not check or done.code == 0, f"{script}\n{done.stdout}\n{done.stderr}"
        return done


@contextmanager
def host_with(folders: pytest.TempPathFactory, *roles: str) -> Iterator[Workbench]:
    """A host that has these roles; leaves the test out, with the reason, where there can be none."""
    need_root("runs containers")
    need_programs("slirp4netns")  # the host's way to the registries
    with Workbench(folders.mktemp("bench") / "yard") as made:
        made.apply(list(roles))
        yield made
