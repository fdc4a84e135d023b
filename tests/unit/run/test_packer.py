"""How Packer is called."""

import json
from pathlib import Path

import pytest

from deskyard.errors import BuildError, CommandError
from deskyard.plan.workspace import Accelerator
from deskyard.run import packer
from deskyard.run.command import Result
from deskyard.run.packer import PackerBuild, packer_version
from deskyard.run.places import tree


class FakeRun:
    """Stands for the programs; notes how they are called."""

    def __init__(self, version: str) -> None:
        self.version = version
        self.calls: list[list[str]] = []
        self.staged: set[str] = set()
        self.fails = False

    def __call__(self, argv: list[str], **options: object) -> Result:
        self.calls.append(argv)
        if argv[1] == "version":
            return Result(tuple(argv), 0, f"Packer v{self.version}\n", "", 0.0)
        if argv[1] == "build":
            self.staged = {path.name for path in Path(argv[-1]).iterdir()}
            if self.fails:
                options["on_line"]("fatal: [default]: FAILED! => the role broke")  # type: ignore[operator]
                raise CommandError("command", "packer", "exit code 1", "mend it")
        return Result(tuple(argv), 0, "", "", 0.0)

    def values(self) -> dict[str, str]:
        """The variables that Packer got."""
        build = next(argv for argv in self.calls if argv[1] == "build")
        return dict(word.removeprefix("-var=").split("=", 1) for word in build if word.startswith("-var="))


def build_with(
    monkeypatch: pytest.MonkeyPatch, folder: Path, version: str, accelerator: Accelerator = "tcg", fails: bool = False
) -> FakeRun:
    fake = FakeRun(version)
    fake.fails = fails
    monkeypatch.setattr(packer, "run", fake)
    monkeypatch.setattr(packer, "locate", lambda _: Path("/usr/bin/packer"))
    scratch, logs = folder / "scratch", folder / "logs"
    scratch.mkdir()
    logs.mkdir()
    PackerBuild(folder / "base.qcow2", accelerator, {"image_roles": ["guest_base"]}, scratch, logs).run()
    return fake


@pytest.fixture(autouse=True)
def key(monkeypatch: pytest.MonkeyPatch) -> None:
    def make(folder: Path) -> Path:
        (folder / "key.pub").write_text("ssh-ed25519 AAAA build\n")
        return folder / "key"

    monkeypatch.setattr(packer, "make_key", make)


def test_old_packer_gets_no_plugins_file(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    fake = build_with(monkeypatch, tmp_path, "1.6.6")
    assert fake.staged == {"build.pkr.hcl", "sources.pkr.hcl", "variables.pkr.hcl"}
    assert not [argv for argv in fake.calls if argv[1] == "init"]


def test_new_packer_gets_its_plugins_first(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    fake = build_with(monkeypatch, tmp_path, "1.11.2")
    assert "plugins.pkr.hcl" in fake.staged
    assert [argv[1] for argv in fake.calls if argv[1] in ("init", "build")] == ["init", "build"]


@pytest.mark.parametrize(("accelerator", "cpus", "model"), [("tcg", "1", "Nehalem"), ("kvm", "2", "host")])
def test_emulated_builds_have_one_plain_cpu(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, accelerator: Accelerator, cpus: str, model: str
) -> None:
    values = build_with(monkeypatch, tmp_path, "1.6.6", accelerator).values()
    assert (values["accelerator"], values["cpus"], values["cpu_model"]) == (accelerator, cpus, model)


def test_roles_get_their_variables(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    values = build_with(monkeypatch, tmp_path, "1.6.6").values()
    assert json.loads(Path(values["ansible_variables"]).read_text()) == {"image_roles": ["guest_base"]}


def test_failure_names_cause_and_logs(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    with pytest.raises(BuildError) as caught:
        build_with(monkeypatch, tmp_path, "1.6.6", fails=True)
    for part in ("the role broke", str(tmp_path / "logs/packer.log"), str(tmp_path / "logs/console.log")):
        assert part in caught.value.reason


def test_version_is_read_as_numbers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(packer, "run", FakeRun("1.10.0"))
    assert packer_version("packer") == (1, 10, 0)


def test_variables_are_those_the_template_declares(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    declared = (tree() / "packer/variables.pkr.hcl").read_text()
    for name in build_with(monkeypatch, tmp_path, "1.6.6").values():
        assert f'variable "{name}"' in declared
