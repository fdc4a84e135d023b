"""Finds the tests that a change reaches: by the imports of the tree's modules, those within functions too."""

import ast
from collections.abc import Collection, Iterable, Iterator, Mapping
from pathlib import Path

from deskyard.errors import ConfigError
from deskyard.host.command import run

PACKAGES = ("deskyard", "stacks", "tests", "tasks.py")
# What is read and not imported: beginning of a path -> the module, or the tests, that stand for it.
READ_BY = {
    "deskyard/gateway/config/templates/": "deskyard/gateway/config/render.py",
    "ansible/": "deskyard/plan/image/inputs.py",
    "images/": "deskyard/plan/image/inputs.py",
    "packer/": "deskyard/image/build/packer.py",
    "schemas/": "deskyard/model/schema.py",
    "sdk/deskyard_sdk/": "tests/unit/sdk/test_sdk.py",
    "sdk/deskyard_mcp/": "tests/unit/sdk/test_mcp.py",
    "sdk/deskyard_e2b/": "tests/unit/sdk/test_e2b.py",
    "tests/support/acp_agent.py": "tests/unit/agent/test_program.py",
    "tests/support/e2b_js/": "tests/support/npm.py",
    "sdk/mission.json": "tests/contract/test_api_changes.py",
    "tests/control/spectral/": "tests/control/test_document.py",
    "viewer/": "tests/gateway/test_viewer.py",
    "docs/": "tests/contract/test_documents.py",
    "README.md": "tests/contract/test_documents.py",
    "SPECIFICATION.md": "tests/contract/test_documents.py",
    "CONTRIBUTING.md": "tests/contract/test_documents.py",
    "tests/mutation/": "tests/mutation/test_sample.py",
}
# What every test stands on.
EVERYTHING = ("requirements.lock", "pyproject.toml", "host/", "inv", "tests/conftest.py")
# Small, and they look at the whole tree.
ALWAYS = ("tests/contract/test_tree.py", "tests/contract/test_rooms.py")


def changed_files(tree: Path, since: str) -> list[str]:
    """Files that differ from a commit, with those that git does not know yet and those that are gone.

    Raises `ConfigError` if there is no such commit.
    """
    if run(["git", "rev-parse", "--verify", "--quiet", f"{since}^{{commit}}"], cwd=tree, timeout=30, check=False).code:
        raise ConfigError("since", since, "is no commit of this clone", "name a branch, a tag or a commit: HEAD, main")
    differing = run(["git", "diff", "--name-only", "-z", since], cwd=tree, timeout=60).stdout
    fresh = run(["git", "ls-files", "--others", "--exclude-standard", "-z"], cwd=tree, timeout=60).stdout
    return sorted({name for name in f"{differing}\0{fresh}".split("\0") if name})


def reached(tree: Path, changed: Collection[str]) -> list[str] | None:
    """The test files that the changed files reach, sorted; None if that is all of them."""
    if any(name.startswith(EVERYTHING) for name in changed):
        return None
    users = _users(_imports(tree, changed))
    found, waiting = set(), [*changed, *(by for name in changed for by in _readers(name))]
    while waiting:
        name = waiting.pop()
        if name not in found:
            found.add(name)
            waiting += users.get(name, ())
    tests = {name for name in found if Path(name).name.startswith("test_") and name.startswith("tests/")}
    return sorted(name for name in {*tests, *ALWAYS} if (tree / name).is_file())


def _readers(name: str) -> Iterator[str]:
    yield from (reader for start, reader in READ_BY.items() if name.startswith(start))


def _imports(tree: Path, gone: Collection[str]) -> dict[str, set[str]]:
    """Each file of the tree's packages -> the files that it stands on, those that are gone among them."""
    files = {str(path.relative_to(tree)) for package in PACKAGES for path in _modules(tree / package)}
    names = files.union(gone)
    return {name: _stands_on(name, ast.parse((tree / name).read_text()), names) for name in files}


def _modules(package: Path) -> Iterable[Path]:
    return [package] if package.is_file() else package.rglob("*.py")


def imported(module: ast.Module) -> set[str]:
    """List the imports of a module, those within functions too; a name that it takes may be a module itself."""
    found: set[str] = set()
    for node in ast.walk(module):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            found |= {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
    return found


def _stands_on(name: str, module: ast.Module, files: Collection[str]) -> set[str]:
    stems = [dotted.replace(".", "/") for dotted in imported(module)]
    paths = {f"{stem}{end}" for stem in stems for end in (".py", "/__init__.py")}
    # pytest imports the fixtures of every folder above a test.
    fixtures = {str(folder / "conftest.py") for folder in Path(name).parents if name.startswith("tests/")}
    return ((paths | fixtures) & set(files)) - {name}


def _users(imports: Mapping[str, set[str]]) -> dict[str, set[str]]:
    users: dict[str, set[str]] = {}
    for name, wanted in imports.items():
        for used in wanted:
            users.setdefault(used, set()).add(name)
    return users
