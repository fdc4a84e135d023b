"""A role's argument_specs, defaults and tasks tell the same story."""

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from deskyard.lab.tree import gateway_roles, scenarios, without_scenarios

TREE = Path(__file__).resolve().parents[2]
ROLES = sorted(path.parent.parent for path in TREE.glob("ansible/roles/*/tasks/main.yml"))


def read(path: Path) -> Any:
    return yaml.safe_load(path.read_text()) if path.exists() else {}


def defaults(role: Path) -> dict[str, Any]:
    return read(role / "defaults/main.yml") or {}


def options(role: Path) -> dict[str, Any]:
    specs = read(role / "meta/argument_specs.yml")
    return specs["argument_specs"]["main"].get("options", {}) if specs else {}


def parts(role: Path) -> dict[str, Any]:
    """The specifications of tasks that other roles include, by the name of their file."""
    specs = read(role / "meta/argument_specs.yml")["argument_specs"]
    return {name: spec for name, spec in specs.items() if name != "main"}


def test_there_are_roles() -> None:
    assert len(ROLES) >= 8


def test_every_role_that_a_host_can_have_has_its_scenarios_and_its_suite() -> None:
    assert gateway_roles()
    assert without_scenarios() == []
    for role, scenario in scenarios():
        folder = TREE / "ansible/molecule" / role / scenario
        written = read(folder / "molecule.yml")
        suite = TREE / "tests/infra" / role
        assert list(suite.glob("test_*.py"))
        if "verifier" not in written:
            assert written["platforms"][0]["roles"][-1] == role
            continue
        verifier = written["verifier"]
        assert (folder / verifier["directory"]).resolve() == suite
        assert (suite / verifier["additional_files_or_dirs"][0]).resolve().is_file()


def test_tools_of_developers_are_no_packages_that_the_desktop_has() -> None:
    def packages(role: str) -> set[str]:
        return set(defaults(TREE / "ansible/roles" / role).get(f"{role}_packages", []))

    desktop = read(TREE / "images/desktop/image.yaml")["roles"]
    assert not packages("developer_tools") & {package for role in desktop for package in packages(role)}


@pytest.mark.parametrize("role", ROLES, ids=lambda role: role.name)
class TestRole:
    def test_every_default_is_specified_with_the_same_value(self, role: Path) -> None:
        specified = {name: rule.get("default") for name, rule in options(role).items() if not rule.get("required")}
        assert specified == defaults(role)

    def test_a_required_option_has_no_default(self, role: Path) -> None:
        required = {name for name, rule in options(role).items() if rule.get("required")}
        assert not required & set(defaults(role))

    def test_variables_carry_the_roles_name(self, role: Path) -> None:
        wrong = [name for name in defaults(role) if not name.startswith(f"{role.name}_")]
        assert wrong == []

    def test_every_default_is_used(self, role: Path) -> None:
        # The list of packages is also read by the base disk's bootstrap.
        used = "".join(
            path.read_text()
            for part in ("tasks", "handlers", "templates", "vars")
            for path in (role / part).glob("**/*")
            if path.is_file()
        )
        assert [name for name in defaults(role) if name not in used] == []

    def test_tasks_for_other_roles_use_what_they_specify_and_only_that(self, role: Path) -> None:
        for name, spec in parts(role).items():
            text = (role / "tasks" / f"{name}.yml").read_text()
            assert set(re.findall(rf"\b{role.name}_{name}_\w+", text)) == set(spec["options"])
            assert not [option for option in spec["options"].values() if "default" in option]

    def test_the_specification_says_what_the_role_is(self, role: Path) -> None:
        assert read(role / "meta/argument_specs.yml")["argument_specs"]["main"]["short_description"]
