"""How Packer is called."""

import json
from pathlib import Path
from typing import Any

import pytest

from deskyard.errors import BuildError, CommandError
from deskyard.host.command import Result, run
from deskyard.host.places import tree
from deskyard.image.build import packer
from deskyard.image.build.network import BuildNetwork
from deskyard.image.build.packer import PackerBuild, packer_version
from deskyard.plan.workspace import Accelerator

FAILURE = (
    "    qemu.image: TASK [browser : Install the browser] ****",
    '    qemu.image: fatal: [default]: FAILED! => {"msg": "no such package", "stderr": "E: the role broke"}',
    "    qemu.image:",
    '==> qemu.image: Step "StepProvision" failed, aborting...',
)


class FakeRun:
    """Stands for the programs; notes how they are called."""

    def __init__(self, version: str) -> None:
        self.version = version
        self.calls: list[list[str]] = []
        self.staged: set[str] = set()
        self.env: dict[str, str] = {}
        self.seconds: object = None
        self.fails = False

    def __call__(self, argv: list[str], **options: object) -> Result:
        self.calls.append(argv)
        if argv[1] == "version":
            return Result(tuple(argv), 0, f"Packer v{self.version}\n", "", 0.0)
        if argv[1] == "build":
            self.seconds = options["timeout"]
            self.env = dict(options["env"])  # type: ignore[call-overload]
            self.staged = {path.name for path in Path(argv[-1]).iterdir()}
            if self.fails:
                for line in FAILURE:
                    options["on_line"](line)  # type: ignore[operator]
                raise CommandError("command", "packer", "exit code 1", "mend it")
        return Result(tuple(argv), 0, "", "", 0.0)

    def values(self) -> dict[str, str]:
        """The variables that Packer got."""
        build = next(argv for argv in self.calls if argv[1] == "build")
        return dict(word.removeprefix("-var=").split("=", 1) for word in build if word.startswith("-var="))


def build_with(
    monkeypatch: pytest.MonkeyPatch,
    folder: Path,
    version: str,
    accelerator: Accelerator = "tcg",
    fails: bool = False,
    **options: Any,
) -> FakeRun:
    fake = FakeRun(version)
    fake.fails = fails
    monkeypatch.setattr(packer, "run", fake)
    monkeypatch.setattr(packer, "locate", lambda _: Path("/usr/bin/packer"))
    scratch, logs = folder / "scratch", folder / "logs"
    scratch.mkdir()
    logs.mkdir()
    PackerBuild(folder / "base.qcow2", accelerator, {"image_roles": ["guest_base"]}, scratch, logs, **options).run()
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


def test_failure_names_the_task_and_what_it_said(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    with pytest.raises(BuildError) as caught:
        build_with(monkeypatch, tmp_path, "1.6.6", fails=True)
    for part in ("browser : Install the browser", "no such package", "E: the role broke"):
        assert part in caught.value.reason
    assert "no such package" in (tmp_path / "logs/failing-task.log").read_text()


def test_failed_machine_is_not_ended_by_packer_and_qemu_can_be_asked(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    fake = build_with(monkeypatch, tmp_path, "1.6.6")
    assert "-on-error=abort" in next(argv for argv in fake.calls if argv[1] == "build")
    assert "-qmp" in (tmp_path / "scratch/bin/qemu-system-x86_64").read_text()


def test_version_is_read_as_numbers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(packer, "run", FakeRun("1.10.0"))
    assert packer_version("packer") == (1, 10, 0)


def test_variables_are_those_the_template_declares(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    declared = (tree() / "packer/variables.pkr.hcl").read_text()
    for name in build_with(monkeypatch, tmp_path, "1.6.6").values():
        assert f'variable "{name}"' in declared


def seeds(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    """The user-data of the build VMs that follow."""
    seen: list[dict[str, Any]] = []
    monkeypatch.setattr(packer, "write_seed", lambda _, **content: seen.append(content["user_data"]))
    return seen


def test_image_of_ours_is_opened_for_the_build_and_keeps_nothing_of_it(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    seen = seeds(monkeypatch)
    build_with(monkeypatch, tmp_path, "1.6.6", from_image=True)
    [[shell, option, script]] = seen[0]["bootcmd"]
    assert (shell, option) == ("sh", "-ec")
    written = tmp_path / "etc", tmp_path / "run"
    written[0].mkdir()
    (written[0] / "screen.service").write_text("")
    (written[0] / "alias.service").symlink_to("/dev/null")
    there = script.replace("/etc/systemd/system", str(written[0])).replace("/run/systemd/system", str(written[1]))
    run(["sh", "-ec", there.replace("systemctl", "true")], timeout=30)
    files = {path.parent.name: path.read_text() for path in written[1].glob("*/deskyard-build.conf")}
    assert files.keys() == {"screen.service.d", "ssh.service.d"}
    assert "ConditionPathExists" in files["screen.service.d"]
    assert "PermitRootLogin=prohibit-password" in files["ssh.service.d"]


def test_base_disk_is_opened_by_nothing(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    seen = seeds(monkeypatch)
    fake = build_with(monkeypatch, tmp_path, "1.6.6")
    assert "bootcmd" not in seen[0]
    assert "ANSIBLE_ROLES_PATH" not in fake.env


def test_own_roles_are_found_before_those_of_the_tree(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    fake = build_with(monkeypatch, tmp_path, "1.6.6", own_roles=tmp_path / "roles")
    assert fake.env["ANSIBLE_ROLES_PATH"].split(":") == [str(tmp_path / "roles"), str(tree() / "ansible/roles")]


def test_image_of_ours_is_built_with_what_the_network_needs(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    seen = seeds(monkeypatch)
    certificate = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----"
    network = BuildNetwork(certificate, npm_registry="https://npm.example.com/")
    build_with(monkeypatch, tmp_path, "1.6.6", from_image=True, network=network)
    script = seen[0]["bootcmd"][0][2]
    assert f"{certificate}\n" in script
    started = next(line for line in script.splitlines() if "/usr/sbin/sshd" in line)
    assert "NPM_CONFIG_REGISTRY=https://npm.example.com/" in started and "SSL_CERT_FILE=/run/" in started
    run(["sh", "-n", "-c", script], timeout=30)


def test_image_of_ours_needs_nothing_of_a_plain_network(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    seen = seeds(monkeypatch)
    build_with(monkeypatch, tmp_path, "1.6.6", from_image=True)
    script = seen[0]["bootcmd"][0][2]
    assert "@OPTIONS@" not in script
    assert "SetEnv" not in script


@pytest.mark.parametrize("accelerator", ["tcg", "kvm"])
def test_emulated_builds_may_take_longer(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, accelerator: Accelerator
) -> None:
    fake = build_with(monkeypatch, tmp_path, "1.6.6", accelerator)
    assert fake.seconds == packer.BUILD_SECONDS[accelerator]
    assert packer.BUILD_SECONDS["tcg"] > packer.BUILD_SECONDS["kvm"]
