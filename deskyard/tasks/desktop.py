"""desktop.*: its power, and what its owner gives to it."""

from json import dumps
from typing import Any

from invoke import Collection, Context, Exit

from deskyard.tasks.front import Changes, Unnoted, command, confirm, secret, show
from deskyard.tasks.life.idle import idle
from deskyard.tasks.life.pool import release, run

TARGET = "WORKSPACE/DESKTOP"
WAIT = "wait until its routes answer (--no-wait: do not)"
FORCE = "pull the plug: what programs have not written to disk is lost"


@command(changes=Changes("desktop.start", "target"), help={"target": TARGET, "wait": WAIT, "json": "print JSON"})
def start(_: Context, target: str, wait: bool = True, json: bool = False) -> None:
    """Start a desktop, and wait until its routes answer."""
    from deskyard.life import power

    done = power.start(target, wait=wait)
    show(done, as_json=json, text=power.text(done))


@command(changes=Changes("desktop.stop", "target"), help={"target": TARGET, "force": FORCE, "json": "print JSON"})
def stop(_: Context, target: str, force: bool = False, json: bool = False) -> None:
    """Shut a desktop down and keep it off, over restarts of its host and `workspace.up`; its disk stays."""
    from deskyard.life import power

    done = power.stop(target, force=force)
    show(done, as_json=json, text=power.text(done))


@command(
    changes=Changes("desktop.restart", "target"),
    help={"target": TARGET, "force": FORCE, "wait": WAIT, "json": "print JSON"},
)
def restart(_: Context, target: str, force: bool = False, wait: bool = True, json: bool = False) -> None:
    """Shut a desktop down and start it again, with the size that it is declared to have."""
    from deskyard.life import power

    done = power.restart(target, force=force, wait=wait)
    show(done, as_json=json, text=power.text(done))


@command(
    changes=Changes("desktop.pause", "target"),
    help={
        "target": TARGET,
        "to_disk": "write its memory to disk, which frees it on the host",
        "json": "print JSON",
    },
)
def pause(_: Context, target: str, to_disk: bool = False, json: bool = False) -> None:
    """Halt a desktop as it is, with all that runs in it."""
    from deskyard.life import power

    done = power.pause(target, to_disk=to_disk)
    show(done, as_json=json, text=power.text(done))


@command(changes=Changes("desktop.resume", "target"), help={"target": TARGET, "wait": WAIT, "json": "print JSON"})
def resume(_: Context, target: str, wait: bool = True, json: bool = False) -> None:
    """Let a paused desktop go on, with its clock set right."""
    from deskyard.life import power

    done = power.start(target, wait=wait)
    show(done, as_json=json, text=power.text(done))


@command(
    changes=Unnoted.LOOKS,
    help={
        "target": TARGET,
        "for_": "the state: ready (all its routes answer), provisioning, booting, stopping, stopped, paused, error, "
        "io-error",
        "timeout": "at most so long: 90s, 5m (default: as long as a desktop may need to boot)",
        "json": "print a JSON object for each state, on a line of its own",
    },
)
def wait(_: Context, target: str, for_: str = "ready", timeout: str = "", json: bool = False) -> None:
    """Wait until a desktop is in a state, and say each on the way; exit code 1 if it is not in time, or breaks."""
    from deskyard.access import access
    from deskyard.life import events as desktop_events

    for event in desktop_events.wait(target, for_, access.seconds(timeout) if timeout else None):
        _say_event(event, as_json=json)


@command(
    changes=Unnoted.LOOKS,
    help={
        "workspace": "name of the workspace",
        "follow": "go on with every change, until Ctrl-C",
        "json": "print JSON, with --follow an object on each line",
    },
)
def events(_: Context, workspace: str, follow: bool = False, json: bool = False) -> None:
    """Say how far each desktop of a workspace is, and with --follow each change in the moment that it comes."""
    from deskyard.life import events as desktop_events
    from deskyard.life.stage_news import StageNews

    if not follow:
        found = desktop_events.now(workspace)
        text = "\n".join(map(desktop_events.line, found))
        show(
            {"workspace": workspace, "events": [desktop_events.plain(event) for event in found]},
            as_json=json,
            text=text,
        )
        return
    with StageNews(workspace) as news:
        for event in desktop_events.follow(workspace):
            news.note(event)
            _say_event(event, as_json=json)


def _say_event(event: Any, *, as_json: bool) -> None:
    from deskyard.life import events as desktop_events

    print(dumps(desktop_events.plain(event)) if as_json else desktop_events.line(event), flush=True)


@command(changes=Unnoted.LOOKS, help={"target": TARGET, "json": "print JSON"})
def health(_: Context, target: str, json: bool = False) -> None:
    """Look whether a desktop is well: power, routes, disk, memory, units, clock; exit code 1 if something failed."""
    from deskyard.life import health as desktop_health
    from deskyard.life import power

    found = desktop_health.look(*power.names(target))
    show(found, as_json=json, text=desktop_health.text(found))
    if found["state"] == "failed":
        raise Exit(code=1)


@command(changes=Changes("desktop.freeze", "target"), help={"target": TARGET, "json": "print JSON"})
def freeze(_: Context, target: str, json: bool = False) -> None:
    """Halt all that the agent runs on a desktop, at once; a person still sees the screen and types."""
    from deskyard.life import freeze as agent_freeze

    done = agent_freeze.freeze(target)
    show(done, as_json=json, text=f"{target}: the agent is {'frozen' if done['frozen'] else 'NOT frozen'}")
    if not done["frozen"]:
        raise Exit(code=1)


@command(changes=Changes("desktop.thaw", "target"), help={"target": TARGET, "json": "print JSON"})
def thaw(_: Context, target: str, json: bool = False) -> None:
    """Let the agent of a desktop go on where it was halted."""
    from deskyard.life import freeze as agent_freeze

    done = agent_freeze.thaw(target)
    show(done, as_json=json, text=f"{target}: the agent {'is still frozen' if done['frozen'] else 'goes on'}")
    if done["frozen"]:
        raise Exit(code=1)


DRY = "say what would be done; touches nothing but notes in /home/.deskyard"
WATCH = "seconds for which it has to stay as well as before, or its system of before comes back; 0: one look"
PACKAGES = "install the packages again that its owner had installed"
EXCHANGE = {
    "target": TARGET,
    "packages": PACKAGES,
    "watch": WATCH,
    "dry_run": DRY,
    "yes": "do not ask",
    "json": "print JSON",
}


@command(changes=Changes("desktop.upgrade", "target"), help=EXCHANGE)
def upgrade(
    _: Context,
    target: str,
    packages: bool = False,
    watch: int = 60,
    dry_run: bool = False,
    yes: bool = False,
    json: bool = False,
) -> None:
    """Give a desktop a system of its image as built now; /home, machine-id, host key and address stay.

    What its owner changed elsewhere on the system disk goes; that disk is kept until the next upgrade, and comes back
    by itself if the desktop is not as well as before.
    """
    how = {"packages": packages, "watch": watch, "dry_run": dry_run}
    _exchange("desktop.upgrade", target, how, yes=yes, json=json)


@command(changes=Changes("desktop.reinstall", "target"), help=EXCHANGE)
def reinstall(
    _: Context,
    target: str,
    packages: bool = False,
    watch: int = 60,
    dry_run: bool = False,
    yes: bool = False,
    json: bool = False,
) -> None:
    """Give a desktop a fresh system of its image, even of the same one; all else as desktop.upgrade."""
    how = {"again": True, "packages": packages, "watch": watch, "dry_run": dry_run}
    _exchange("desktop.reinstall", target, how, yes=yes, json=json)


def _exchange(task: str, target: str, how: dict[str, Any], *, yes: bool, json: bool) -> None:
    from deskyard.life import power, system

    if not yes and not how["dry_run"]:
        loses = "what was changed outside of /home goes with its system disk, which is kept until the next upgrade"
        question = f"{target} gets another system disk: {loses}. Type the desktop's name to go on: "
        confirm(task, target, target.partition("/")[2], question, f"add --yes: ./inv {task} {target} --yes")
    done = system.upgrade(target, **how)
    same = done["before"] == done["after"] and not how.get("again")
    text = f"{done['after']} already" if same else f"{done['before']} -> {done['after']}"
    if how["dry_run"] and not same:
        text += f"  (not done; its owner had installed: {' '.join(done['packages']) or 'nothing'}"
        text += f"; kept of /etc: {' '.join(done['kept']) or 'nothing'})"
    show(done, as_json=json, text=f"{power.text(done)}  {text}")


@command(
    changes=Changes("desktop.roll-back", "target"),
    name="roll-back",
    help={"target": TARGET, "yes": "do not ask", "json": "print JSON"},
)
def roll_back(_: Context, target: str, yes: bool = False, json: bool = False) -> None:
    """Give a desktop the system back that it had before its last upgrade; WHAT CHANGED ON THE SYSTEM SINCE IS LOST."""
    from deskyard.life import power, system

    if not yes:
        question = f"{target} gets its system of before; what changed outside of /home since is lost. Type its name: "
        remedy = f"add --yes: ./inv desktop.roll-back {target} --yes"
        confirm("desktop.roll-back", target, target.partition("/")[2], question, remedy)
    done = system.roll_back(target)
    show(done, as_json=json, text=f"{power.text(done)}  {done['before']} -> {done['after']}")


@command(changes=Unnoted.LOOKS, name="system", help={"target": TARGET, "json": "print JSON"})
def system_(_: Context, target: str, json: bool = False) -> None:
    """Say which image a desktop's system started from, and whether the system of before is kept."""
    from deskyard.life import system

    found = system.kept(target)
    extra = ["the one of before is kept"] if found["kept"] else []
    extra += ["an upgrade broke off: run it again"] if found["broken_off"] else []
    show(found, as_json=json, text="  ".join([f"{target}  {found['image']}", *extra]))


@command(
    changes=Changes("desktop.migrate-home", "target"),
    name="migrate-home",
    help={
        "target": TARGET,
        "backup": "make a backup first, and verify it (--no-backup: do not)",
        "dry_run": "say what would be done; touch nothing",
        "json": "print JSON",
    },
)
def migrate_home(_: Context, target: str, backup: bool = True, dry_run: bool = False, json: bool = False) -> None:
    """Take /home of a desktop that was made without a volume for it to its volume; restarts it, loses nothing."""
    from deskyard.life import system

    done = system.migrate_home(target, backup=backup, dry_run=dry_run)
    lines = [f"{target}: /home is {done['home']}", *(f"  {line}" for line in done.get("notice", []))]
    show(done, as_json=json, text="\n".join(lines))


@command(
    changes=Changes("desktop.set-key", "workspace", ("key",)),
    name="set-key",
    help={
        "workspace": "name of the workspace",
        "key": "name of the key: anthropic, openai, openrouter, any DNS label",
        "json": "print JSON",
    },
)
def set_key(_: Context, workspace: str, key: str, json: bool = False) -> None:
    """Encrypt a key, read from standard input, into the stack file; `workspace.up` brings it to its desktops."""
    from deskyard.desktop import keys as owner_keys

    done = owner_keys.set_key(workspace, key, secret(f"Value of {key}: "))
    named = ", ".join(done["desktops"])
    hint = f"./inv workspace.up {workspace} brings it to {named}" if named else "no desktop names it yet"
    show(done, as_json=json, text=f"{key}  {done['fingerprint']}\n{hint}")


@command(changes=Unnoted.LOOKS, help={"target": "WORKSPACE/DESKTOP", "json": "print JSON"})
def keys(_: Context, target: str, json: bool = False) -> None:
    """List a desktop's keys by name and fingerprint, and whether it has them; never a value."""
    from deskyard.desktop import keys as owner_keys

    found = owner_keys.listing(target)
    show(found, as_json=json, text=_text(found))


@command(
    changes=Changes("desktop.customise", "target"),
    help={
        "target": "WORKSPACE, or WORKSPACE/DESKTOP",
        "dry_run": "say per file what would be done; touches nothing",
        "again": "run first-boot once more",
        "overwrite": "put files over what was changed on the desktop, and keep that beside as FILE.deskyard-kept",
        "json": "print JSON",
    },
)
def customise(
    _: Context, target: str, dry_run: bool = False, again: bool = False, overwrite: bool = False, json: bool = False
) -> None:
    """Bring desktops their owner's files, environment and scripts, without reinstalling; keeps what they changed."""
    from deskyard.desktop import customise as owner_customise
    from deskyard.desktop.customise_delivery import How

    found = owner_customise.customise(target, How(dry_run, again, overwrite))
    show(found, as_json=json, text=_customised(found))


def _customised(found: dict[str, Any]) -> str:
    lines = []
    for report in found["desktops"]:
        lines.append(f"{report['desktop']}  {report['unchanged']} unchanged")
        for file in report["files"]:
            why = f"  ({file['reason']})" if file["reason"] else ""
            lines.append(f"  {file['state']:>11}  {file['path']}{why}")
        if report["environment"] != "unchanged":
            lines.append(f"  {report['environment']:>11}  the environment")
        lines += [f"  {script['state']:>11}  {script['script']} of the {script['of']}" for script in report["scripts"]]
    return "\n".join(lines) or "nothing customises a desktop"


def _text(found: dict[str, Any]) -> str:
    lines = [f"{row['name']}  {row['variable']}  {row['fingerprint'] or '-'}  {row['state']}" for row in found["keys"]]
    if not found["guarded"]:
        lines.append(f"{found['file']} has another owner or mode than it must have")
    if not found["in_step"]:
        lines.append(f"./inv workspace.up {found['workspace']} mends it")
    return "\n".join(lines) or "no keys"


ns = Collection("desktop")
for task in (
    *(start, stop, restart, pause, resume, wait, events, health, freeze, thaw),
    *(upgrade, reinstall, roll_back, system_, migrate_home),
    *(set_key, keys, customise),
    *(run, release, idle),
):
    ns.add_task(task)
