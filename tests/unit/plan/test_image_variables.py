"""What the roles of an image are told, and the choices that an image cannot have."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from deskyard.errors import ConfigError
from deskyard.host.places import tree as real_tree
from deskyard.plan.image.image import (
    BASES,
    base_image,
    bootstrap_packages,
    image_variables,
    kinds_of,
    read_image,
    role_packages,
    role_settings,
)
from deskyard.plan.image.variables import FIXED

FEW = ["guest_base", "vnc_server", "browser", "image_hygiene"]


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """The tree with images of a test's own."""
    for part in ("ansible", "deskyard", "packer", "tests"):
        (tmp_path / part).symlink_to(real_tree() / part)
    (tmp_path / "images").mkdir()
    (tmp_path / BASES).symlink_to(real_tree() / BASES)
    return tmp_path


def declare(tree: Path, name: str, **values: Any) -> None:
    folder = tree / "images" / name
    folder.mkdir(exist_ok=True)
    common = {"name": name, "version": "1.0.0", "description": "An image."}
    (folder / "image.yaml").write_text(yaml.safe_dump({**common, **values}))


def root(tree: Path, base: str | dict[str, Any] = "debian-13", **values: Any) -> None:
    start = {"name": base} if isinstance(base, str) else base
    declare(tree, "desktop", **{"disk_gib": 8, "base": start, "roles": FEW, **values})


def variables_for(tree: Path, name: str = "desktop") -> dict[str, Any]:
    return image_variables(read_image(tree, name), tree)


def test_image_of_debian_is_told_nothing_that_nobody_chose(tree: Path) -> None:
    root(tree)
    assert variables_for(tree) == {}
    assert image_variables(read_image(real_tree(), "desktop"), real_tree()) == {}
    assert image_variables(read_image(real_tree(), "gateway"), real_tree()) == {}


def test_image_tells_its_own_roles(tree: Path) -> None:
    root(tree, variables={"browser_kind": "chrome"})
    assert variables_for(tree) == {"browser_kind": "chrome"}


@pytest.mark.parametrize("base", ["ubuntu-22.04", "ubuntu-24.04"])
def test_ubuntu_has_chrome_and_masks_more(tree: Path, base: str) -> None:
    root(tree, base)
    variables = variables_for(tree)
    assert variables["browser_kind"] == "chrome"
    assert {"snapd.service", "apt-daily.timer"} <= set(variables["guest_base_masked_units"])
    assert "web_terminal_packages" not in variables, "the image has no such role"


def test_image_counts_more_than_its_base(tree: Path) -> None:
    root(tree, "ubuntu-24.04", variables={"guest_base_masked_units": ["apt-daily.timer"]})
    assert variables_for(tree)["guest_base_masked_units"] == ["apt-daily.timer"]


def test_roles_that_open_the_browser_are_told_which(tree: Path) -> None:
    root(tree, variables={"browser_kind": "chrome"})
    declare(tree, "mine", **{"from": "desktop", "roles": ["node", "editor"]})
    assert variables_for(tree, "mine") == {"editor_browser": "/usr/bin/google-chrome"}
    declare(tree, "mine", **{"from": "desktop", "roles": ["editor"], "variables": {"editor_browser": "/usr/bin/other"}})
    assert variables_for(tree, "mine") == {"editor_browser": "/usr/bin/other"}
    root(tree)
    declare(tree, "mine", **{"from": "desktop", "roles": ["editor"]})
    assert variables_for(tree, "mine") == {}


def test_choice_may_be_made_in_an_image_that_starts_from_another(tree: Path) -> None:
    root(tree)
    declare(tree, "mine", **{"from": "desktop", "roles": ["browser"], "variables": {"browser_kind": "chrome"}})
    assert variables_for(tree, "mine") == {"browser_kind": "chrome"}
    assert role_settings("browser", tree, "mine")["browser_kind"] == "chrome"
    assert role_settings("browser", tree, "desktop")["browser_kind"] == "chromium"
    assert role_settings("browser", tree)["browser_kind"] == "chromium"


@pytest.mark.parametrize("name", sorted(FIXED))
def test_what_all_else_relies_on_is_the_roles_default_and_no_image_changes_it(tree: Path, name: str) -> None:
    defaults = sorted((real_tree() / "ansible/roles").glob("*/defaults/main.yml"))
    role = next(path.parts[-3] for path in defaults if name in yaml.safe_load(path.read_text()))
    assert role_settings(role, real_tree())[name] == FIXED[name]
    root(tree, roles=list(dict.fromkeys([role, *FEW])), variables={name: FIXED[name]})
    read_image(tree, "desktop")
    other = 7000 if isinstance(FIXED[name], int) else "worker"
    root(tree, roles=list(dict.fromkeys([role, *FEW])), variables={name: other})
    with pytest.raises(ConfigError, match=f"(?s)variables.{name}.*{other}.*has to be {FIXED[name]}"):
        read_image(tree, "desktop")


@pytest.mark.parametrize(
    ("base", "variables", "reason"),
    [
        ("debian-13", {"browser_kind": "netscape"}, "(?s)no|not one of.*chromium, chrome"),
        ("debian-13", {"vnc_server_kind": "kasmvnc"}, "(?s)protocol of its own.*write one of: tigervnc"),
        ("debian-13", {"vnc_server_kind": "x11vnc"}, "(?s)not one of.*tigervnc"),
        ("debian-13", {"editor_kind": "vscode"}, "is a variable of none of the image's roles"),
        ("ubuntu-24.04", {"browser_kind": "chromium"}, "(?s)snap on Ubuntu.*write one of: chrome"),
        ("ubuntu-22.04", {"browser_kind": "chromium"}, "(?s)snap on Ubuntu.*write one of: chrome"),
    ],
)
def test_choice_that_cannot_be_is_refused(tree: Path, base: str, variables: dict[str, Any], reason: str) -> None:
    root(tree, base, variables=variables)
    with pytest.raises(ConfigError, match=reason):
        read_image(tree, "desktop")


def test_image_that_starts_from_another_cannot_have_them_either(tree: Path) -> None:
    root(tree, "ubuntu-24.04")
    for role, variables in (("browser", {"browser_kind": "chromium"}), ("vnc_server", {"vnc_server_kind": "kasmvnc"})):
        declare(tree, "mine", **{"from": "desktop", "roles": [role], "variables": variables})
        with pytest.raises(ConfigError, match="variables"):
            read_image(tree, "mine")


def test_base_without_a_choice_refuses_the_roles_own_default(tree: Path) -> None:
    refused = {"browser_kind": {"chromium": "is not there"}}
    vendor = {"url": "https://example.org/20260911/disk.img", "sha256": "1" * 64}
    root(tree, base={"distribution": "ubuntu-24.04", "vendor": vendor, "refused": refused})
    with pytest.raises(ConfigError, match="is not there"):
        read_image(tree, "desktop")


def test_unknown_base_is_refused_with_the_known_ones(tree: Path) -> None:
    root(tree, "debian-12")
    with pytest.raises(ConfigError, match=r"(?s)base.name.*debian-13, ubuntu-22.04, ubuntu-24.04"):
        read_image(tree, "desktop")


def test_named_base_is_not_written_over(tree: Path) -> None:
    root(tree, base={"name": "debian-13", "vendor": {}})
    with pytest.raises(ConfigError, match="is not a known key"):
        read_image(tree, "desktop")


def test_name_of_a_base_is_no_path(tree: Path) -> None:
    root(tree, "../desktop/image")
    with pytest.raises(ConfigError, match="base: name"):
        read_image(tree, "desktop")


def test_what_is_built_from_source_needs_a_base_that_is_bootstrapped(tree: Path) -> None:
    declared = yaml.safe_load((real_tree() / "images/desktop/image.yaml").read_text())
    root(tree, "ubuntu-24.04", artifacts=declared["artifacts"])
    with pytest.raises(ConfigError, match=r"(?s)artifacts.*ttyd.*leave source out"):
        read_image(tree, "desktop")
    declared["artifacts"][0].pop("source")
    root(tree, "ubuntu-24.04", artifacts=declared["artifacts"])
    assert base_image(tree, "desktop").artifacts


def test_bootstrapped_base_holds_the_packages_of_what_was_chosen(tree: Path) -> None:
    root(tree)
    assert {"chromium", "chromium-sandbox", "tigervnc-standalone-server", "websockify", "xfonts-base"} <= set(
        role_packages(base_image(tree, "desktop"), tree)
    )
    root(tree, variables={"browser_kind": "chrome"})
    chosen = role_packages(base_image(tree, "desktop"), tree)
    assert not {"chromium", "google-chrome-stable"} & set(chosen), "a vendor's package is not the distribution's"
    assert "fonts-liberation" in chosen


def test_base_of_the_desktop_holds_what_it_held() -> None:
    packages = bootstrap_packages(base_image(real_tree(), "desktop"), real_tree())
    assert {"linux-image-cloud-amd64", "chromium", "chromium-sandbox", "fonts-noto-color-emoji", "websockify"} <= set(
        packages
    )


def test_kinds_of_a_base_are_those_that_it_has(tree: Path) -> None:
    root(tree)
    debian = base_image(tree, "desktop").base
    assert kinds_of(debian, "auto") == ("vendor", "bootstrap")
    assert kinds_of(debian, "bootstrap") == ("bootstrap",)
    root(tree, "ubuntu-24.04")
    ubuntu = base_image(tree, "desktop").base
    assert kinds_of(ubuntu, "auto") == kinds_of(ubuntu, "vendor") == ("vendor",)
    with pytest.raises(ConfigError, match="cannot be bootstrapped"):
        kinds_of(ubuntu, "bootstrap")
