"""The installed applications, as their desktop files describe them."""

import configparser
import shlex
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from deskyard.computer.answers import screen as answers

GROUP = "Desktop Entry"
TERMINAL = ("x-terminal-emulator", "-e")
MOST_FILE = 1 << 20


@dataclass(frozen=True)
class Application:
    """An application of the menus."""

    id: str
    name: str
    comment: str
    command: tuple[str, ...]
    categories: tuple[str, ...]
    types: tuple[str, ...]

    def described(self) -> answers.Application:
        """As it stands in answers."""
        return {
            "id": self.id, "name": self.name, "comment": self.comment,
            "categories": list(self.categories), "types": list(self.types),
        }  # fmt: skip

    def argv(self, targets: tuple[str, ...]) -> list[str]:
        """The program and its arguments for these files and addresses."""
        argv: list[str] = []
        placed = False
        for word in self.command:
            if word in ("%f", "%u", "%F", "%U"):
                argv += targets if word in ("%F", "%U") else targets[:1]
                placed = True
            elif word == "%c":
                argv.append(self.name)
            elif not (len(word) == 2 and word[0] == "%" and word != "%%"):
                argv.append(word.replace("%%", "%"))
        # A program that says nothing of files may take them all the same.
        return argv if placed else [*argv, *targets]


def folders(environment: Mapping[str, str], home: Path) -> list[Path]:
    """Where desktop files are, the ones that stand for others first."""
    own = environment.get("XDG_DATA_HOME") or str(home / ".local/share")
    others = environment.get("XDG_DATA_DIRS") or "/usr/local/share:/usr/share"
    places = map(Path, [own, *others.split(":")])
    return [place / "applications" for place in places if place.is_absolute()]


def installed(places: list[Path]) -> dict[str, Application]:
    """The applications that a menu would show, by their ids."""
    files: dict[str, Path] = {}
    for place in places:
        for path in sorted(place.rglob("*.desktop")):
            files.setdefault("-".join(path.relative_to(place).parts), path)
    return dict(_readable(files))


def _readable(files: dict[str, Path]) -> Iterator[tuple[str, Application]]:
    for id, path in sorted(files.items()):
        found = _read(id, path)
        if found is not None:
            yield id, found


def _read(id: str, path: Path) -> Application | None:
    parser = configparser.RawConfigParser(strict=False, delimiters=("=",), comment_prefixes=("#",))
    parser.optionxform = str  # type: ignore[assignment,method-assign]
    try:
        if path.stat().st_size > MOST_FILE:
            return None
        parser.read_string(path.read_text(encoding="utf-8", errors="replace"))
        entry = parser[GROUP]
        command = tuple(shlex.split(entry.get("Exec", "")))
    except (OSError, KeyError, ValueError, configparser.Error):
        return None
    if entry.get("Type") != "Application" or not command:
        return None
    if "true" in (entry.get("Hidden", ""), entry.get("NoDisplay", "")):
        return None
    if entry.get("Terminal") == "true":
        command = (*TERMINAL, *command)
    lists = (tuple(filter(None, entry.get(key, "").split(";"))) for key in ("Categories", "MimeType"))
    return Application(id, entry.get("Name", id), entry.get("Comment", ""), command, *lists)
