"""Tasks that check the tree: linters, schemas, tests."""

import os
import random
import subprocess
import sys

from invoke import Collection, Context, Exit

from deskyard.errors import ConfigError
from deskyard.model import schema
from deskyard.run.places import tree
from deskyard.run.progress import step
from deskyard.tasks.front import command


def pytest(*arguments: str) -> None:
    """Run pytest in this process's environment; a failure ends the task with pytest's exit code."""
    code = subprocess.run([sys.executable, "-m", "pytest", *arguments], cwd=tree(), check=False).returncode
    if code:
        raise Exit(code=code)


@command()
def lint(_: Context) -> None:
    """Run the linters and contract tests alone."""
    pytest("tests/contract")


@command(help={"write": "write the schemas that differ instead of refusing"})
def schemas(_: Context, write: bool = False) -> None:
    """Compare the committed JSON Schemas with the model."""
    folder = tree() / "schemas"
    if write:
        for path in schema.write(folder):
            print(f"written: {path.relative_to(tree())}")
        return
    for name, value in schema.schemas().items():
        path = folder / name
        if not path.exists() or path.read_text() != schema.text(value):
            raise ConfigError("schema", name, "differs from the model", "run ./inv check.schemas --write")
    print("schemas are up to date")


@command()
def lock(_: Context) -> None:
    """Write requirements.lock anew from pyproject.toml: pinned, with hashes, without index addresses."""
    uv = [sys.executable, "-m", "uv"] if not (path := tree() / ".venv/bin/uv").exists() else [str(path)]
    options = ["--universal", "--all-extras", "--generate-hashes", "--no-header", "--no-annotate"]
    argv = [*uv, "pip", "compile", "pyproject.toml", *options, "--python-version", "3.11", "-o", "requirements.lock"]
    subprocess.run(argv, cwd=tree(), check=True, stdout=subprocess.DEVNULL)


def _deep_tests() -> None:
    pytest("-m", "deep", "tests")


# What takes longer than CI allows, in the order in which it is run.
DEEP = {"tests": _deep_tests}


@command(help={"seed": "what random samples start from (default: a new number)", "part": f"only: {', '.join(DEEP)}"})
def deep(_: Context, seed: str = "", part: str = "") -> None:
    """Run what takes longer than CI allows; CI runs seeded samples of it."""
    if part and part not in DEEP:
        raise ConfigError("part", part, "is no part of the deep checks", f"choose one of: {', '.join(DEEP)}")
    if seed and not seed.isdecimal():
        raise ConfigError("seed", seed, "is no whole number", "leave it out, or give the one that a run printed")
    os.environ["DESKYARD_SEED"] = seed or str(random.SystemRandom().randrange(2**32))
    for name, check in DEEP.items():
        if part in ("", name):
            with step(f"{name}, seed {os.environ['DESKYARD_SEED']}"):
                check()


ns = Collection("check")
ns.add_task(deep)
ns.add_task(lint)
ns.add_task(schemas)
ns.add_task(lock)
