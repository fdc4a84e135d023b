"""Tasks that measure: figures, never verdicts."""

import subprocess
import sys
from dataclasses import asdict

from invoke import Collection, Context, Exit

from deskyard.errors import ConfigError
from deskyard.run.bench import measure
from deskyard.run.places import tree
from deskyard.tasks.front import command, show

SOCKETS = 2000


@command(help={"clean": "build the images anew instead of quoting their manifests", "json": "print JSON"})
def desktop(_: Context, clean: bool = False, json: bool = False) -> None:
    """Measure builds, boots and previews, as ratios against a bare boot of the same disk in the same run."""
    figures = measure(clean)
    lines = [f"{figure.ratio:9.3f} x  {figure.seconds:9.2f} s  {figure.name}" for figure in figures]
    show([asdict(figure) for figure in figures], as_json=json, text="\n".join(lines))


@command(help={"sockets": "how many idle WebSockets to hold", "json": "print JSON"})
def gateway(_: Context, sockets: int = SOCKETS, json: bool = False) -> None:
    """Measure the door, as ratios against direct connections and nginx (if installed) in the same run."""
    if not 1 <= sockets <= 20000:
        raise ConfigError("sockets", sockets, "must be from 1 to 20000", "choose another number")
    # It shares the laboratory of the gateway's tests, so it lives with them.
    argv = [sys.executable, "-m", "tests.bench.gateway", str(sockets), *(["--json"] if json else [])]
    code = subprocess.run(argv, cwd=tree(), check=False).returncode
    if code:
        raise Exit(code=code)


ns = Collection("bench")
ns.add_task(desktop, default=True)
ns.add_task(gateway)
