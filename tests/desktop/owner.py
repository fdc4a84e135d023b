"""An owner at work on the workspace of the lab: a stack file, Pulumi's own engine, and the tasks of ./inv."""

import io
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import yaml

from deskyard.declaration import declaration
from deskyard.engine import running
from deskyard.engine.on_libvirt import LibvirtBackend
from deskyard.engine.stack import WorkspaceStack
from deskyard.workspace import readiness, workspace
from tests.desktop.lab import NETWORK, Lab
from tests.support.inv import Said, inv


class Owner:
    """Declares workspace `lab`; its machines are those of the lab, so `up` finds nothing to change about them."""

    def __init__(self, lab: Lab, folder: Path, patch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
        self.lab, self.folder, self._patch, self._capsys = lab, folder, patch, capsys
        self.said: list[str] = []
        patch.setenv("DESKYARD_STACKS", str(folder))
        patch.setenv("DESKYARD_ACCELERATOR", "kvm")
        patch.setenv("PULUMI_BACKEND_URL", f"file://{folder}")
        patch.setenv("PULUMI_CONFIG_PASSPHRASE", "test")
        machines = SimpleNamespace(states=dict, desired=dict, mend_wishes=list)
        for place, name, value in (
            (workspace, "_checked", declaration.read),
            (workspace, "_connect", lambda _: None),
            (LibvirtBackend, "open_way", lambda *_: None),
            (workspace, "machines_of", lambda _: machines),
            (readiness, "machines_of", lambda _: machines),
            (running, "require_running", lambda *_: None),
            (WorkspaceStack, "changes", lambda _: []),
            (readiness, "wait", lambda *_, **__: readiness.silent("nobody asked it")),
        ):
            patch.setattr(place, name, value)

    @property
    def file(self) -> Path:
        """The stack file."""
        return self.folder / "Pulumi.lab.yaml"

    def declare(self, shared: Sequence[str] = (), **desktops: Sequence[str]) -> None:
        """Say which desktop gets which keys; the keys that were set stay."""
        before = yaml.safe_load(self.file.read_text()) if self.file.exists() else {"config": {}}
        config = {
            "deskyard:network": NETWORK,
            "deskyard:shared_keys": list(shared),
            "deskyard:desktops": [{"name": name, "keys": list(keys)} for name, keys in desktops.items()],
        }
        self.file.write_text(yaml.safe_dump({**before, "config": {**before["config"], **config}}))

    def customise(self, workspace: Path | None = None, **desktops: Path) -> None:
        """Say what customises all desktops, and each of them."""
        self.declare(desk=[], other=[])
        content = yaml.safe_load(self.file.read_text())
        content["config"].pop("deskyard:customise", None)
        if workspace is not None:
            content["config"]["deskyard:customise"] = {"from": str(workspace.relative_to(self.folder))}
        for desktop in content["config"]["deskyard:desktops"]:
            if desktop["name"] in desktops:
                desktop["customise"] = {
                    "from": str(desktops[desktop["name"]].relative_to(self.folder)),
                    "script_seconds": 60,
                }
        self.file.write_text(yaml.safe_dump(content))

    def take_back(self, name: str) -> None:
        """Take a key out of the file."""
        content = yaml.safe_load(self.file.read_text())
        del content["config"]["deskyard:keys"][name]
        self.file.write_text(yaml.safe_dump(content))

    def inv(self, *arguments: str, stdin: str = "") -> Said:
        """Run a task; what it says is kept."""
        self._patch.setattr("sys.stdin", io.StringIO(stdin))
        output = inv(self._capsys, *arguments)
        self.said += [output.out, output.err]
        return output

    def set_key(self, name: str, value: str) -> Any:
        """Encrypt a key."""
        output = self.inv("desktop.set-key", "lab", name, "--json", stdin=f"{value}\n")
        assert output.code == 0, output.err
        return output.document

    def up(self) -> str:
        """`workspace.up`; what it says of its progress."""
        output = self.inv("workspace.up", "lab", "--json")
        assert output.code == 0, output.err
        return output.err

    def customised(self, target: str, *options: str) -> dict[str, Any]:
        """`desktop.customise`; what became of each desktop, by name."""
        output = self.inv("desktop.customise", target, *options, "--json")
        assert output.code == 0, output.err
        return {report["desktop"]: report for report in output.document["desktops"]}

    def keys(self, desktop: str) -> Any:
        """`desktop.keys`."""
        output = self.inv("desktop.keys", f"lab/{desktop}", "--json")
        assert output.code == 0, output.err
        return output.document
