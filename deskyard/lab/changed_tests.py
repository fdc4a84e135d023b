"""Finds the tests that a change reaches: by what the tree's modules import, start as programs and name as files.

An import within a function counts too. A text that is the name of a module or the path of a file stands for it, so that
a test which starts `-m deskyard.gateway` is reached by all that this program imports.
"""

import ast
from collections.abc import Collection, Iterable, Iterator, Mapping
from pathlib import Path, PurePosixPath

from deskyard.errors import ConfigError
from deskyard.host.command import run

PACKAGES = ("deskyard", "stacks", "tests", "sdk", "examples", "tasks.py")
# Where modules are found by their dotted name.
ROOTS = ("", "sdk/")
LONGEST_NAME = 120
# These name files without reading them.
NAMES_ALONE = ("deskyard/lab/changed_tests.py", "tests/conftest.py", "tests/unit/lab/test_changed_tests.py")
# What is read and not imported: beginning of a path -> the module, or the tests, that stand for it.
READ_BY = {
    "ansible/": "deskyard/plan/image/inputs.py",
    "images/": "deskyard/plan/image/inputs.py",
    "packer/": "deskyard/image/build/packer.py",
    "schemas/": "deskyard/model/schema.py",
    "deskyard/control/store/env.py": "deskyard/control/store/migration.py",
    "deskyard/control/store/versions/": "deskyard/control/store/migration.py",
    "sdk/pyproject.toml": "tests/unit/sdk/test_sdk.py",
    "sdk/deskyard_sdk/": "tests/unit/sdk/test_sdk.py",
    "sdk/deskyard_mcp/": "tests/unit/sdk/test_mcp.py",
    "sdk/deskyard_e2b/": "tests/unit/sdk/test_e2b.py",
    "tests/support/acp_agent.py": "tests/unit/agent/test_program.py",
    "tests/support/e2b_js/": "tests/support/npm.py",
    "sdk/js/": "tests/unit/sdk/test_js.py",
    "sdk/mission.json": "tests/contract/test_api_changes.py",
    "sdk/README.md": "tests/contract/test_documents.py",
    "tests/control/spectral/": "tests/control/test_document.py",
    "viewer/": "tests/gateway/test_viewer.py",
    "web/": "tests/web/conftest.py",
    "examples/": "tests/contract/test_schemas.py",
    "examples/images/": "tests/contract/test_example_images.py",
    "examples/ci/": "tests/contract/test_pipelines.py",
    "stacks/provider/": "tests/unit/stacks/test_provider.py",
    "stacks/workspace/": "deskyard/engine/stack.py",
    "tools/": "deskyard/host/toolchain/__init__.py",
    "docs/": "tests/contract/test_documents.py",
    "README.md": "tests/contract/test_documents.py",
    "SPECIFICATION.md": "tests/contract/test_documents.py",
    "CONTRIBUTING.md": "tests/contract/test_documents.py",
    "CHANGELOG.md": "tests/contract/test_documents.py",
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
    # Of a file that was renamed, both names: tests may still want the old.
    differing = run(["git", "diff", "--name-only", "--no-renames", "-z", since], cwd=tree, timeout=60).stdout
    fresh = run(["git", "ls-files", "--others", "--exclude-standard", "-z"], cwd=tree, timeout=60).stdout
    return sorted({name for name in f"{differing}\0{fresh}".split("\0") if name})


def reached(tree: Path, changed: Collection[str]) -> list[str] | None:
    """The test files that the changed files reach, sorted; None if that is all of them."""
    if any(name.startswith(EVERYTHING) for name in changed):
        return None
    return follow(tree, changed, needed_by(tree, changed))


def follow(tree: Path, changed: Iterable[str], users: Mapping[str, Collection[str]]) -> list[str]:
    """The test files among what stands on the changed files, and those that look at the whole tree; sorted."""
    found: set[str] = set()
    waiting = list(changed)
    while waiting:
        name = waiting.pop()
        if name not in found:
            found.add(name)
            waiting += users.get(name, ())
            waiting += _readers(tree, name)
            waiting += [user for folder in PurePosixPath(name).parents for user in users.get(f"{folder}/", ())]
    tests = {name for name in found if Path(name).name.startswith("test_") and name.startswith("tests/")}
    return sorted(name for name in {*tests, *ALWAYS} if (tree / name).is_file())


def _readers(tree: Path, name: str) -> Iterator[str]:
    yield from (reader for start, reader in READ_BY.items() if name.startswith(start))
    if name.startswith(tuple(f"{package}/" for package in PACKAGES)) and not name.endswith(".py"):
        yield from _beside(tree, PurePosixPath(name))


def _beside(tree: Path, name: PurePosixPath) -> Iterator[str]:
    """The modules next to a file that is no module, or next to the nearest folder above it that has any."""
    for folder in list(name.parents)[:-1]:
        if modules := sorted((tree / folder).glob("*.py")):
            yield from (str(module.relative_to(tree)) for module in modules)
            return


def needed_by(tree: Path, gone: Collection[str]) -> dict[str, set[str]]:
    """Each file or folder (these end with /) of the tree -> the modules that stand on it.

    Modules that are `gone` are among the keys, as long as something still stands on them.
    """
    modules = {str(path.relative_to(tree)) for package in PACKAGES for path in _modules(tree / package)}
    names = modules.union(gone)
    users: dict[str, set[str]] = {}
    for name in modules:
        module = ast.parse((tree / name).read_text())
        wanted = _stands_on(name, module, names)
        if name not in NAMES_ALONE:
            wanted |= _named(tree, name, module, names)
        for used in wanted - {name}:
            users.setdefault(used, set()).add(name)
    return users


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


def _named(tree: Path, name: str, module: ast.Module, names: Collection[str]) -> set[str]:
    """The modules, files and folders (these end with /) of the tree whose names are texts of a module.

    A file's name alone stands for the file beside the module.
    """
    constants = (node.value for node in ast.walk(module) if isinstance(node, ast.Constant))
    texts = {text.rstrip("/") for text in constants if isinstance(text, str) and 0 < len(text) < LONGEST_NAME}
    found: set[str] = set()
    for text in texts:
        if "/" in text and not text.startswith(("/", ".")) and text.isprintable():
            path, names_tests = tree / text, text.startswith("tests/")  # to be run, and not read
            found |= {f"{text}/"} if path.is_dir() and not names_tests else set()
            found |= {text} if (path.is_file() or text in names) and not path.name.startswith("test_") else set()
        elif "." in text or "_" in text:
            beside = str(PurePosixPath(name).parent / text)
            found |= {beside} if text.isprintable() and (tree / beside).is_file() else set()
            stems = [f"{root}{text.replace('.', '/')}" for root in ROOTS]
            found |= {f"{stem}{end}" for stem in stems for end in (".py", "/__main__.py")}.intersection(names)
    return found
