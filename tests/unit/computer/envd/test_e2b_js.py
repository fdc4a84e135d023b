"""E2B's own clients for JavaScript, unchanged, on files and processes of a desktop."""

from pathlib import Path

from deskyard.computer.envd.part import Envd
from deskyard.computer.work.part import Work
from tests.support import npm
from tests.unit.computer.serving import home_of, served


def test_the_javascript_client_finds_what_it_knows(e2b_packages: Path, tmp_path: Path) -> None:
    with home_of(tmp_path) as home:
        work = Work(home)
        with served([work, Envd(work)]) as url:
            options = {"debug": True, "sandboxUrl": url}
            npm.run(e2b_packages, "sandbox.mjs", {"id": None, "options": options})
