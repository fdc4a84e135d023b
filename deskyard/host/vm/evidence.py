"""Evidence that a failed build leaves for whoever looks into it: the failing task, consoles, screens, logs."""

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from deskyard.errors import SiteError
from deskyard.host.progress import say
from deskyard.host.vm.qemu import Machine

FAILING_TASK, CONSOLE, SCREEN, LOG = "failing-task.log", "console.log", "screen.png", "packer.log"
TEST_CONSOLE, TEST_SCREEN, TEST_QEMU = "test-console.log", "test-screen.png", "test-qemu.log"
# What is named in the error, the most telling first.
KINDS = {
    FAILING_TASK: "failing task",
    "tests-booted.log": "tests of the booted image",
    "test-journal.log": "journal",
    SCREEN: "screen",
    TEST_SCREEN: "screen",
    CONSOLE: "console",
    TEST_CONSOLE: "console of the test",
    LOG: "log",
    TEST_QEMU: "QEMU",
}
PREFIX = re.compile(r"^(?:==>|   ) [\w.-]+: ?")
TASK = re.compile(r"(?:TASK|RUNNING HANDLER) \[(?P<name>.*?)\]")
FAILURE = re.compile(r"(?:fatal|failed): \[")
RESULT = re.compile(r"(?:fatal|failed): \[.*?=> (?P<result>\{.*\})\s*$")
SPOKEN = ("msg", "stderr", "stdout", "module_stderr")
TAIL_LINES = 8


@dataclass(frozen=True)
class FailingTask:
    """The last task of Ansible that failed: its name, all that it printed, and the gist of it."""

    name: str
    output: str
    gist: str


def failing_task(lines: Sequence[str]) -> FailingTask | None:
    """The task that ended a build, from Packer's log; nothing if no task failed."""
    plain = [PREFIX.sub("", line) for line in lines]
    failures = [number for number, line in enumerate(plain) if FAILURE.match(line)]
    if not failures:
        return None
    starts = [number for number in range(failures[-1]) if TASK.search(plain[number])]
    start = starts[-1] if starts else failures[-1]
    ends = [number for number in range(failures[-1], len(plain)) if not plain[number].strip()]
    named = TASK.search(plain[start])
    output = plain[start : ends[0] if ends else len(plain)]
    return FailingTask(named["name"] if named else "unknown", "\n".join(output), _gist(plain[failures[-1]]))


def _gist(line: str) -> str:
    """The gist of a result for people; the whole line if it is not as Ansible prints results."""
    found = RESULT.match(line)
    try:
        result = json.loads(found["result"]) if found else None
    except ValueError:
        result = None
    if not isinstance(result, dict):
        return line
    texts = [str(result[key]).strip() for key in SPOKEN if str(result.get(key, "")).strip()]
    return "\n".join("\n".join(text.splitlines()[-TAIL_LINES:]) for text in texts) or line


def save_screen(machine: Machine, destination: Path) -> None:
    """Keep what the machine's screen shows, if it still runs; a failure is said and hides no other."""
    if machine.pid() is None:
        return
    try:
        machine.screenshot(destination)
    except SiteError as error:
        say(f"    {error.reason}")


def listing(logs: Path) -> str:
    """List what was kept in the log folder of a build, a line each."""
    kept = [(what, logs / name) for name, what in KINDS.items() if (logs / name).is_file()]
    lines = [f"  {what}: {path}" for what, path in kept if path.stat().st_size > 0]
    return "\n".join(lines) or f"  logs: {logs}"
