"""snapshot.*: a desktop as it is now, to come back to."""

import time

from invoke import Collection, Context

from deskyard.tasks.front import Changes, Unnoted, command, confirm, show

TARGET, NAME, JSON = "WORKSPACE/DESKTOP", "name of the snapshot", "print JSON"


@command(
    changes=Changes("snapshot.create", "target", ("name", "expires")),
    help={
        "target": TARGET,
        "name": "name of the new snapshot",
        "text": "a line that says what it is for",
        "expires": "delete it after so long, at the next care.run or snapshot: 12h, 7d (default: keep it)",
        "json": JSON,
    },
)
def create(_: Context, target: str, name: str, text: str = "", expires: str = "", json: bool = False) -> None:
    """Take a snapshot of a desktop: with its memory while it runs, of its disk alone while it is off."""
    from deskyard.access import access
    from deskyard.life import snapshot
    from deskyard.plan.snapshot import Snapshot

    ends = int(time.time()) + access.seconds(expires) if expires else None
    found = snapshot.create(target, Snapshot(name, text, ends))
    show(found, as_json=json, text=snapshot.text(found))


@command(changes=Unnoted.LOOKS, name="list", help={"target": TARGET, "json": JSON})
def list_(_: Context, target: str, json: bool = False) -> None:
    """List a desktop's snapshots, the oldest first."""
    from deskyard.life import snapshot

    found = snapshot.listing(target)
    show(found, as_json=json, text=snapshot.text(found))


@command(
    changes=Changes("snapshot.restore", "target", ("name",)),
    help={
        "target": TARGET,
        "name": NAME,
        "yes": "do not ask: what changed since the snapshot is lost",
        "dry_run": "say what would be done and lost; touch nothing",
        "wait": "wait until its routes answer (--no-wait: do not)",
        "json": JSON,
    },
)
def restore(
    _: Context,
    target: str,
    name: str,
    yes: bool = False,
    dry_run: bool = False,
    wait: bool = True,
    json: bool = False,
) -> None:
    """Bring a desktop back to a snapshot; WHAT CHANGED SINCE IS LOST unless a snapshot holds it."""
    from deskyard.life import power, snapshot

    if dry_run:
        found = snapshot.would_restore(target, name)
        show(found, as_json=json, text=snapshot.would_text(found))
        return
    if not yes:
        _confirm(
            "snapshot.restore", target, name, f"This brings {target} back to {name!r}: what changed since is lost."
        )
    done = snapshot.restore(target, name, wait=wait)
    show(done, as_json=json, text=power.text(done))


@command(
    changes=Changes("snapshot.delete", "target", ("name",)),
    help={"target": TARGET, "name": NAME, "yes": "do not ask", "json": JSON},
)
def delete(_: Context, target: str, name: str, yes: bool = False, json: bool = False) -> None:
    """Delete a snapshot of a desktop; the desktop and its other snapshots stay as they are."""
    from deskyard.life import snapshot

    if not yes:
        _confirm("snapshot.delete", target, name, f"This deletes the snapshot {name!r} of {target}.")
    found = snapshot.delete(target, name)
    show(found, as_json=json, text=snapshot.text(found))


def _confirm(task: str, target: str, name: str, warning: str) -> None:
    question = f"{warning} Type the snapshot's name to go on: "
    confirm(task, target, name, question, f"add --yes: ./inv {task} {target} {name} --yes")


ns = Collection("snapshot")
for task in (create, list_, restore, delete):
    ns.add_task(task)
