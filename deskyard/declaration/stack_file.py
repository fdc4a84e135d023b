"""Makes the stack file of a new workspace, and puts one away: neither writes over a file or deletes one."""

import os
import time
from pathlib import Path

from deskyard.declaration.declaration import check_content
from deskyard.declaration.stack_text import changing
from deskyard.errors import ConfigError
from deskyard.model.base import parse_yaml
from deskyard.model.workspace import Workspace

# Beside the stack files, where nobody looks for workspaces.
REMOVED = "removed"


@changing
def make(path: Path, text: str, workspace: Workspace) -> None:
    """Write a whole declaration in one step; raises `ConfigError` if one is there, or it does not say `workspace`."""
    if check_content(workspace.name, parse_yaml(text), path.name) != workspace:
        raise ConfigError("file", str(path), "would declare something else", "write it by hand; examples/ has some")
    draft = path.with_name(f".{path.name}.new")
    draft.unlink(missing_ok=True)
    try:
        with draft.open("x") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        _own_as_others(draft)
        # Unlike a renamed one it takes no other's place.
        path.hardlink_to(draft)
    except FileExistsError as error:
        raise taken(path) from error
    finally:
        draft.unlink(missing_ok=True)


@changing
def put_away(path: Path) -> Path:
    """Move the file of a workspace that is gone into the folder `removed`, with the moment in its name; where it is."""
    folder = path.parent / REMOVED
    if not folder.exists():
        folder.mkdir()
        _own_as_others(folder)
    moment = time.strftime("%Y-%m-%dT%H%M%SZ", time.gmtime())
    name = path.name.removesuffix(".yaml")
    names = (f"{name}.{moment}{f'.{number}' if number else ''}.yaml" for number in range(1000))
    place = next(folder / each for each in names if not (folder / each).exists())
    path.rename(place)
    return place


def is_put_away(path: Path) -> bool:
    """Whether the file of a workspace is no more where it was, and was put away."""
    return not path.exists() and any((path.parent / REMOVED).glob(f"{path.stem}.*"))


def taken(path: Path) -> ConfigError:
    """The error for the name of a workspace that is declared."""
    return ConfigError("name", path.name.split(".")[1], f"is declared already, in {path}", "choose another name")


def _own_as_others(made: Path) -> None:
    """Give it owner and mode as the stack files beside it have them, or as their folder has."""
    others = [found for found in sorted(made.parent.glob("Pulumi*.yaml")) if found != made]
    like = (others[0] if others and made.is_file() else made.parent).stat()
    if os.geteuid() == 0:
        os.chown(made, like.st_uid, like.st_gid)
    made.chmod(like.st_mode & (0o666 if made.is_file() else 0o777))
