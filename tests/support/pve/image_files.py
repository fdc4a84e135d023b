"""The folders and files that the roles of an image put below a folder, read from the roles themselves."""

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml
from jinja2 import Template

from deskyard.host.places import tree
from deskyard.plan.image.image import read_image

Task = dict[str, Any]
FOLDER, COPY = "ansible.builtin.file", "ansible.builtin.copy"


def lay(image: str, below: str, root: Path) -> list[Path]:
    """Put what the roles of `image` make below the folder `below` of a machine into the folder `root`."""
    laid = []
    for role in read_image(tree(), image).roles:
        folder = tree() / "ansible" / "roles" / role
        for module, options in _steps(yaml.safe_load((folder / "tasks" / "main.yml").read_text()) or []):
            place = str(options.get("path") or options.get("dest") or "")
            if not place.startswith(f"{below}/"):
                continue
            here = root / place.lstrip("/")
            if module == FOLDER and options.get("state") == "directory":
                here.mkdir(parents=True, exist_ok=True)
            elif module == COPY and "src" in options:
                here.parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(folder / "files" / options["src"], here)
            else:
                continue
            laid.append(here)
    assert laid, f"no role of image {image} puts anything below {below}"
    return laid


def _steps(tasks: list[Task]) -> Iterator[tuple[str, Task]]:
    """Each use of the two modules, once for each item of its loop."""
    for task in tasks:
        for module in (FOLDER, COPY):
            loop = task.get("loop", [None])
            for item in loop if module in task and isinstance(loop, list) else ():
                yield module, {key: _filled(value, item) for key, value in task[module].items()}


def _filled(value: Any, item: Any) -> Any:
    return Template(value).render(item=item) if isinstance(value, str) and "item" in value else value
