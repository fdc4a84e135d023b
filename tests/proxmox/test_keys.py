"""An owner's keys on a cluster: the same way, over SSH to the desktop, past the API and everything that it keeps."""

import grp
import os
import shlex
import subprocess
from pathlib import Path
from urllib.parse import unquote

import pytest
import yaml

from deskyard.desktop import keys
from deskyard.host.places import places
from deskyard.plan import key_file
from deskyard.workspace import workspace
from tests.proxmox.canaries import needles
from tests.proxmox.inhabited import Inhabitants, private_text
from tests.proxmox.rack import Rack
from tests.support.gateway_door import Door, GatewayProgram, Heard

CANARY = "canary-3b8f-anthropic"


class DesktopProgram(GatewayProgram):
    """Runs what it is told, as root here, and hears it."""

    def run(self, command: str, stdin: str) -> tuple[int, str]:
        """Exit code and output."""
        self.heard.append(Heard(command, stdin))
        words = shlex.split(command)
        assert words[:2] == ["sudo", "-n"]
        done = subprocess.run(words[2:], input=stdin, capture_output=True, text=True, timeout=60, check=False)
        return done.returncode, done.stdout


def test_a_key_reaches_its_desktop_and_nothing_of_the_cluster(
    rack: Rack,
    inhabitants: Inhabitants,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    file = tmp_path / "inside-dev1" / "keys.env"
    file.parent.mkdir()
    monkeypatch.setattr(key_file, "PATH", str(file))
    monkeypatch.setattr(key_file, "GROUP", grp.getgrgid(os.getegid()).gr_name)
    rack.up("lab", "dev1")
    system = inhabitants.systems["dev1.lab"]
    config = system.vm.config
    program = DesktopProgram(system.root)
    door = Door(private_text(system.host_key), str(config["ciuser"]), unquote(str(config["sshkeys"])), program)
    inhabitants.street.open(rack.plan("lab").plan.desktop("dev1").address, door)

    keys.set_key("lab", "anthropic", CANARY)
    kept = yaml.safe_load((rack.stacks / "Pulumi.lab.yaml").read_text())["config"]["deskyard:keys"]
    rack.declare("lab", "dev1", keys=kept, shared_keys=["anthropic"])
    workspace.up("lab")
    assert key_file.line("anthropic", CANARY) in file.read_text()
    listed = keys.listing("lab/dev1")
    assert (listed["in_step"], listed["keys"][0]["state"]) == (True, "in step")

    fake = rack.peer.fake
    heard = [call for gateway in inhabitants.programs() for call in gateway.heard]
    outside = {
        "API calls": str(fake.calls),
        "machines": str([[vm.config, vm.pending] for vm in fake.vms]),
        "agents": str([system.ran for system in inhabitants.systems.all()]),
        "command lines": inhabitants.street.log.read_text() + str([call.command for call in program.heard]),
        "gateway": str(heard),
        "output": str(capfd.readouterr()),
        **{str(path): path.read_text(errors="replace") for path in files(rack.stacks, places().state)},
    }
    found = {place for place, text in outside.items() if any(form in text.encode() for form in needles(CANARY))}
    assert found == set()
    assert any(CANARY in call.stdin for call in program.heard)

    rack.declare("lab", "dev1", keys=kept)
    workspace.up("lab")
    assert not file.exists()


def files(*folders: Path) -> list[Path]:
    """What Deskyard and Pulumi keep."""
    return [path for folder in folders for path in folder.rglob("*") if path.is_file() and "plugins" not in path.parts]
