"""python -m deskyard.control.jobs.child: does one operation, read from standard input, as the same task would.

What it says goes to standard error line by line; on standard output stand objects, a line each: `{"part": TEXT}`,
`{"tool": ...}` and `{"usage": ...}` of an agent's answer, and at the end `{"result": ...}`, `{"secret": ...}` or
`{"problem": ...}`. To a `{"question": ...}` it waits for a line `{"id": ..., "option": ...}`, and says `{"heard": ...}`
when its agent has it.
"""

import contextlib
import importlib
import json
import signal
import sys
from collections.abc import Callable, Mapping
from typing import Any

from deskyard.control.founding.jobs import JOBS as FOUNDING
from deskyard.control.ground.confinement import die_with_parent
from deskyard.control.halting.job import job as halt
from deskyard.control.halting.kinds import KINDS as HALTING
from deskyard.control.machines import removal
from deskyard.control.machines.jobs import JOBS as MACHINES
from deskyard.control.people.intent import DESTROY
from deskyard.control.queue.target import desktop_target
from deskyard.control.tasks.jobs import JOBS as TASKS
from deskyard.control.tasks.jobs import require_meant
from deskyard.control.upkeep.jobs import JOBS as UPKEEP
from deskyard.errors import DeskyardError
from deskyard.plan.power import NoRoom

Job = Callable[[Mapping[str, Any]], dict[str, Any] | None]
CHAT_SECONDS = 6 * 3600
# Imported before it is known what is wanted, which takes a second of a processor: what people wait for.
AHEAD = ("deskyard.access.access", "deskyard.access.egress", "deskyard.life.idle.idle", "deskyard.life.power")


def main() -> int:
    """Do it; the exit code says whether it went well."""
    listen()
    for name in AHEAD:
        importlib.import_module(name)
    line = sys.stdin.readline()
    if not line:
        # Nobody wants anything of it any more.
        return 0
    wanted = json.loads(line)
    try:
        done = JOBS[wanted["kind"]](wanted)
    except DeskyardError as error:
        # The worker lets it wait for room.
        tell(problem=error.as_dict(), lacks_room=isinstance(error, NoRoom))
        return 1
    tell(**(done or {"result": {}}))
    return 0


def listen() -> None:
    """Have SIGTERM, and the end of the worker, interrupt this program."""
    die_with_parent(signal.SIGTERM)
    signal.signal(signal.SIGTERM, _interrupt)


def tell(**values: Any) -> None:
    """Write an object down for the worker."""
    print(json.dumps(values, default=str), flush=True)


def _interrupt(_number: int, _frame: object) -> None:
    # Told once: it is told again when its worker ends, and by who goes on then, and a second interrupt would kill the
    # engine in the middle of a step. Not ignored, which what is started as it ends would be born with.
    signal.signal(signal.SIGTERM, lambda *_: None)
    raise KeyboardInterrupt


def _power(verb: str) -> Job:
    def job(wanted: Mapping[str, Any]) -> dict[str, Any]:
        from deskyard.life import power

        options = {"force": bool(wanted["input"].get("force"))} if verb != "start" else {}
        return {"result": getattr(power, verb)(desktop_target(wanted), **options)}

    return job


def _create(wanted: Mapping[str, Any]) -> dict[str, Any]:
    from deskyard.declaration import declaration
    from deskyard.declaration.desktop_list import declare, undeclare
    from deskyard.errors import ConfigError, HostError
    from deskyard.workspace import workspace

    name, entry = wanted["workspace"], wanted["input"]
    fields = {key: entry[key] for key in ("name", "tier", "image", "keys") if entry.get(key)}
    path = declaration.stack_file(name)
    added = declare(path, fields)
    try:
        state = workspace.up(name, on_route=_answers)
    except (ConfigError, HostError):
        # Refused before anything was touched: the declaration gets its line back out, which every other change of the
        # workspace would be refused for.
        if added and not _is_there(wanted):
            undeclare(path, fields["name"])
        raise
    return {"result": {"desktop": wanted["desktop"], "ready": state["ready"]}}


def _is_there(wanted: Mapping[str, Any]) -> bool:
    """Whether the machine of a desktop is there; not if none can be asked."""
    from deskyard.life import power

    try:
        power.opened(desktop_target(wanted))
    except DeskyardError:
        return False
    return True


def _destroy(wanted: Mapping[str, Any]) -> dict[str, Any]:
    from deskyard.declaration import declaration
    from deskyard.declaration.desktop_list import require_others
    from deskyard.life.backup import final

    name, desktop = wanted["workspace"], wanted["desktop"].partition(".")[2]
    path = declaration.stack_file(name)
    removal.resume(name, desktop)
    # Before a backup, which takes minutes.
    require_others(path, desktop)
    without = f"take it out of {path}, then ./inv workspace.up {name} --remove {desktop} --no-backup"
    going, alone = final.held(name)
    final.require_kept(name, {desktop}.intersection(alone), [], without)
    final.keep(name, sorted({desktop}.intersection(going)), without)
    removal.remove(name, desktop)
    return {"result": {"desktop": wanted["desktop"]}}


def _decide(wanted: Mapping[str, Any]) -> dict[str, Any]:
    from deskyard.access import egress
    from deskyard.access.gateway_program import TooOld
    from deskyard.control.approvals.target import REFUSE, SECONDS, proved, target
    from deskyard.errors import ConfigError

    given, name = wanted["input"], wanted["workspace"]
    answer, ticket = given["answer"], str(given["approval"]).rpartition(".")[2]
    verdict = "for" if answer in SECONDS else answer
    # What is known of tickets was written down by who asks gateways all day: nobody is to sign one and open another.
    real = next((found for found in egress.waiting(name) if found["id"] == ticket), None)
    named = {"id": given["approval"], "desktop_id": f"{name}.{real['desktop']}"} if real else {}
    if real is None or target({**real, **named}, answer) != wanted["target"]:
        remedy = f"see ./inv egress.ask {name}"
        raise ConfigError("approval", given["approval"], "is not what was signed, by its gateway's word", remedy)
    reason, decided = given.get("reason", ""), None
    # The gateway's chain has with the answer what proves it: neither can be changed without the other.
    actor = proved(wanted["actor"], wanted["proof"])
    # A refusal opens nothing: it counts also where a gateway could not say whose it is.
    if wanted["signatures"] and answer != REFUSE:
        if _is_in_force(real, actor):
            # Its worker ended before it could write that down: a signature counts once.
            decided = real
        else:
            with contextlib.suppress(TooOld):
                decided = egress.decide_signed(name, ticket, answer, wanted["signatures"], reason)
    if decided is None:
        decided = egress.decide(name, ticket, verdict, SECONDS.get(answer), reason, actor)
    return {"result": {"approval": given["approval"], "state": decided["state"]}}


def _is_in_force(ticket: Mapping[str, Any], actor: str) -> bool:
    """Whether this very answer opened a ticket, and nobody answered it otherwise since."""
    given = ticket["answer"] or {}
    return ticket["state"] in ("allowed", "used") and given.get("actor") == actor


def _session(wanted: Mapping[str, Any]) -> dict[str, Any]:
    from deskyard.access import access
    from deskyard.life.idle import idle

    require_meant(wanted)
    idle.wake(desktop_target(wanted))
    chosen = wanted["input"]
    scopes = ",".join(chosen["scopes"]) if chosen.get("scopes") else None
    mode = chosen.get("mode", "drive")
    granted = access.grant(desktop_target(wanted), mode=mode, scopes=scopes, actor=wanted["actor"])
    return {"secret": {"link": granted["url"], "expiresAt": granted["ticket_expires"]}}


def _chat(wanted: Mapping[str, Any]) -> dict[str, Any]:
    from deskyard.agent.task import Task, events
    from deskyard.control.jobs import said

    given = wanted["input"]
    said.require(wanted)
    require_meant(wanted)
    # Conversations of Mission Control have names of their own on the desktop.
    session = given["conversation"].replace("_", "-")
    task = Task.checked(desktop_target(wanted), given["text"], session, CHAT_SECONDS, given["message"])
    status = "failed"
    for event in events(task, _ask):
        match event["event"]:
            case "text":
                tell(part=event["text"])
            case "tool" | "usage" | "heard" as kind:
                tell(**{kind: {name: value for name, value in event.items() if name != "event"}})
            case "end":
                status = event["status"]
    return {"result": {"status": status}}


def _ask(question: dict[str, Any]) -> str | None:
    """The option that a person chose; None if the worker says that nobody did, or says nothing any more."""
    tell(question=question)
    while line := sys.stdin.readline():
        answer = json.loads(line)
        if answer["id"] == question["id"]:
            return answer["option"] and str(answer["option"])
    return None


def _workspace(verb: str) -> Job:
    def job(wanted: Mapping[str, Any]) -> dict[str, Any]:
        from deskyard.life import power
        from deskyard.workspace import workspace

        name = wanted["workspace"]
        if verb == "up":
            state = workspace.up(name, on_route=_answers)
            return {"result": {"ready": state["ready"]}}
        return {"result": power.start_workspace(name) if verb == "start" else power.stop_workspace(name)}

    return job


def _answers(desktop: str, route: str) -> None:
    from deskyard.host.progress import say

    say(f"    {desktop}: {route} answers")


JOBS: dict[str, Job] = {
    **{f"desktop.{verb}": _power(verb) for verb in ("start", "stop", "restart")},
    # A paused machine goes on by that, with its clock set right on the way.
    "desktop.resume": _power("start"),
    **dict.fromkeys(HALTING, halt),
    "desktop.create": _create,
    DESTROY: _destroy,
    "desktop.session": _session,
    "approval.decide": _decide,
    "desktop.chat": _chat,
    **{f"workspace.{verb}": _workspace(verb) for verb in ("up", "start", "stop")},
    **FOUNDING,
    **MACHINES,
    **UPKEEP,
    **TASKS,
}

if __name__ == "__main__":
    sys.exit(main())
