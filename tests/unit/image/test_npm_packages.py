"""Packages of npm that roles pin are installed once, natively, and handed to the build as archives."""

import re
import shlex
import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from deskyard.errors import CommandError
from deskyard.host.places import places
from deskyard.host.places import tree as real_tree
from deskyard.host.progress import Timings
from deskyard.image.build import npm_packages
from deskyard.image.build.network import BuildNetwork
from deskyard.plan.image.image import base_image, read_image

ROLES = ("editor", "agent_openclaw")
CERTIFICATE = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----"


@dataclass
class Chroots:
    """The chroots that were asked for; each leaves the archive that it would, unless it `fails`."""

    fails: bool = False
    packages: list[Sequence[str]] = field(default_factory=list)
    scripts: list[str] = field(default_factory=list)
    hooks: list[str] = field(default_factory=list)

    def __call__(
        self, _: object, packages: Sequence[str], archive: Path, *, hooks: Sequence[str], past: Sequence[str]
    ) -> None:
        assert (archive, past) == (Path("-"), [])
        if self.fails:
            raise CommandError("mmdebstrap", 1, "", "no space left")
        self.packages.append(packages)
        self.hooks += hooks
        script = next(Path(found[1]) for hook in hooks if (found := re.search(r"< (\S+)$", hook)))
        self.scripts.append(script.read_text())
        Path(shlex.split(hooks[-1])[-1]).write_text("packed")


@pytest.fixture
def chroots(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Chroots:
    """A tree of its own, in which images may be written, without network."""
    tree, made = tmp_path / "tree", Chroots()
    shutil.copytree(real_tree() / "images", tree / "images")
    shutil.copytree(real_tree() / "ansible/roles", tree / "ansible/roles")
    (tree / "deskyard").symlink_to(real_tree() / "deskyard")
    monkeypatch.setenv("DESKYARD_HOME", str(tmp_path / "home"))
    monkeypatch.setattr(npm_packages, "tree", lambda: tree)
    monkeypatch.setattr(npm_packages, "install_packages", made)
    monkeypatch.setattr(npm_packages, "find_program", lambda name: f"/usr/bin/{name}")
    monkeypatch.setattr(npm_packages, "is_reachable", lambda url: False)
    monkeypatch.setattr(npm_packages, "fetch", lambda url, path, **_: path.write_text(url))
    monkeypatch.setattr(npm_packages, "build_network", BuildNetwork)
    return made


@pytest.fixture
def archives(tmp_path: Path, chroots: Chroots) -> Callable[[], dict[str, str]]:
    """What the build of the image `agent` is told."""
    tree = tmp_path / "tree"
    return lambda: npm_packages.archives(read_image(tree, "agent"), base_image(tree, "agent").base, Timings())


def test_each_role_that_pins_packages_gets_its_archive_and_it_is_made_once(
    archives: Callable[[], dict[str, str]], chroots: Chroots
) -> None:
    output = archives()
    assert set(output) == {f"{role}_archive" for role in ROLES}
    assert [Path(path).read_text() for path in output.values()] == ["packed", "packed"]
    compiling, plain = chroots.packages
    assert "g++" in compiling
    assert "g++" not in plain
    assert archives() == output
    assert len(chroots.packages) == len(ROLES)


def test_a_changed_pin_is_another_archive_of_that_role_alone(
    tmp_path: Path, archives: Callable[[], dict[str, str]]
) -> None:
    before = archives()
    lock = tmp_path / "tree/ansible/roles/editor/files/package-lock.json"
    lock.write_text(lock.read_text().replace("4.139.1", "4.139.2"))
    after = archives()
    assert before["editor_archive"] != after["editor_archive"]
    assert before["agent_openclaw_archive"] == after["agent_openclaw_archive"]


@pytest.mark.parametrize("part", ["node_version: 24.21.0", "node_source: auto"])
def test_another_node_is_another_archive(tmp_path: Path, archives: Callable[[], dict[str, str]], part: str) -> None:
    before = archives()
    defaults = tmp_path / "tree/ansible/roles/node/defaults/main.yml"
    changed = {"node_version: 24.21.0": "node_version: 24.22.0", "node_source: auto": "node_source: npm"}[part]
    assert part in defaults.read_text()
    defaults.write_text(defaults.read_text().replace(part, changed))
    assert not set(before.values()) & set(archives().values())


def test_another_editor_has_nothing_of_npm(tmp_path: Path, archives: Callable[[], dict[str, str]]) -> None:
    image = tmp_path / "tree/images/agent/image.yaml"
    image.write_text(image.read_text() + "variables:\n  editor_kind: vscode\n")
    assert set(archives()) == {"agent_openclaw_archive"}


def test_where_no_chroot_can_be_made_the_build_installs_them_itself(
    tmp_path: Path, archives: Callable[[], dict[str, str]], chroots: Chroots, monkeypatch: pytest.MonkeyPatch
) -> None:
    desktop = tmp_path / "tree/images/desktop/image.yaml"
    text = desktop.read_text()
    ubuntu = text[: text.index("artifacts:")].replace("debian-13", "ubuntu-24.04").replace("  - browser\n", "")
    desktop.write_text(ubuntu)
    assert archives() == {}
    desktop.write_text(text)
    monkeypatch.setattr(npm_packages, "find_program", lambda _: None)
    assert archives() == {}
    assert chroots.packages == []


def test_a_failure_leaves_nothing_and_the_next_build_begins_anew(
    archives: Callable[[], dict[str, str]], chroots: Chroots
) -> None:
    chroots.fails = True
    with pytest.raises(CommandError):
        archives()
    assert [path for path in (places().cache / "npm").rglob("*") if not path.is_dir()] == []
    chroots.fails = False
    assert len(archives()) == len(ROLES)
    assert list((places().cache / "npm").rglob(".new-*")) == []


def test_packages_run_their_programs_without_root_and_without_what_the_builder_has_in_its_environment(
    archives: Callable[[], dict[str, str]], chroots: Chroots
) -> None:
    archives()
    for script in chroots.scripts:
        command = script.replace("\\\n", " ").splitlines()
        install = next(line for line in command if "./install.sh" in line)
        assert install.startswith("env -i ")
        assert install.index("setpriv --reuid=1000") < install.index("./install.sh")
        assert "--no-new-privs" in install


def test_a_mirror_on_this_machine_and_its_authorities_are_used_here_too(
    archives: Callable[[], dict[str, str]], chroots: Chroots, monkeypatch: pytest.MonkeyPatch
) -> None:
    network = BuildNetwork(CERTIFICATE, "http://10.0.2.2:4873/")
    monkeypatch.setattr(npm_packages, "build_network", lambda: network)
    fetched: list[str] = []

    def fetch(url: str, path: Path, **_: str) -> None:
        fetched.append(url)
        path.write_text(url)

    monkeypatch.setattr(npm_packages, "fetch", fetch)
    archives()
    assert fetched
    assert all(url.startswith("http://127.0.0.1:4873/") for url in fetched)
    assert all("NPM_CONFIG_REGISTRY=http://127.0.0.1:4873/" in script for script in chroots.scripts)
    assert "BEGIN CERTIFICATE" not in "".join(chroots.hooks)
