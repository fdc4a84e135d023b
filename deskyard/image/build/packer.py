"""Runs Packer: a base disk and the roles of an image become a disk."""

import json
import os
import re
import shutil
import stat
import sys
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, TextIO

from deskyard.errors import BuildError, CommandError
from deskyard.host.command import run
from deskyard.host.facts import find_program
from deskyard.host.places import tree
from deskyard.host.progress import say
from deskyard.host.toolchain import locate
from deskyard.host.vm.cpu import CPUS, QEMU
from deskyard.host.vm.evidence import CONSOLE, FAILING_TASK, LOG, SCREEN, failing_task, save_screen
from deskyard.host.vm.guest_boot import make_key, write_ssh_config
from deskyard.host.vm.qemu import Machine
from deskyard.host.vm.scratch import SSH_CONFIG
from deskyard.host.vm.seed import write_seed
from deskyard.image.build.first_boot import first_boot
from deskyard.image.build.network import BuildNetwork
from deskyard.plan.workspace import Accelerator

PLUGINS_FILE = "plugins.pkr.hcl"
FIRST_WITH_PLUGINS = (1, 7)
# An emulated machine takes twenty times as long to compile and to unpack.
BUILD_SECONDS: dict[Accelerator, float] = {"kvm": 5400, "tcg": 6 * 3600}
SHOWN = re.compile(r"(TASK|RUNNING HANDLER) \[(?P<task>.*?)\]")


@dataclass(frozen=True)
class PackerBuild:
    """A run of Packer. `scratch` is thrown away afterwards, `logs` is kept.

    With `from_image` the disk is that of an image of ours, and the build gets what `network` has; `own_roles` is looked
    into before ansible/roles.
    """

    base_disk: Path
    accelerator: Accelerator
    variables: dict[str, Any]
    scratch: Path
    logs: Path
    keep: bool = False
    from_image: bool = False
    own_roles: Path | None = None
    network: BuildNetwork = field(default_factory=BuildNetwork)

    def run(self) -> Path:
        """Build, and return the disk; raises `BuildError` if it fails, and keeps what helps to find out why.

        With `keep` the machine of a failed build goes on running.
        """
        packer, output, machine = str(locate("packer")), self.scratch / "output", Machine(self.scratch)
        what = self.validate()
        # Left to itself, Packer ends the machine before anybody could look at its screen.
        argv = [packer, "build", "-color=false", "-on-error=abort", *what]
        failed = False
        try:
            with (self.logs / LOG).open("w") as file:
                seconds = BUILD_SECONDS[self.accelerator]
                run(argv, timeout=seconds, on_line=partial(_keep_line, file), env=self._environment(machine))
        except CommandError as error:
            failed = True
            save_screen(machine, self.logs / SCREEN)
            self._write_way_in(machine)
            raise self._error(error) from error
        finally:
            if not (failed and self.keep):
                machine.end()
        return output / "disk.qcow2"

    def _path(self, machine: Machine) -> str:
        """PATH with a QEMU that can be asked for its screen: what Packer is told is part of the image's digest."""
        program = self.scratch / "bin" / QEMU
        program.parent.mkdir()
        real = find_program(QEMU) or QEMU
        program.write_text(
            "#!/bin/sh\n"
            # Packer lets its pipes through: held by a machine that outlives it, its output would never end.
            "exec 3>&- 4>&- 5>&- 6>&- 7>&- 8>&- 9>&-\n"
            f"{machine.starting(real)}\n"
        )
        program.chmod(program.stat().st_mode | stat.S_IXUSR)
        return f"{program.parent}:{os.environ.get('PATH', os.defpath)}"

    def _write_way_in(self, machine: Machine) -> None:
        if self.keep and (port := machine.ssh_port()):
            write_ssh_config(self.scratch / SSH_CONFIG, self.scratch / "key", port, "root")

    def _error(self, error: CommandError) -> BuildError:
        lines = (self.logs / LOG).read_text().splitlines()
        task = failing_task(lines)
        if task is not None:
            (self.logs / FAILING_TASK).write_text(task.output + "\n")
            reason = f"task {task.name!r} failed:\n{task.gist}"
        else:
            said = [line for line in lines if "fatal:" in line or "rror" in line][-3:]
            reason = "Packer failed:\n" + ("\n".join(said) or error.reason)
        return BuildError("image", self.logs.name, reason, "mend the cause and run it again")

    def validate(self) -> list[str]:
        """Let Packer check templates and variables; answers the arguments of a build that passed."""
        packer = str(locate("packer"))
        what = [*self._arguments(), str(self._stage(packer))]
        run([packer, "validate", *what], timeout=120, env={"CHECKPOINT_DISABLE": "1"})
        return what

    def _environment(self, machine: Machine) -> dict[str, str]:
        env = {
            "PACKER_CACHE_DIR": str(self.scratch / "cache"),
            "CHECKPOINT_DISABLE": "1",
            "PATH": self._path(machine),
        }
        if self.own_roles is not None:
            # Packer hands its environment on to Ansible, which prefers this to the setting of ansible.cfg.
            env["ANSIBLE_ROLES_PATH"] = f"{self.own_roles}:{tree() / 'ansible/roles'}"
        return env

    def _stage(self, packer: str) -> Path:
        """Packer before 1.7 has its plugins built in and refuses a file that asks for them."""
        source, staged = tree() / "packer", self.scratch / "packer"
        shutil.copytree(source, staged, ignore=shutil.ignore_patterns("base"))
        if packer_version(packer) < FIRST_WITH_PLUGINS:
            (staged / PLUGINS_FILE).unlink()
        else:
            run([packer, "init", str(staged)], timeout=600)
        return staged

    def _arguments(self) -> list[str]:
        key, seed = make_key(self.scratch), self.scratch / "seed.iso"
        write_seed(
            seed,
            meta_data={"instance-id": "deskyard-build", "local-hostname": "build"},
            user_data=first_boot(
                key.with_suffix(".pub").read_text().strip(), self.network if self.from_image else None
            ),
        )
        variables = self.scratch / "variables.json"
        variables.write_text(json.dumps(self.variables))
        cpus, cpu_model = CPUS[self.accelerator]
        values = {
            "base_disk": self.base_disk,
            "seed": seed,
            "private_key": key,
            "output": self.scratch / "output",
            "console": self.logs / CONSOLE,
            "accelerator": self.accelerator,
            "cpus": cpus,
            "cpu_model": cpu_model,
            "ansible_playbook": locate_ansible(),
            "ansible_folder": tree() / "ansible",
            "ansible_variables": variables,
        }
        return [f"-var={name}={value}" for name, value in values.items()]


def _keep_line(file: TextIO, line: str) -> None:
    file.write(line + "\n")
    file.flush()
    shown = SHOWN.search(line)
    if shown:
        say(f"    {shown['task']}")


def packer_version(packer: str) -> tuple[int, ...]:
    """Packer's version as numbers."""
    found = re.search(r"v?(\d+)\.(\d+)\.(\d+)", run([packer, "version"], timeout=30).stdout)
    return tuple(int(part) for part in found.groups()) if found else (0,)


def locate_ansible() -> Path:
    """ansible-playbook of the environment that runs us."""
    return Path(sys.executable).parent / "ansible-playbook"
