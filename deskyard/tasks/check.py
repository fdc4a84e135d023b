"""Tasks that check the tree: linters, schemas, tests."""

import os
import random
import signal
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import asdict

from invoke import Collection, Context, Exit

from deskyard.errors import ConfigError
from deskyard.host.places import tree
from deskyard.host.progress import say, step
from deskyard.tasks.front import Unnoted, command, show

# The exit code of pytest where no test was chosen.
NO_TESTS = 5


def pytest(*arguments: str) -> None:
    """Run pytest in this process's environment; a failure ends the task with pytest's exit code."""
    code = subprocess.run([sys.executable, "-m", "pytest", *arguments], cwd=tree(), check=False).returncode
    if code:
        raise Exit(code=code)


def pytest_beside(shown: Sequence[str], other: Sequence[str]) -> None:
    """Run pytest twice at the same time; what the other run says comes when the first is over.

    A failure of either ends the task with its exit code; that one of them finds no test (5) is none.
    """
    argv = [sys.executable, "-m", "pytest"]
    with tempfile.TemporaryFile() as said:
        beside = subprocess.Popen([*argv, *other], cwd=tree(), stdin=subprocess.DEVNULL, stdout=said, stderr=said)
        try:
            codes = [subprocess.run([*argv, *shown], cwd=tree(), check=False).returncode, beside.wait()]
        finally:
            if beside.poll() is None:
                beside.send_signal(signal.SIGINT)
                beside.wait()
            said.seek(0)
            sys.stdout.write(said.read().decode(errors="replace"))
            sys.stdout.flush()
    found = [code for code in codes if code != NO_TESTS]
    if any(found) or not found:
        raise Exit(code=next((code for code in found if code), NO_TESTS))


@command(changes=Unnoted.TREE)
def lint(_: Context) -> None:
    """Run the linters and contract tests alone."""
    pytest("tests/contract")


@command(changes=Unnoted.TREE, help={"write": "write the schemas that differ instead of refusing"})
def schemas(_: Context, write: bool = False) -> None:
    """Compare the committed JSON Schemas with the model."""
    from deskyard.model import schema

    folder = tree() / "schemas"
    if write:
        for path in schema.write(folder):
            print(f"written: {path.relative_to(tree())}")
        return
    for path in schema.differing(folder):
        raise ConfigError("schema", path.name, "differs from the model", "run ./inv check.schemas --write")
    print("schemas are up to date")


@command(changes=Unnoted.TREE, help={"write": "write the pages that differ instead of refusing"})
def roles(_: Context, write: bool = False) -> None:
    """Compare each role's README.md with its argument_specs."""
    from deskyard.lab import role_page

    if write:
        for path in role_page.write(tree()):
            print(f"written: {path.relative_to(tree())}")
        return
    role_page.require(tree())
    print("role pages are up to date")


@command(changes=Unnoted.TREE, help={"write": "promise what was added, and write what a desktop answers, too"})
def api(_: Context, write: bool = False) -> None:
    """Compare the APIs with their documents: Mission Control's keeps what was promised, a desktop's is as it says."""
    from deskyard.lab import api_changes, desktop_api

    if write:
        for place, written in ((api_changes.PROMISED, api_changes.write), (desktop_api.PLACE, desktop_api.write)):
            if written(tree()):
                print(f"written: {place}")
    api_changes.require(tree())
    desktop_api.require(tree())
    print("nothing that was promised is taken away, and a desktop answers as its document says")


@command(changes=Unnoted.TREE)
def lock(_: Context) -> None:
    """Write requirements.lock anew from pyproject.toml: pinned, with hashes, without index addresses."""
    uv = [sys.executable, "-m", "uv"] if not (path := tree() / ".venv/bin/uv").exists() else [str(path)]
    options = ["--universal", "--all-extras", "--generate-hashes", "--no-header", "--no-annotate"]
    argv = [*uv, "pip", "compile", "pyproject.toml", *options, "--python-version", "3.11", "-o", "requirements.lock"]
    subprocess.run(argv, cwd=tree(), check=True, stdout=subprocess.DEVNULL)


def _deep_tests() -> None:
    pytest("-m", "deep", "tests")


@command(
    changes=Unnoted.TREE,
    help={
        "role": "only this role",
        "scenario": "only the scenarios of this name: default or alternative",
        "json": "print JSON",
    },
)
def molecule(_: Context, role: str = "", scenario: str = "", json: bool = False) -> None:
    """Run roles on real systemd hosts: converge, idempotence, check mode, tests, nothing left behind."""
    from deskyard.lab.molecule import chosen, require

    wanted = chosen(role, scenario)
    require()
    _molecule(wanted, as_json=json)


def _molecule(wanted: Sequence[tuple[str, str]], *, as_json: bool = False) -> None:
    from deskyard.lab.molecule import run_scenario, table

    outcomes = []
    for role, scenario in wanted:
        with step(f"{role}/{scenario}"):
            outcomes.append(run_scenario(role, scenario))
            if not outcomes[-1].passed:
                say(f"{outcomes[-1].reason}\nlog: {outcomes[-1].log}")
    show([asdict(outcome) for outcome in outcomes], as_json=as_json, text=table(outcomes))
    if not all(outcome.passed for outcome in outcomes):
        raise Exit(code=1)


@command(
    changes=Unnoted.TREE,
    help={
        "sample": "only so many mutants, chosen by the seed (default: all)",
        "seconds": "begin no further mutant after so long",
        "only": "only mutants whose text holds this",
        "new": "only mutants that no recorded run has killed or explained: what a change of the rules brought",
        "seed": "what the order starts from (default: a new number)",
        "jobs": "how many mutants at a time",
        "record": "write verdicts to this file as they are found; a later run with it goes on from there",
    },
)
def mutation(
    _: Context,
    sample: int = 0,
    seconds: int = 0,
    only: str = "",
    new: bool = False,
    seed: str = "",
    jobs: int = 2,
    record: str = "",
) -> None:
    """Take every rule of the gateway away, one at a time: some test must notice."""
    bounds = (f"--sample={sample}", f"--seconds={seconds}", f"--only={only}", *([f"--seed={seed}"] if seed else []))
    bounds += ("--new",) if new else ()
    _mutation(*bounds, f"--jobs={jobs}", f"--record={record}")


def _mutation(*arguments: str) -> None:
    code = subprocess.run([sys.executable, "-m", "tests.mutation", *arguments], cwd=tree(), check=False).returncode
    if code:
        raise Exit(code=code)


def _deep_molecule() -> None:
    from deskyard.lab.molecule import chosen, require, why_not

    if os.environ.get("CI"):
        require()  # a suite that vanishes in green guards nothing
    elif reason := why_not():
        say(f"    left out: {reason}")
        return
    _molecule(chosen())


# What takes longer than CI allows, in the order in which it is run.
DEEP = {"tests": _deep_tests, "molecule": _deep_molecule, "mutation": _mutation}


@command(
    changes=Unnoted.TREE,
    help={"seed": "what random samples start from (default: a new number)", "part": f"only: {', '.join(DEEP)}"},
)
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
ns.add_task(api)
ns.add_task(schemas)
ns.add_task(roles)
ns.add_task(lock)
ns.add_task(molecule)
ns.add_task(mutation)
