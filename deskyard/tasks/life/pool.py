"""pool.*: disposable desktops that wait, booted; desktop.run and desktop.release: one for a task, gone at its end."""

import sys

from invoke import Collection, Context, Exit

from deskyard.tasks.front import STOPPED, Changes, Unnoted, command, confirm, show

WORKSPACE = "name of the workspace"
IMAGE, TIER = "only one of this image", "only one of this tier"
FOR = "for so long, then it is removed by the next task that makes one, or by the pool's timer: 30m, 8h, 2d"


@command(changes=Unnoted.LOOKS, name="list", help={"workspace": WORKSPACE, "json": "print JSON"})
def list_(_: Context, workspace: str, json: bool = False) -> None:
    """Say of each seat whether it is free, or how its desktop is and who has it."""
    from deskyard.life.pool import pool

    found = pool.listed(workspace)
    show(found, as_json=json, text=pool.text(found))


# Its timer gives no option.
@command(changes=Changes("pool.fill", "workspace", on_timer=""), help={"workspace": WORKSPACE, "json": "print JSON"})
def fill(_: Context, workspace: str, json: bool = False) -> bool:
    """Make as many desktops as the pool keeps ready; those that waited too long, or that nobody has, go before."""
    from deskyard.life.pool import filling, pool

    done = filling.fill(workspace)
    show(done, as_json=json, text=pool.text(done))
    return bool(done["made"] or done["removed"])


@command(
    changes=Changes("pool.claim", "workspace", ("image", "tier", "for_")),
    help={"workspace": WORKSPACE, "image": IMAGE, "tier": TIER, "for_": FOR, "json": "print JSON"},
)
def claim(_: Context, workspace: str, image: str = "", tier: str = "", for_: str = "8h", json: bool = False) -> None:
    """Take a desktop that waits: it is yours at once, and nobody else ever gets it."""
    from deskyard.access import access
    from deskyard.life.pool import pool

    found = pool.claim(workspace, image or None, tier or None, access.seconds(for_, "--for"))
    show(found, as_json=json, text=pool.line(found))


@command(changes=Changes("pool.drain", "workspace"), help={"workspace": WORKSPACE, "json": "print JSON"})
def drain(_: Context, workspace: str, json: bool = False) -> None:
    """Remove the desktops that wait; nothing of anybody is in them. Those that somebody has stay."""
    from deskyard.life.pool import pool

    done = pool.drain(workspace)
    show(done, as_json=json, text=pool.text(done))


@command(
    changes=Changes("desktop.run", "workspace", ("image", "tier", "for_")),
    help={
        "workspace": WORKSPACE,
        "rm": "remove it when the command has ended, or without one at Ctrl-C",
        "image": IMAGE,
        "tier": TIER,
        "for_": FOR,
        "json": "print JSON; a command's output goes before it",
    },
)
def run(
    context: Context,
    workspace: str,
    rm: bool = False,
    image: str = "",
    tier: str = "",
    for_: str = "8h",
    json: bool = False,
) -> None:
    """Make a disposable desktop, or take one that waits; what stands behind -- runs in it as its agent.

    As with ssh, that text is read by a shell there, and its exit code is this one's: 124 if it does not end in time.
    """
    from deskyard.access import access
    from deskyard.life.pool import pool
    from deskyard.life.pool import run as disposable

    text = context.remainder
    seconds = access.seconds(for_, "--for")
    wanted = disposable.Wanted(workspace, image or None, tier or None, seconds, rm, bool(text))
    code = 0
    try:
        with disposable.desktop(wanted) as found:
            if not text:
                show(found, as_json=json, text=pool.line(found))
            if text:
                print(pool.line(found), file=sys.stderr, flush=True)
                code = disposable.run(workspace, found["name"], text, seconds)
            elif rm:
                disposable.wait(workspace, found["name"], seconds)
    except KeyboardInterrupt:
        print("\nstopped", file=sys.stderr)
        raise Exit(code=STOPPED) from None
    if text and json:
        show({**found, "exit_code": code}, as_json=True)
    if code:
        raise Exit(code=code)


@command(
    changes=Changes("desktop.release", "target"),
    help={"target": "WORKSPACE/DESKTOP", "yes": "do not ask", "json": "print JSON"},
)
def release(_: Context, target: str, yes: bool = False, json: bool = False) -> None:
    """Remove a disposable desktop with ALL ITS DATA; its seat is free for another."""
    from deskyard.life.pool import pool

    if not yes:
        question = f"{target} goes with all its data. Type the desktop's name to go on: "
        remedy = f"add --yes: ./inv desktop.release {target} --yes"
        confirm("desktop.release", target, target.partition("/")[2], question, remedy)
    done = pool.release(target)
    show(done, as_json=json, text=f"{target} is gone")


ns = Collection("pool")
for task in (list_, fill, claim, drain):
    ns.add_task(task)
