"""Runs Packer: a base disk and the roles of an image become a disk."""

import json
import re
import shutil
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from deskyard.errors import BuildError, CommandError
from deskyard.plan.workspace import Accelerator
from deskyard.run.command import run
from deskyard.run.guest_boot import make_key
from deskyard.run.places import tree
from deskyard.run.progress import say
from deskyard.run.seed import write_seed
from deskyard.toolchain import locate

PLUGINS_FILE = "plugins.pkr.hcl"
FIRST_WITH_PLUGINS = (1, 7)
BUILD_SECONDS = 5400.0
CPUS: dict[Accelerator, tuple[int, str]] = {"kvm": (2, "host"), "tcg": (1, "Nehalem")}
SHOWN = re.compile(r"(TASK|RUNNING HANDLER) \[(?P<task>.*?)\]")


@dataclass(frozen=True)
class PackerBuild:
    """One run of Packer. `scratch` is thrown away afterwards, `logs` is kept."""

    base_disk: Path
    accelerator: Accelerator
    variables: dict[str, Any]
    scratch: Path
    logs: Path

    def run(self) -> Path:
        """Build, and return the disk; raises `BuildError` that names the logs."""
        packer, output = str(locate("packer")), self.scratch / "output"
        what = self.validate()
        log = self.logs / "packer.log"
        with log.open("w") as file:

            def keep(line: str) -> None:
                file.write(line + "\n")
                file.flush()
                shown = SHOWN.search(line)
                if shown:
                    say(f"    {shown['task']}")

            try:
                run(
                    [packer, "build", "-color=false", *what],
                    timeout=BUILD_SECONDS,
                    on_line=keep,
                    env={"PACKER_CACHE_DIR": str(self.scratch / "cache"), "CHECKPOINT_DISABLE": "1"},
                )
            except CommandError as error:
                said = [line for line in log.read_text().splitlines() if "fatal:" in line or "rror" in line][-3:]
                cause = "\n".join(said) or error.reason
                reason = f"Packer failed:\n{cause}\n  log: {log}\n  console: {self.logs / 'console.log'}"
                raise BuildError(
                    "image", self.logs.name, reason, "read the log, mend the cause, run it again"
                ) from error
        return output / "disk.qcow2"

    def validate(self) -> list[str]:
        """Let Packer check templates and variables; answers the arguments of a build that passed."""
        packer = str(locate("packer"))
        what = [*self._arguments(), str(self._stage(packer))]
        run([packer, "validate", *what], timeout=120, env={"CHECKPOINT_DISABLE": "1"})
        return what

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
            user_data={
                "disable_root": False,
                "ssh_genkeytypes": ["ed25519"],
                "manage_etc_hosts": True,
                "users": [{"name": "root", "ssh_authorized_keys": [key.with_suffix(".pub").read_text().strip()]}],
            },
        )
        variables = self.scratch / "variables.json"
        variables.write_text(json.dumps(self.variables))
        cpus, cpu_model = CPUS[self.accelerator]
        values = {
            "base_disk": self.base_disk,
            "seed": seed,
            "private_key": key,
            "output": self.scratch / "output",
            "console": self.logs / "console.log",
            "accelerator": self.accelerator,
            "cpus": cpus,
            "cpu_model": cpu_model,
            "ansible_playbook": locate_ansible(),
            "ansible_folder": tree() / "ansible",
            "ansible_variables": variables,
        }
        return [f"-var={name}={value}" for name, value in values.items()]


def packer_version(packer: str) -> tuple[int, ...]:
    """Packer's version as numbers."""
    found = re.search(r"v?(\d+)\.(\d+)\.(\d+)", run([packer, "version"], timeout=30).stdout)
    return tuple(int(part) for part in found.groups()) if found else (0,)


def locate_ansible() -> Path:
    """ansible-playbook of the environment that runs us."""
    return Path(sys.executable).parent / "ansible-playbook"
