"""care.*: what desktops need from time to time."""

from invoke import Collection, Context

from deskyard.tasks.front import Changes, Trouble, command, show


@command(
    changes=Changes("care.run", "target", on_timer="due"),
    help={
        "target": "WORKSPACE, or WORKSPACE/DESKTOP",
        "due": "only what is due: backups by schedule, one look a day, updates once in each window; for a timer",
        "now": "as if the window were open",
        "dry_run": "look, and say what would be done",
        "clock_is_right": "the clock did not jump, whatever it looks like: what has had its time may be deleted",
        "json": "print JSON",
    },
)
def run(
    _: Context,
    target: str,
    due: bool = False,
    now: bool = False,
    dry_run: bool = False,
    clock_is_right: bool = False,
    json: bool = False,
) -> bool:
    """Back desktops up that are due; update and restart them in their window; free their disks; code 1 on trouble.

    Machines that a full host halted go on first, once it has room. What is declared as `backup` and `care` decides: it
    updates during no task, and its hook learns of trouble.
    """
    from deskyard.host import jump
    from deskyard.life import care

    if clock_is_right and not dry_run:
        jump.believe()
    workspace, _slash, desktop = target.partition("/")
    found = care.run(workspace, desktop or None, care.How(only_due=due, now=now, dry_run=dry_run))
    show(found, as_json=json, text=care.text(found))
    did = care.has_changed(found)
    if found["trouble"]:
        raise Trouble(did)
    return did


ns = Collection("care")
ns.add_task(run)
