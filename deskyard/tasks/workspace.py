"""workspace.*: preview, up, status, verify, destroy."""

from typing import Any

from invoke import Collection, Context, Exit

from deskyard.host.progress import Timings, say
from deskyard.tasks.front import Changes, Unnoted, command, confirm, show


@command(changes=Unnoted.LOOKS, help={"name": "workspace: Pulumi.NAME.yaml in stacks/workspace", "json": "print JSON"})
def preview(_: Context, name: str, json: bool = False) -> None:
    """Show what `workspace.up` would change; touches nothing."""
    from deskyard.workspace import workspace

    planned = workspace.preview(name)
    lines = [f"{step['operation']:>12}  {step['type']}  {step['name']}" for step in planned["steps"]]
    show(planned, as_json=json, text="\n".join(lines) or "nothing to change")


@command(
    changes=Changes("workspace.up", "name", ("remove",)),
    help={
        "name": "workspace: Pulumi.NAME.yaml in stacks/workspace",
        "remove": "desktop to delete, disk and all, that is no longer declared (repeatable)",
        "backup": "make a last backup of each that is removed, and verify it (--no-backup: do not)",
        "warm": "make the templates first that new desktops would start from; without it those that are there are used",
        "json": "print JSON",
    },
    iterable=["remove"],
)
def up(
    _: Context,
    name: str,
    remove: list[str] | None = None,
    backup: bool = True,
    warm: bool = False,
    json: bool = False,
) -> None:
    """Bring a workspace to what is declared and wait until its desktops answer."""
    from deskyard.life.backup import final
    from deskyard.workspace import workspace

    going, alone = final.removed(name, remove or [])
    if going or alone:
        names = sorted([*going, *alone])
        without = f"./inv workspace.up {name} {' '.join(f'--remove {desktop}' for desktop in names)} --no-backup"
        if backup:
            final.require_kept(name, alone, [], without)
        for line in final.notice(name, names, without, backup=backup):
            say(f"    {line}")
        if backup:
            final.keep(name, names, without)
    timings = Timings()
    state = workspace.up(name, timings, remove or [], warm=warm)
    show({**state, "seconds": timings.steps}, as_json=json, text=_text(state))


@command(changes=Unnoted.LOOKS, help={"name": "workspace: Pulumi.NAME.yaml in stacks/workspace", "json": "print JSON"})
def environment(_: Context, name: str, json: bool = False) -> None:
    """Print what a shell needs for `pulumi` on a workspace: eval "$(./inv workspace.environment NAME)"."""
    from deskyard.workspace import shell

    variables = shell.environment(name)
    show(variables, as_json=json, text=shell.script(variables))


@command(
    changes=Unnoted.LOOKS,
    help={
        "name": "workspace: Pulumi.NAME.yaml in stacks/workspace",
        "drift": "look for what was changed by hand as well; exit code 1 if anything was",
        "json": "print JSON",
    },
)
def status(_: Context, name: str, drift: bool = False, json: bool = False) -> None:
    """Show the door, the machines and the routes of a workspace."""
    from deskyard.workspace import status as workspace_status

    state = workspace_status.status(name, drift=drift)
    show(state, as_json=json, text=_text(state))
    if state.get("drift"):
        raise Exit(code=1)


@command(
    changes=Unnoted.LOOKS,
    help={
        "name": "workspace: Pulumi.NAME.yaml in stacks/workspace",
        "against": "a second workspace that is up: neither may reach anything of the other",
        "json": "print JSON",
    },
)
def verify(_: Context, name: str, against: str = "", json: bool = False) -> None:
    """Prove the isolation of a running workspace from inside its machines; changes nothing, exit code 1 if it fails."""
    from deskyard.isolation import verification

    report = verification.verify(name, against or None)
    show(report, as_json=json, text=verification.text(report))
    if not report["ok"]:
        raise Exit(code=1)


@command(changes=Unnoted.LOOKS, help={"name": "workspace: Pulumi.NAME.yaml in stacks/workspace", "json": "print JSON"})
def health(_: Context, name: str, json: bool = False) -> None:
    """Look whether a workspace's gateway and desktops are well; exit code 1 if something failed, for cron."""
    from deskyard.life import health as workspace_health

    found = workspace_health.look(name)
    show(found, as_json=json, text=workspace_health.text(found))
    if found["state"] == "failed":
        raise Exit(code=1)


@command(
    changes=Changes("workspace.stop", "name"),
    help={
        "name": "workspace: Pulumi.NAME.yaml in stacks/workspace",
        "force": "pull the plug of every machine: what programs have not written to disk is lost",
        "json": "print JSON",
    },
)
def stop(_: Context, name: str, force: bool = False, json: bool = False) -> None:
    """Shut down a workspace's desktops and its gateway, and keep them off; nothing is deleted."""
    from deskyard.life import power

    done = power.stop_workspace(name, force=force)
    show(done, as_json=json, text=power.text(done))


@command(
    changes=Changes("workspace.start", "name"),
    help={
        "name": "workspace: Pulumi.NAME.yaml in stacks/workspace",
        "wait": "wait until every route answers (--no-wait: do not)",
        "json": "print JSON",
    },
)
def start(_: Context, name: str, wait: bool = True, json: bool = False) -> None:
    """Start a workspace's gateway and all its desktops, and wait until their routes answer."""
    from deskyard.life import power

    done = power.start_workspace(name, wait=wait)
    show(done, as_json=json, text=power.text(done))


@command(
    changes=Changes("workspace.destroy", "name"),
    help={
        "name": "workspace: Pulumi.NAME.yaml in stacks/workspace",
        "yes": "do not ask",
        "backup": "make a last backup of each desktop, and verify it, before anything is touched (--no-backup: do not)",
        "dry_run": "say what would be backed up, what stays and what is lost; touch nothing",
        "json": "print JSON",
    },
)
def destroy(
    _: Context, name: str, yes: bool = False, backup: bool = True, dry_run: bool = False, json: bool = False
) -> None:
    """Delete a workspace with all its desktops AND THEIR DATA; the declaration stays, and so do backups.

    A last backup of each desktop is made and verified before; without one nothing is deleted.
    """
    from deskyard.life.backup import backup as backups
    from deskyard.life.backup import final
    from deskyard.workspace import workspace

    (going, alone), without = final.held(name), f"./inv workspace.destroy {name} --no-backup"
    if backup:
        final.require_kept(name, alone, [], without)
    going = sorted([*going, *alone])
    stays, goes_too = backups.survivors(name), workspace.remnants(name)
    for line in [*stays, *(f"goes too: {line}" for line in goes_too)]:
        say(f"    {line}")
    notice = final.notice(name, going, without, backup=backup)
    for line in notice:
        say(f"    {line}")
    done = {"workspace": name, "desktops": going, "stays": stays, "goes_too": goes_too, "notice": notice}
    if dry_run:
        show({**done, "destroyed": False, "last_backups": {}}, as_json=json, text="nothing was touched")
        return
    if not yes:
        _confirm(name)
    kept = final.keep(name, going, without) if backup else {}
    workspace.destroy(name)
    show({**done, "destroyed": True, "last_backups": kept}, as_json=json, text=f"workspace {name} is destroyed")


def _confirm(name: str) -> None:
    question = f"This deletes all desktops of {name!r} and their data. Type its name to go on: "
    remedy = f"add --yes to delete workspace {name} and the data of its desktops"
    confirm("workspace.destroy", name, name, question, remedy)


def _text(state: dict[str, Any]) -> str:
    from deskyard.plan.printable import printable
    from deskyard.workspace import seating

    gateway = state["gateway"]
    word = "ready" if gateway["ready"] else f"not ready {gateway['error'] or ''}".strip()
    lines = [f"{state['workspace']}  {state['url']}  {'ready' if state['ready'] else 'not ready'}"]
    lines.append(f"  gateway  {_state(gateway)}  {word}")
    for desktop in state["desktops"]:
        routes = ", ".join(
            f"{route} {'answers' if answer['ready'] else 'silent'}" for route, answer in desktop["routes"].items()
        )
        note = "  (a restart gives it its new size)" if desktop["restart_needed"] else ""
        head = f"  {desktop['name']}  {desktop['tier']}  {desktop['address']}  {_state(desktop)}"
        lines.append(f"{head}  {routes}{note}")
        if stopped := desktop["stopped_agent"]:
            target = f"{state['workspace']}/{desktop['name']}"
            lines.append(f"    its agent is stopped, by {printable(str(stopped['by']))}  (./inv desktop.thaw {target})")
    lines += [f"  {line}" for seat in state["seats"] for line in seating.lines(state["workspace"], seat)]
    for resource in state.get("drift", []):
        what = ", ".join(resource["differences"]) or "as a whole"
        lines.append(f"  drift: {resource['of']}: {resource['name']}: {what}  (./inv workspace.up mends it)")
    if state.get("drift") == []:
        lines.append("  drift: none")
    return "\n".join(lines)


def _state(machine: dict[str, Any]) -> str:
    """The state of a machine, with what it is wanted to be where that is not to run."""
    note = " (the host has no room)" if machine["state"] == "io-error" else ""
    wanted = "" if machine["desired"] == "running" else f" (wanted {machine['desired']})"
    return f"{machine['state']}{note}{wanted}"


ns = Collection("workspace")
for task in (preview, up, environment, status, health, verify, stop, start, destroy):
    ns.add_task(task)
