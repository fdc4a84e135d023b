"""Tasks of the documentation."""

from invoke import Collection, Context

from deskyard.tasks.front import Unnoted, command


@command(changes=Unnoted.TREE, help={"out": "folder of the site (default: dist/docs)"})
def build(_: Context, out: str = "dist/docs") -> None:
    """Build the documentation as a site; a broken link is an error."""
    from pathlib import Path

    from deskyard.host.places import tree
    from deskyard.lab import docs_site

    print(docs_site.build(tree(), tree() / Path(out)))


ns = Collection("docs")
ns.add_task(build)
