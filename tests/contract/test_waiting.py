"""Nothing sleeps to wait where it could be told: every sleep of the tree is known, with its reason."""

import ast
from pathlib import Path

import pytest

from tests.support.sources import parsed

TREE = Path(__file__).resolve().parents[2]
# The bounded wait of all tasks.
DEADLINE = "deskyard/host/deadline.py"
SLEEPERS = {"time", "asyncio"}

# Where something is asked again after a pause, or paced: nobody who could push is there.
REASONS = {
    # In a desktop.
    "deskyard/computer/accessibility/bus.py": "a session's bus that is about to come tells nobody, as it is no bus yet",
    "deskyard/computer/display/acting/read_back.py": "a browser says of no key when its page has taken it",
    "deskyard/computer/display/windows.py": "a window about to be shown is asked for: no line here hears events",
    "deskyard/computer/work/telling.py": "changes of a moment are told together, so that they are few",
    # Tasks and what they stand on.
    "deskyard/access/access.py": "a gateway answers what is new in its audit, and pushes nothing to a task",
    "deskyard/desktop/program.py": "an SSH server that is about to start tells nobody; bounded by a Deadline",
    "deskyard/host/vm/guest_boot.py": "the same, in a throw-away machine; bounded by a Deadline",
    "deskyard/image/check/first_frame.py": "part of a program that looks at a screen, bounded by who runs it",
    "deskyard/isolation/probing.py": "time for packets that must not arrive: there is no event of what does not happen",
    "deskyard/lab/computer/viewers.py": "the time over which viewers look, in a bench",
    "deskyard/lab/nspawn.py": "a cgroup is gone when the kernel lets it go; bounded by a Deadline",
    "deskyard/site/libvirt/agent.py": "a guest agent answers what is asked, and pushes nothing; bounded by a Deadline",
    "deskyard/site/libvirt/daemon.py": "the hypervisor that would push is about to start; bounded by a Deadline",
    "deskyard/site/libvirt/forward.py": "a program that is about to listen tells nobody; bounded by a Deadline",
    "deskyard/site/libvirt/power.py": "a default for who has nobody that listens; handed to a Deadline",
    "deskyard/site/libvirt/warm/making.py": "a guest without a network is asked by its agent; bounded by a Deadline",
    "deskyard/site/proxmox/agent.py": "the API passes on what a guest agent answers; bounded by a Deadline",
    "deskyard/site/proxmox/client.py": "the API of a cluster pushes nothing; its clients hand this to bounded waits",
    "deskyard/site/proxmox/life/power.py": "a default that is handed to a bounded wait",
    "deskyard/workspace/workspace.py": "another try after what passes: the same moment would find the same lock",
    # Mission Control's processes.
    "deskyard/control/asked/tally.py": "another try of a database that went away",
    "deskyard/control/web/feed.py": "another try of a database that went away, and a rest between what many are told",
    # What runs inside machines, where no task waits for it.
    "deskyard/gateway/actions/ledger.py": "lets lines of a log come that share one wait for the disk; in a gateway",
    "deskyard/gateway/egress/refusals.py": "a log that HAProxy writes; in a gateway",
    "deskyard/gateway/egress/router.py": "workers of HAProxy are told by asking its master; in a gateway",
    "deskyard/gateway/egress/traffic.py": "counters of HAProxy push nothing; in a gateway",
    "deskyard/gateway/service.py": "the sweep of sessions, by the clock; in a gateway",
    "deskyard/gateway/session/proxy.py": "workers of HAProxy are told by asking its master; in a gateway",
    "deskyard/gateway/view/link.py": "another try, and reports by the clock; in a gateway",
    "deskyard/gateway/view/lookouts.py": "a desktop that starts tells nobody which of its routes answer; in a gateway",
    "deskyard/gateway/view/view.py": "lets others run, for no time; in a gateway",
    "deskyard/guest/probe.py": "the pace of packets, in a desktop",
    "deskyard/guest/root_file.py": "a lock with a bound, in a desktop",
    "deskyard/guest/script.py": "output with a bound, in a desktop",
    "deskyard/guest/thaw.py": "the watchdog that thaws by the clock, in a desktop",
}


def sleeps(text: str) -> bool:
    """Whether a module names a sleep, called or handed on; in what it is itself, or in a program that it holds."""
    return any(_is_sleep(node) for node in ast.walk(parsed(text)))


def _is_sleep(node: ast.AST) -> bool:
    match node:
        case ast.Attribute(value=ast.Name(id=module), attr="sleep"):
            return module in SLEEPERS
        case ast.ImportFrom(module=str(module), names=names):
            return module in SLEEPERS and any(name.name == "sleep" for name in names)
        case ast.Constant(value=str(program)):
            return "time.sleep(" in program
    return False


def test_every_sleep_has_its_reason() -> None:
    modules = {str(path.relative_to(TREE)): path.read_text() for path in (TREE / "deskyard").rglob("*.py")}
    found = {name for name, text in modules.items() if name != DEADLINE and sleeps(text)}
    assert sorted(found - REASONS.keys()) == [], "wait for an event, or by deskyard.host.deadline"
    assert sorted(REASONS.keys() - found) == [], "these sleep no more: take them out"


@pytest.mark.parametrize("room", ["tasks", "life", "plan", "model", "engine"])
def test_no_task_sleeps_itself(room: str) -> None:
    assert [path for path in (TREE / "deskyard" / room).rglob("*.py") if sleeps(path.read_text())] == []


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("import time\ntime.sleep(1)", True),
        ("import time\ndef wait(pause=time.sleep): pass", True),
        ("from time import sleep", True),
        ("import asyncio\nasync def go(): await asyncio.sleep(1)", True),
        ("PROGRAM = 'import time; time.sleep(1)'", True),
        ("import time\ntime.monotonic()", False),
        ("self.client.sleep(2)", False),
    ],
)
def test_sleep_in_any_shape_is_seen(text: str, found: bool) -> None:
    assert sleeps(text) is found
