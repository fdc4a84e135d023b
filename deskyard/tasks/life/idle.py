"""desktop.idle: how desktops are used, and those that nobody uses stopped."""

from invoke import Context

from deskyard.tasks.front import Changes, command, show


@command(
    changes=Changes("desktop.idle", "workspace", only_with="stop", on_timer="stop"),
    help={
        "workspace": "name of the workspace",
        "stop": "stop those that nobody has used for as long as they are declared to stay, and start those that "
        "sleep and whose page somebody has opened; for a timer",
        "json": "print JSON",
    },
)
def idle(_: Context, workspace: str, stop: bool = False, json: bool = False) -> bool:
    """Show who or what used each desktop last, and when it is stopped because nobody does.

    What happened between two looks is known as their average; Mission Control looks every minute.
    """
    from dataclasses import asdict

    from deskyard.life.idle import idle as life_idle

    woken = life_idle.wake_wanted(workspace) if stop else []
    found = life_idle.stop_unused(workspace) if stop else life_idle.look(workspace)
    show([asdict(use) for use in found], as_json=json, text=life_idle.text(found))
    # Those that slept before this look were used at no time that it knows.
    return bool(woken) or any(use.asleep and use.used_at is not None for use in found)
