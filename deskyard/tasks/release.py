"""Tasks of a release."""

from dataclasses import asdict

from invoke import Collection, Context, Exit

from deskyard.tasks.front import Unnoted, command, show


@command(changes=Unnoted.TREE, help={"json": "print JSON"})
def check(_: Context, json: bool = False) -> None:
    """Say whether this tree may be tagged: version, changelog, lock, schemas, pages, docs, all committed; 1 if not."""
    from deskyard.host.places import tree
    from deskyard.lab.release import declared_version, examine

    found = examine(tree())
    lines = [f"{'ok  ' if result.passed else 'no  '} {result.check}: {result.detail}" for result in found]
    passed = all(result.passed for result in found)
    verdict = f"may be tagged: git tag v{declared_version(tree())}" if passed else "may not be tagged yet"
    show(
        {"passed": passed, "checks": [asdict(result) for result in found]},
        as_json=json,
        text="\n".join([*lines, verdict]),
    )
    if not passed:
        raise Exit(code=1)


ns = Collection("release")
ns.add_task(check)
