"""The service's program stands alone: the image carries what it imports of Deskyard, and no other part of it."""

import ast
import os
import subprocess
import sys
from pathlib import Path

import yaml

from deskyard.image.build import program
from deskyard.lab.changed_tests import imported
from tests.support.sources import parsed

TREE = Path(__file__).resolve().parents[3]
ALLOWED = {"deskyard.errors", "deskyard.wire", "deskyard.computer"}
# Its libraries by the names under which they are imported; Debian's packages of them are what the role installs.
PACKAGES = {
    "PIL": "python3-pil",
    "isal": "python3-isal",
    "jeepney": "python3-jeepney",
    "starlette": "python3-starlette",
    "uvicorn": "python3-uvicorn",
    "websockets": "python3-websockets",
    "xcffib": "python3-xcffib",
}


def modules() -> dict[str, ast.Module]:
    found = sorted((TREE / "deskyard/computer").rglob("*.py"))
    return {str(path.relative_to(TREE)): parsed(path) for path in found}


def test_program_starts_with_nothing_but_what_is_carried(tmp_path: Path) -> None:
    program.lay_out("computer", tmp_path)
    env = {**os.environ, "PYTHONPATH": str(tmp_path)}
    argv = [sys.executable, "-P", "-m", "deskyard.computer", "--help"]
    done = subprocess.run(argv, cwd="/", env=env, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    assert "--port" in done.stdout


def test_no_module_imports_more_of_deskyard_than_a_desktop_has() -> None:
    others = {
        (path, name)
        for path, module in modules().items()
        for name in imported(module)
        if name.startswith("deskyard.") and ".".join(name.split(".")[:2]) not in ALLOWED
    }
    assert others == set()


def test_every_library_that_it_imports_is_installed_by_its_role() -> None:
    tops = {name.split(".")[0] for module in modules().values() for name in imported(module)}
    foreign = tops - set(sys.stdlib_module_names) - {"deskyard"}
    wanted = yaml.safe_load((TREE / "ansible/roles/computer_use/defaults/main.yml").read_text())[
        "computer_use_packages"
    ]
    # Starlette takes forms by itself.
    by_others = {"python3-python-multipart"}
    assert {PACKAGES[name] for name in foreign} | by_others == set(wanted)


def test_what_is_carried_is_what_the_digest_follows() -> None:
    sources = yaml.safe_load((TREE / "images/desktop/image.yaml").read_text())["sources"]
    assert {f"deskyard/{name}" for name in program.PROGRAMS["computer"]} == set(sources)
