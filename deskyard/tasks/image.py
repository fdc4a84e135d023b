"""Golden images: build, list, test."""

from typing import Any

from invoke import Collection

from deskyard.plan.image import image_names
from deskyard.run import image_build, image_store
from deskyard.run.places import tree
from deskyard.tasks.front import command, show


@command(
    positional=["name"],
    help={
        "name": "desktop or gateway",
        "force": "build even if an image of these sources exists",
        "json": "print the manifest (without packages) as JSON",
    },
)
def build(_context: Any, name: str, force: bool = False, json: bool = False) -> None:
    """Build an image and test it, or find it unchanged."""
    built = image_build.build(name, force=force)
    summary = {key: value for key, value in built.manifest.items() if key != "packages"}
    show({**summary, "disk": str(built.disk)}, as_json=json, text=str(built.disk))


@command(name="list", help={"json": "print as JSON"})
def list_(_context: Any, json: bool = False) -> None:
    """Show every declared image, and whether it is built from the current sources."""
    rows = [_row(name) for name in image_names(tree())]
    lines = [
        f"{row['name']:<12}{row['version'] or '-':<10}{row['digest'] or 'not built':<20}{row['disk'] or ''}"
        for row in rows
    ]
    show(rows, as_json=json, text="\n".join([f"{'NAME':<12}{'VERSION':<10}{'DIGEST':<20}DISK", *lines]))


@command(positional=["name"], help={"name": "desktop or gateway", "json": "print as JSON"})
def test(_context: Any, name: str, json: bool = False) -> None:
    """Boot a built image in a throw-away virtual machine and run the tests of its roles."""
    verdict = image_build.test(name)
    state = {"name": name, "passed": True, "boot_seconds": round(verdict.boot_seconds, 1)}
    show(state, as_json=json, text=f"image {name} passes its tests")


def _row(name: str) -> dict[str, Any]:
    built = image_store.find(name)
    return {
        "name": name,
        "version": built.manifest["version"] if built else None,
        "digest": built.digest if built else None,
        "disk": str(built.disk) if built else None,
        "built_at": built.manifest["built_at"] if built else None,
        "kept_builds": len(image_store.all_built(name)),
    }


ns = Collection("image")
ns.add_task(build)
ns.add_task(list_, name="list")
ns.add_task(test)
