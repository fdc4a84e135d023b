"""The two commands of the README: see it, and see it tested."""

from __future__ import annotations

from dataclasses import asdict
from datetime import datetime
from typing import TYPE_CHECKING

from invoke import Collection, Context

from deskyard.host.places import tree
from deskyard.host.progress import Timings, say
from deskyard.tasks.check import pytest, pytest_beside
from deskyard.tasks.front import Changes, Unnoted, command, show

if TYPE_CHECKING:
    from deskyard.control.demo import Demo

YES = "install missing system packages without asking (done by ./inv itself)"
# The suites in tests/infra run inside guests: `image.build` and the end-to-end tests start them there.
# The tests of each folder share machines: a process for each, and while the machines of one boot, the other tests.
VM_TESTS = ("tests/e2e", "tests/provider")
IN_PARALLEL = ("-n", "auto", "--dist", "worksteal")
ON_MACHINES = ("-m", "vm and not deep")
SLOWEST = ("--durations=25", "--durations-min=10")


@command(
    changes=Changes("demo"),
    help={"yes": YES, "plain": "the desktop alone, without Mission Control", "json": "print JSON"},
)
def demo(_: Context, yes: bool = False, plain: bool = False, json: bool = False) -> None:
    """From a fresh clone to a desktop and Mission Control in your browser; run again, it grants a new link."""
    from deskyard.control.demo import run_demo

    outcome = run_demo(plain)
    show(asdict(outcome), as_json=json, text=_story(outcome))


@command(
    changes=Unnoted.TREE,
    help={
        "fast": "leave out what needs a virtual machine",
        "yes": YES,
        "match": "run only tests that match this pytest expression",
        "changed": "only the tests that your changes reach, without virtual machines and linters (./inv check.lint)",
        "since": "with --changed: the commit to compare with (default: HEAD)",
    },
)
def test(
    _: Context, fast: bool = False, yes: bool = False, match: str = "", changed: bool = False, since: str = ""
) -> None:
    """Run everything CI runs: linters, unit and contract tests, images, two workspaces end to end."""
    if changed or since:
        _test_changed(since or "HEAD", match)
        return
    from deskyard.host.toolchain import TEST_TOOLS, TOOLS
    from deskyard.workspace.demo import build_images, equip

    chosen = ["-k", match] if match else []
    timings = Timings()
    equip(timings, (*TOOLS, *TEST_TOOLS))
    pytest(*IN_PARALLEL, *SLOWEST, *chosen)
    if fast:
        return
    build_images(timings)
    say("==> tests on virtual machines")
    pytest_beside(*([*ON_MACHINES, folder, *SLOWEST, *chosen] for folder in VM_TESTS))


def _test_changed(since: str, match: str) -> None:
    from deskyard.lab.changed_tests import changed_files, reached

    files = changed_files(tree(), since)
    tests = reached(tree(), files)
    say(f"==> {len(files)} changed files reach {'all tests' if tests is None else f'{len(tests)} files of tests'}")
    if files:
        pytest(*IN_PARALLEL, *SLOWEST, *(["-k", match] if match else []), *(tests or []))


def _story(outcome: Demo) -> str:
    from deskyard.workspace.demo import NAME

    expires = datetime.fromtimestamp(outcome.ticket_expires)
    steps = "\n".join(f"  {name:18} {seconds:7.1f} s" for name, seconds in outcome.seconds.items())
    return f"""
Your desktop (the link works once, until {expires:%H:%M}):

  {outcome.link}
{_mission_control(outcome)}
The browser will ask whether it trusts them: import {outcome.certificate_authority}
as an authority to make it sure, or compare the certificate's issuer.

What took how long:
{steps}

Next:
  ./inv workspace.status {NAME}          how it is
  ./inv access.grant {outcome.target}       another link
  ./inv access.list {NAME}               who has a session
  ./inv workspace.destroy {NAME} --no-backup
                                       undo all of this; without the option, once it is backed up{_undo(outcome)}"""


def _mission_control(outcome: Demo) -> str:
    """The story's part on Mission Control; empty where it was not wanted."""
    if outcome.problem:
        return f"\nMission Control is not there: {outcome.problem['reason']}; {outcome.problem['remedy']}\n"
    if outcome.mission_control is None:
        return ""
    link = outcome.mission_control["link"]
    how = (
        "enrol your passkey (once, within half an hour), and see that desktop" if link else "sign in with your passkey"
    )
    return f"\nMission Control: {how}:\n\n  {link or outcome.mission_control['url']}\n"


def _undo(outcome: Demo) -> str:
    return "\n  ./inv control.down                    and of Mission Control" if outcome.mission_control else ""


def add_to(collection: Collection) -> None:
    """Put the two commands at the root: ./inv demo, ./inv test."""
    collection.add_task(demo)
    collection.add_task(test)
