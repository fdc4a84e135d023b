"""Does an operation in the worker's tests: what it does follows from the desktop's name.

Each begin and end is a line of the file `effects` in the folder of the environment variable LAB.
"""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

from deskyard.control.ground.confinement import die_with_parent
from deskyard.host.background import Background

LAB = Path(os.environ["LAB"])
# Holds a file alone for as long as it runs; says whether it was another's, and whether it hears SIGTERM by its name.
HOLDER = """
import fcntl, signal, sys
if "deaf" in sys.argv[1]:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
file = open(sys.argv[2], "w")
try:
    fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    print("alone", flush=True)
except BlockingIOError:
    print("beside", flush=True)
signal.pause()
"""


def effect(**values: Any) -> None:
    with (LAB / "effects").open("a") as file:
        file.write(json.dumps({**values, "pid": os.getpid()}) + "\n")


def tell(**values: Any) -> None:
    print(json.dumps(values), flush=True)


def leave(name: str) -> None:
    """Start what holds a file in a session of its own, and what is to go on when everything of this is ended."""
    argv = [sys.executable, "-c", HOLDER, name, str(LAB / "held")]
    # It keeps what this says open, as programs do that are not told otherwise.
    holder = subprocess.Popen(argv, stdout=subprocess.PIPE, text=True, start_new_session=True)
    assert holder.stdout is not None
    how = holder.stdout.readline().strip()
    left = Background("left", LAB)
    left.start(["sleep", "infinity"])
    for program, pid in ((how, holder.pid), ("left", left.pid())):
        with (LAB / "effects").open("a") as file:
            file.write(json.dumps({"event": program, "desktop": None, "pid": pid}) + "\n")


def end_in_order(desktop: str, name: str) -> None:
    """Wait as a real program does that is told to end by its worker's end: its engine has a step to finish then."""
    try:
        (LAB / "gates" / name).open().read()
    except KeyboardInterrupt:
        effect(event="stops", desktop=desktop)
        (LAB / "gates" / f"{name}-step").open().read()
        effect(event="stopped", desktop=desktop)
        raise


def refusal(wanted: dict[str, Any]) -> dict[str, str] | None:
    """The refusal of a host whose disk is full, or of one that makes last backups, where a test made it such."""
    kind, desktop = wanted["kind"], wanted["desktop"]
    if kind == "approval.decide" and (LAB / "unknown").exists():
        field = (LAB / "unknown").read_text() or "deciders"
        return {"field": field, "value": "", "reason": "is of before, by this gateway", "remedy": "wait"}
    if kind == "desktop.pause" and (LAB / "full").exists():
        return {"field": "storage", "value": "", "reason": "has no room for its memory", "remedy": "add space"}
    if kind == "desktop.destroy" and (LAB / "backups").exists():
        lines = [json.loads(line) for line in (LAB / "effects").read_text().splitlines()]
        moves = [line["kind"] for line in lines if line["event"] == "end" and line["desktop"] == desktop]
        if moves[-1] in ("desktop.pause", "desktop.stop"):
            reason = "cannot be made and verified, so nothing was touched: no backup holds its memory"
            return {"field": "last backup", "value": desktop, "reason": reason, "remedy": "./inv desktop.resume"}
    return None


def main() -> int:
    die_with_parent(signal.SIGKILL)
    line = sys.stdin.readline()
    if not line:
        # It was started ahead, and nobody wanted anything of it.
        return 0
    wanted = json.loads(line)
    name = str(wanted["desktop"] or wanted["workspace"]).rpartition(".")[2]
    effect(event="begin", kind=wanted["kind"], desktop=wanted["desktop"])
    if "proof" in wanted:
        effect(event="proof", desktop=None, proof=wanted["proof"], signatures=wanted.get("signatures"))
    if name.startswith("leaves"):
        leave(name)
    if name.startswith("orderly"):
        from deskyard.control.jobs.child import listen

        listen()
    print(f"{name} begins", file=sys.stderr, flush=True)
    if (problem := refusal(wanted)) is not None:
        tell(problem=problem)
        return 1
    if name.startswith("fails"):
        tell(problem={"field": "machine", "value": name, "reason": "did not start", "remedy": "look at it"})
        return 1
    if name.startswith("large") and not (LAB / "room").exists():
        tell(problem={"field": "memory", "value": "", "reason": "100 MiB are free", "remedy": "stop"}, lacks_room=True)
        return 1
    if name.startswith("room") and wanted["kind"] == "desktop.stop":
        (LAB / "room").touch()
    if name.startswith("crashes"):
        os.kill(os.getpid(), signal.SIGSEGV)
    if name.endswith("patient"):
        # As the engine does: it ends a step before it ends.
        signal.signal(signal.SIGTERM, lambda *_: effect(event="stops", desktop=wanted["desktop"]))
    if name.startswith("orderly"):
        end_in_order(wanted["desktop"], name)
    if name.startswith(("blocks", "leaves")):
        # Until somebody writes into it: nothing is asked again and again.
        (LAB / "gates" / name).open().read()
    if wanted["kind"] == "desktop.chat":
        # What stands below the first line is what the agent says of its tools and tokens before its text.
        text, _, script = wanted["input"]["text"].partition("\n")
        for said in json.loads(script or "[]"):
            tell(**said)
            if "question" in said:
                answer = json.loads(sys.stdin.readline())
                tell(heard=answer)
                tell(part=f"chosen: {answer['option']}. ")
        for part in ("I heard: ", text):
            tell(part=part)
        if "never ends" in text:
            signal.pause()
    effect(event="end", kind=wanted["kind"], desktop=wanted["desktop"])
    if wanted["kind"] == "desktop.session":
        tell(secret={"link": "https://lab.localhost/#ticket", "expiresAt": 1})
    elif wanted["kind"] == "workspace.look" and (LAB / "look").exists():
        # What a test lets it find.
        tell(result={"seen": wanted["input"], **json.loads((LAB / "look").read_text())})
    elif wanted["kind"] == "desktop.upgrade":
        tell(result={"seen": wanted["input"], "before": "desktop-old", "after": wanted["input"]["image"]})
    else:
        held = {"shut_out": True} if name.startswith("held") else {}
        tell(result={"seen": wanted["input"], "actor": wanted["actor"], **held})
    if name.startswith("tells"):
        effect(event="told", desktop=wanted["desktop"])
        (LAB / "gates" / name).open().read()
    return 0


if __name__ == "__main__":
    sys.exit(main())
