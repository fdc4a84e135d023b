"""Says whether the tree may be tagged as a release: version, changelog, schemas, lock, docs, nothing uncommitted."""

import re
import tempfile
import tomllib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from deskyard.errors import BuildError
from deskyard.host.command import run
from deskyard.lab import api_changes, docs_site, role_page
from deskyard.model import schema

VERSION = re.compile(r"\d+\.\d+\.\d+\Z")
RELEASE = re.compile(r"^## (?P<version>\d+\.\d+\.\d+) \((?P<day>\d{4}-\d{2}-\d{2})\)$", re.MULTILINE)
PINNED = re.compile(r"^(?P<name>[A-Za-z0-9._-]+)(?:\[[^\]]*\])?==(?P<version>[^\s;\\]+)", re.MULTILINE)
UPGRADE = "### Upgrade"


@dataclass(frozen=True)
class Finding:
    """A check: what is looked at, whether it is as it has to be, and what is wrong or was found."""

    check: str
    passed: bool
    detail: str


def examine(tree: Path) -> list[Finding]:
    """Run all checks of a tree; nothing is changed."""
    return [Finding(name, *check(tree)) for name, check in CHECKS.items()]


def declared_version(tree: Path) -> str:
    """The version in pyproject.toml."""
    return str(_project(tree)["version"])


def _project(tree: Path) -> dict[str, Any]:
    project: dict[str, Any] = tomllib.loads((tree / "pyproject.toml").read_text())["project"]
    return project


def _version(tree: Path) -> tuple[bool, str]:
    version = declared_version(tree)
    if not VERSION.match(version):
        return False, f"{version} in pyproject.toml is not MAJOR.MINOR.PATCH"
    tags = run(["git", "tag", "--list"], cwd=tree, timeout=30, check=False).stdout.split()
    return (False, f"v{version} is tagged already") if f"v{version}" in tags else (True, version)


def _changelog(tree: Path) -> tuple[bool, str]:
    text, version = (tree / "CHANGELOG.md").read_text(), declared_version(tree)
    sections = [(found["version"], found.start(), found.end()) for found in RELEASE.finditer(text)]
    if not sections or sections[0][0] != version:
        newest = sections[0][0] if sections else "none"
        return False, f"its newest release is {newest}: head the changes of this one with ## {version} (YYYY-MM-DD)"
    if re.search(r"^- ", text[: sections[0][1]], re.MULTILINE):
        return False, f"there are changes above {version}: put them below its heading"
    own = text[sections[0][2] : sections[1][1] if len(sections) > 1 else None]
    if UPGRADE not in own:
        return False, f"{version} has no section {UPGRADE}: say what those who come from before have to do"
    return True, version


def _lock(tree: Path) -> tuple[bool, str]:
    lock = tree / "requirements.lock"
    found = PINNED.finditer(lock.read_text() if lock.is_file() else "")
    pinned: dict[str, str] = {canonicalize_name(match["name"]): match["version"] for match in found}
    project = _project(tree)
    extras = project["optional-dependencies"].values()
    wanted = map(Requirement, [*project["dependencies"], *(requirement for group in extras for requirement in group)])
    wrong = [str(requirement) for requirement in wanted if not _fits(requirement, pinned)]
    if wrong:
        return False, f"does not fit {', '.join(wrong)}: run ./inv check.lock"
    return True, f"{len(pinned)} packages"


def _fits(wanted: Requirement, pinned: dict[str, str]) -> bool:
    found = pinned.get(canonicalize_name(wanted.name))
    return found is not None and wanted.specifier.contains(found, prereleases=True)


def _schemas(tree: Path) -> tuple[bool, str]:
    stale = [path.name for path in schema.differing(tree / "schemas")]
    return (False, f"{', '.join(stale)}: run ./inv check.schemas --write") if stale else (True, "follow from the model")


def _role_pages(tree: Path) -> tuple[bool, str]:
    stale = [path.parent.name for path in role_page.differing(tree)]
    return (False, f"{', '.join(stale)}: run ./inv check.roles --write") if stale else (True, "follow from the roles")


def _api(tree: Path) -> tuple[bool, str]:
    if wrong := api_changes.taken_away(api_changes.promised(tree), api_changes.document()):
        return False, f"takes away what was promised: {wrong[0]}"
    if api_changes.promised(tree)["paths"] != api_changes.document()["paths"]:
        return False, "there are calls that are not promised yet: run ./inv check.api --write"
    return True, "as promised"


def _docs(tree: Path) -> tuple[bool, str]:
    with tempfile.TemporaryDirectory(prefix="deskyard-release.") as name:
        try:
            first = docs_site.build(tree, Path(name) / "site")
        except BuildError as error:
            return False, f"{error.reason.splitlines()[0]}: run ./inv docs.build"
        return True, f"{sum(1 for _ in first.parent.rglob('*.html'))} pages, every link leads somewhere"


def _commit(tree: Path) -> tuple[bool, str]:
    open_ = run(["git", "status", "--porcelain"], cwd=tree, timeout=60).stdout.splitlines()
    head = run(["git", "rev-parse", "--short=12", "HEAD"], cwd=tree, timeout=30).stdout.strip()
    return (False, f"{len(open_)} files are not committed, {open_[0][3:]} among them") if open_ else (True, head)


CHECKS: dict[str, Callable[[Path], tuple[bool, str]]] = {
    "version": _version,
    "changelog": _changelog,
    "lock": _lock,
    "schemas": _schemas,
    "role pages": _role_pages,
    "api": _api,
    "docs": _docs,
    "commit": _commit,
}
