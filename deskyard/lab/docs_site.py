"""Builds the documentation as a site, from the same files that the tree shows: README, docs/, specification, changelog.

By Sphinx with MyST: both are kept, check every link, and need no server. A warning is an error.
"""

import shutil
import sys
import tempfile
from pathlib import Path

from deskyard.errors import BuildError, ConfigError
from deskyard.host.command import run

INDEX, PAGES = "README.md", ("SPECIFICATION.md", "CHANGELOG.md", "CONTRIBUTING.md")
FOLDER, LICENCE = "docs", "LICENSE"
SECONDS = 300.0
SETTINGS = {
    "extensions": "myst_parser",
    "project": "Deskyard",
    "html_title": "Deskyard",
    "html_theme": "alabaster",
    "html_copy_source": "0",
    "html_show_sourcelink": "0",
    "myst_heading_anchors": "3",
    # Diagrams stay as text: a page that draws them would fetch a program of somebody else's server.
    "suppress_warnings": "misc.highlighting_failure",
    "highlight_language": "text",
}
CONTENTS = """
```{toctree}
:hidden:
:glob:

docs/*
SPECIFICATION
CHANGELOG
CONTRIBUTING
```
"""


def build(tree: Path, destination: Path) -> Path:
    """Build the site; answers its first page.

    Raises `ConfigError` if the destination holds something else, `BuildError` naming each page with a broken link.
    """
    if destination.exists() and any(destination.iterdir()) and not (destination / "searchindex.js").is_file():
        raise ConfigError("out", str(destination), "holds something else than the site", "name an empty folder")
    with tempfile.TemporaryDirectory(prefix="deskyard-docs.") as name:
        source = Path(name) / "source"
        _stage(tree, source)
        # In a folder of its own first: a build that fails leaves the last good site.
        site = Path(name) / "site"
        options = [f"-D{key}={value}" for key, value in SETTINGS.items()]
        argv = [sys.executable, "-m", "sphinx", "-C", "-W", "--keep-going", "-q", "-b", "html", *options]
        result = run([*argv, "-d", f"{name}/trees", str(source), str(site)], timeout=SECONDS, check=False)
        if result.code:
            reason = result.stderr.replace(f"{source}/", "").strip()[-2000:]
            raise BuildError("docs", None, reason, "mend the pages")
        if destination.exists():
            shutil.rmtree(destination)
        shutil.copytree(site, destination)
    return destination / "index.html"


def _stage(tree: Path, source: Path) -> None:
    shutil.copytree(tree / FOLDER, source / FOLDER)
    for page in (*PAGES, LICENCE):
        shutil.copy(tree / page, source / page)
    (source / "index.md").write_text((tree / INDEX).read_text() + CONTENTS)
