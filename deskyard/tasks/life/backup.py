"""backup.*: copies of a desktop that outlive it, encrypted, each proved by booting it."""

from invoke import Collection, Context, Exit

from deskyard.tasks.front import Changes, Unnoted, command, confirm, show

TARGET, JSON = "WORKSPACE/DESKTOP", "print JSON"


@command(changes=Changes("backup.run", "target"), help={"target": TARGET, "json": JSON})
def run(_: Context, target: str, json: bool = False) -> None:
    """Make a backup of a desktop while it runs, or is off; it counts once backup.verify has booted it."""
    from deskyard.life.backup import backup, shown

    done = backup.run(target)
    show(done, as_json=json, text=shown.line(done["backup"]))


@command(changes=Unnoted.LOOKS, name="list", help={"target": TARGET, "json": JSON})
def list_(_: Context, target: str, json: bool = False) -> None:
    """List a desktop's backups, the oldest first; half ones are none."""
    from deskyard.life.backup import backup

    found = backup.listing(target)
    show(found, as_json=json, text=backup.text(found))


@command(
    changes=Changes("backup.verify", "target", ("backup",)),
    help={"target": TARGET, "backup": "id of the backup (default: the newest)", "json": JSON},
)
def verify(_: Context, target: str, backup: str = "latest", json: bool = False) -> None:
    """Restore a backup into a machine without any NIC, boot it, and read back what was written before: it counts."""
    from deskyard.life.backup import restoration, shown

    done = restoration.verify(target, backup)
    show(done, as_json=json, text=shown.line(done["backup"]))


@command(
    changes=Changes("backup.restore", "target", ("name", "to")),
    help={
        "target": TARGET,
        "name": "id of the backup, or latest",
        "to": "make another desktop of it, WORKSPACE/NEW, with an identity of its own; this one stays as it is",
        "yes": "do not ask: what changed since the backup is lost, and so are its snapshots",
        "dry_run": "say what would be done and lost; touch nothing",
        "force": "pull the plug of a desktop that does not shut down",
        "wait": "wait until its routes answer (--no-wait: do not)",
        "json": JSON,
    },
)
def restore(
    _: Context,
    target: str,
    name: str,
    to: str = "",
    yes: bool = False,
    dry_run: bool = False,
    force: bool = False,
    wait: bool = True,
    json: bool = False,
) -> None:
    """Take a desktop back to a backup; WHAT CHANGED SINCE IS LOST, and on libvirt its snapshots are, too.

    With --to another desktop is made of the backup instead, and nothing of this one is touched.
    """
    from deskyard.errors import ConfigError
    from deskyard.life import power
    from deskyard.life.backup import copying, restoration, shown

    if to:
        if force or not wait:
            option = "--force" if force else "--no-wait"
            remedy = "leave it out: the new desktop is waited for, and nothing is shut down for it"
            raise ConfigError(option, None, "is for a desktop that goes back to a backup, not for --to", remedy)
        done = copying.would_copy(target, name, to) if dry_run else copying.copy(target, name, to, again=yes)
        show(done, as_json=json, text=shown.would_copy_text(done) if dry_run else power.text(done))
        return
    if dry_run:
        found = restoration.would_restore(target, name)
        show(found, as_json=json, text=shown.would_text(found))
        return
    if not yes:
        lost = f"This takes {target} back to the backup {name}: what changed since and its snapshots are lost."
        remedy = f"add --yes: ./inv backup.restore {target} {name} --yes"
        confirm("backup.restore", target, name, f"{lost} Type the backup's id to go on: ", remedy)
    done = restoration.restore(target, name, force=force, wait=wait)
    show(done, as_json=json, text=power.text(done))


@command(
    changes=Unnoted.LOOKS,
    help={
        "target": TARGET,
        "path": "a folder of its /home, or a file",
        "backup": "id of the backup (default: the newest)",
        "recursive": "all that is below the folder",
        "json": JSON,
    },
)
def files(
    _: Context, target: str, path: str = "/home", backup: str = "latest", recursive: bool = False, json: bool = False
) -> None:
    """List what is in a folder of a backup's /home, a thousand names at most; nothing of it is booted or mounted."""
    from deskyard.life.backup.home import files as home_files

    found = home_files.listing(target, path, backup, recursive=recursive)
    show(found, as_json=json, text=home_files.listing_text(found))


@command(
    changes=Changes("backup.get", "target", ("path", "to", "backup")),
    help={
        "target": TARGET,
        "path": "a file of its /home, or a folder with all that is in it: /home/agent/NAME",
        "to": "folder of this machine, made in one that is there; or WORKSPACE/DESKTOP of the same workspace",
        "backup": "id of the backup (default: the newest)",
        "force": "replace files that are there already",
        "dry-run": "write nothing; say what would be brought",
        "json": JSON,
    },
)
def get(
    _: Context,
    target: str,
    path: str,
    to: str,
    backup: str = "latest",
    force: bool = False,
    dry_run: bool = False,
    json: bool = False,
) -> None:
    """Bring a file or a folder of a backup's /home to a folder of this machine, or to a desktop that runs.

    The exit code is 1 if something of it could not be read.
    """
    from deskyard.life.backup.home import files as home_files

    wanted = home_files.Wanted(path, to, backup, force, dry_run)
    done = home_files.get(target, wanted)
    show(done, as_json=json, text=home_files.text(done))
    if done["damaged"]:
        raise Exit(code=1)


@command(
    changes=Changes("backup.prune", "target", only_with="yes"),
    help={
        "target": TARGET,
        "keep-last": "keep the last N",
        "keep-hourly": "keep the last of each of N hours",
        "keep-daily": "keep the last of each of N days",
        "keep-weekly": "keep the last of each of N weeks",
        "keep-monthly": "keep the last of each of N months",
        "keep-yearly": "keep the last of each of N years",
        "yes": "do it; without, only what would go is said",
        "json": JSON,
    },
)
def prune(
    _: Context,
    target: str,
    keep_last: int = 0,
    keep_hourly: int = 0,
    keep_daily: int = 0,
    keep_weekly: int = 0,
    keep_monthly: int = 0,
    keep_yearly: int = 0,
    yes: bool = False,
    json: bool = False,
) -> None:
    """Say which of a desktop's backups a policy does not keep, and with --yes DELETE THEM; the last verified stays."""
    from deskyard.life.backup import retention

    counts = (keep_last, keep_hourly, keep_daily, keep_weekly, keep_monthly, keep_yearly)
    done = retention.prune(target, counts, really=yes)
    show(done, as_json=json, text=retention.text(done))


ns = Collection("backup")
for task in (run, list_, verify, restore, files, get, prune):
    ns.add_task(task)
