"""Task that measures: figures, never verdicts."""

from dataclasses import asdict

from invoke import Collection, Context

from deskyard.run.bench import measure
from deskyard.tasks.front import command, show


@command(help={"clean": "build the images anew instead of quoting their manifests", "json": "print JSON"})
def bench(_: Context, clean: bool = False, json: bool = False) -> None:
    """Measure builds, boots and previews, as ratios against a bare boot of the same disk in the same run."""
    figures = measure(clean)
    lines = [f"{figure.ratio:9.3f} x  {figure.seconds:9.2f} s  {figure.name}" for figure in figures]
    show([asdict(figure) for figure in figures], as_json=json, text="\n".join(lines))


def add_to(collection: Collection) -> None:
    """Put it at the root: ./inv bench."""
    collection.add_task(bench)
