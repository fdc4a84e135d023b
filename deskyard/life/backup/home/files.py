"""Lists what is in the /home of a backup, and brings files of it to a folder of this machine."""

import os
import re
import shutil
import stat
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from deskyard.declaration import declaration
from deskyard.engine import running
from deskyard.engine.backend import machines_of
from deskyard.errors import ConfigError, SiteError
from deskyard.guest.identity import homes
from deskyard.host.progress import step
from deskyard.host.vm.ext4 import DamagedError
from deskyard.life import power
from deskyard.life.backup.home import desktop as desktops
from deskyard.life.backup.home import folder as folders
from deskyard.life.backup.home.desktop import Desktop
from deskyard.life.backup.home.folder import Folder
from deskyard.life.backup.home.tree import Node, Tree, require_path, shown
from deskyard.life.backup.vault import vault_of
from deskyard.life.moment import minute
from deskyard.life.power import Machine
from deskyard.plan import backup as plan
from deskyard.plan.backup import Backup
from deskyard.plan.workspace import WorkspacePlan
from deskyard.workspace import turn

MOST_LISTED, MOST_BROUGHT, MOST_SHOWN = 1000, 100_000, 100
SPARE = 64 << 20
DESKTOP = re.compile(r"[a-z0-9-]+/[a-z0-9-]+")
WORD = {"folder": "folders", "file": "files", "link": "links"}


@dataclass(frozen=True)
class Wanted:
    """The path that is brought from a backup, and where to: a folder of this machine, or WORKSPACE/DESKTOP.

    With `force` files are brought in place of those that are there.
    """

    path: str
    to: str
    backup: str = "latest"
    force: bool = False
    dry_run: bool = False


class Place(Protocol):
    """Where files are brought, by their paths in it."""

    def make(self, parts: Sequence[bytes], mode: int) -> None:
        """Make a folder; one that is there stays as it is."""

    def link(self, parts: Sequence[bytes], leads_to: bytes) -> None:
        """Make a link."""

    def write(self, parts: Sequence[bytes], mode: int, changed: int, pieces: Iterable[bytes]) -> None:
        """Write a file whole or not at all."""


@dataclass(frozen=True)
class _Rules:
    """Bounds of a load: whether links may lead anywhere, as on the desktop, and whether it goes to another desktop."""

    any_link: bool
    another: bool


@dataclass
class _Load:
    """The nodes that will be brought, by their path below the folder; each folder before what is in it."""

    nodes: list[tuple[list[bytes], Node]] = field(default_factory=list)
    links: dict[bytes, bytes] = field(default_factory=dict)

    @property
    def size(self) -> int:
        return sum(node.entry.size for _, node in self.nodes if node.kind == "file")

    def count(self, kind: str) -> int:
        return sum(node.kind == kind for _, node in self.nodes)


def listing(target: str, path: str, name: str = "latest", *, recursive: bool = False) -> dict[str, Any]:
    """The entries of a folder of a backup's /home, or all below it, at most a thousand names; of a file, itself."""
    require_path(path)
    with _opened(target, name) as (found, tree):
        top = tree.find(path, target)
        rows = []
        if top.kind != "folder":
            rows = [top]
        elif recursive:
            rows = list(tree.below(top, MOST_LISTED))
        else:
            rows = tree.within(top)
        tree.cut |= len(rows) > MOST_LISTED
        entries = [_row(tree, node) for node in rows[:MOST_LISTED]]
        return {"desktop": target, "backup": found.id, "path": path, "entries": entries, **_left(tree)}


def get(target: str, wanted: Wanted) -> dict[str, Any]:
    """Bring a file or a folder from a backup's /home; what is there already stays unless `force` is set.

    Raises an error before anything is written if it is there already, or there is no room; with `dry_run` nothing is.
    """
    require_path(wanted.path)
    into = _on_desktop if DESKTOP.fullmatch(wanted.to) else _on_this_machine
    if into is _on_this_machine:
        folders.require(wanted.to)
    else:
        # What is wrong with it is said before a disk is read for minutes.
        _desktop(target, wanted)
    with _opened(target, wanted.backup) as (found, tree):
        rules = _Rules(any_link=into is _on_desktop, another=into is _on_desktop and wanted.to != target)
        load = _load(tree, tree.find(wanted.path, target), wanted, rules)
        load = into(tree, load, target, wanted)
        counts = {word: load.count(kind) for kind, word in WORD.items()}
        done = {"desktop": target, "backup": found.id, "path": wanted.path, "to": wanted.to}
        return {**done, "dry_run": wanted.dry_run, "bytes": load.size, **counts, **_left(tree)}


def listing_text(found: dict[str, Any]) -> str:
    """The entries of a folder, a line for each, and notes on those that are missing."""
    lines = [
        f"{row['mode']}  {row['owner']:>11}  {row['bytes']:>12}  {row['changed']}  {row['shown']}"
        for row in found["entries"]
    ]
    return "\n".join([*lines, *_notes(found)]) or f"{found['path']} is empty in {found['backup']}"


def text(done: dict[str, Any]) -> str:
    """The sum of what was brought, and notes on what was not."""
    verb = "would be brought" if done["dry_run"] else "are"
    what = f"{done['files']} files, {done['folders']} folders, {done['links']} links, {done['bytes'] >> 10} KiB"
    return "\n".join([f"{what} of {done['backup']} {verb} in {done['to']}", *_notes(done)])


@contextmanager
def _opened(target: str, name: str) -> Iterator[tuple[Backup, Tree]]:
    workspace, desktop = power.names(target)
    planned, machines = power.look_up(workspace)
    # A desktop that is gone has its backups still.
    machine = Machine(planned, desktop, machines)
    vault = vault_of(planned.site, planned.name)
    found = plan.find(name, vault.present(desktop), target)
    with turn.of_reading(machine.domain), vault.home(machine, found) as tree:
        yield found, tree


def _on_this_machine(tree: Tree, load: _Load, target: str, wanted: Wanted) -> _Load:
    to = Path(wanted.to)
    if to.exists():
        with folders.opened(to) as folder:
            _require_free(folder, load, wanted)
    _require_room(shutil.disk_usage(to if to.exists() else to.parent).free, load, wanted)
    if wanted.dry_run:
        return load
    to.mkdir(mode=folders.OWNERS, exist_ok=True)
    with folders.opened(to, force=wanted.force) as folder:
        return _brought(tree, load, folder, wanted)


def _on_desktop(tree: Tree, load: _Load, target: str, wanted: Wanted) -> _Load:
    planned, name, top = _desktop(target, wanted)
    if not load.nodes:
        return load
    load = _Load([(node.path.split(b"/")[3:], node) for _, node in load.nodes], load.links)
    with (
        Machine(planned, name, machines_of(planned)).alone(at_once=True),
        Desktop(planned, name, top, force=wanted.force) as place,
    ):
        _require_place(place.there, load.nodes[0][1], wanted.path, wanted)
        _require_room(place.free, load, wanted)
        if wanted.dry_run:
            return load
        for depth in range(1, len(top)):
            place.make(top[:depth], folders.MODE)
        return _brought(tree, load, place, wanted)


def _desktop(target: str, wanted: Wanted) -> tuple[WorkspacePlan, str, list[bytes]]:
    """The desktop to which it goes; raises an error if it is none of the same workspace, or does not run."""
    planned = declaration.read(power.names(target)[0]).plan
    name, top = desktops.required(planned, wanted.to, os.fsencode(wanted.path).rstrip(b"/"))
    running.require_running(planned, name)
    return planned, name, top


def _load(tree: Tree, top: Node, wanted: Wanted, rules: _Rules) -> _Load:
    """The nodes of a tree to bring."""
    load, base = _Load(), top.path.rpartition(b"/")[0]
    for node in (top, *(tree.below(top, MOST_BROUGHT) if top.kind == "folder" else ())):
        try:
            why = _left_out(tree, load, top, node, rules)
        except DamagedError as error:
            tree.lose(node.path, error.reason)
            continue
        if why:
            tree.left.append((node.path, why))
        else:
            load.nodes.append((node.path[len(base) + 1 :].split(b"/"), node))
    if tree.cut:
        reason = f"holds more than {MOST_BROUGHT} files"
        raise ConfigError("path", wanted.path, reason, "name a folder below it, or take the whole desktop back")
    return load


def _left_out(tree: Tree, load: _Load, top: Node, node: Node, rules: _Rules) -> str:
    """Why something is not brought; empty if it is."""
    if rules.another and homes.is_own(b"/".join(node.path.split(b"/")[3:])):
        return "is of that desktop alone: by it its agent is known, or its browser locks a profile"
    if node.kind == "other":
        return "is a device, a pipe or a socket"
    if node.kind == "file" and node.entry.size > tree.disk_size:
        return f"is {node.entry.size >> 20} MiB long, more than its disk has: most of it is empty"
    if node.kind == "link":
        load.links[node.path] = leads_to = tree.disk.link(node.entry)
        if not rules.any_link and not _stays_within(top.path, node.path, leads_to):
            return f"is a link that leads out of {top.shown}: to {shown(leads_to)}"
    return ""


def _stays_within(top: bytes, link: bytes, leads_to: bytes) -> bool:
    """Whether a link leads to something below `top`, through whatever other such link."""
    parts = leads_to.split(b"/")
    up = next((place for place, part in enumerate(parts) if part != b".."), len(parts))
    # A way up behind a name would begin where another link leads.
    return bool(parts[0]) and b".." not in parts[up:] and up < link[len(top) :].count(b"/")


def _require_free(folder: Folder, load: _Load, wanted: Wanted) -> None:
    for parts, node in load.nodes:
        _require_place(folder.kind(parts), node, shown(b"/".join(parts)), wanted)


def _require_place(there: str, node: Node, path: str, wanted: Wanted) -> None:
    """Raise an error if something is there that would be replaced, or in the way of a folder."""
    if there and not (wanted.force and (there == "folder") == (node.kind == "folder")):
        reason = f"{path} is there already" + (", and is no folder" if wanted.force and node.kind == "folder" else "")
        remedy = "take another place" + ("" if wanted.force else ", or add --force: files are replaced, others stay")
        raise ConfigError("to", wanted.to, reason, remedy)


def _require_room(free: int, load: _Load, wanted: Wanted) -> None:
    needed = load.size + SPARE
    if free < needed:
        reason = f"{free >> 20} MiB are free on its disk, and {needed >> 20} are needed"
        raise SiteError("to", wanted.to, reason, "take another place, a larger disk, or fewer files")


def _brought(tree: Tree, load: _Load, place: Place, wanted: Wanted) -> _Load:
    """Bring it, and say what of it came."""
    came = _Load()
    with step(f"bring {load.count('file')} files to {wanted.to}"):
        for parts, node in load.nodes:
            try:
                if node.kind == "folder":
                    place.make(parts, node.entry.mode)
                elif node.kind == "link":
                    place.link(parts, load.links[node.path])
                else:
                    changed, pieces = tree.disk.changed(node.entry), tree.disk.content(node.entry)
                    place.write(parts, node.entry.mode, changed, pieces)
            except DamagedError as error:
                tree.lose(node.path, error.reason)
            else:
                came.nodes.append((parts, node))
    return came


def _row(tree: Tree, node: Node) -> dict[str, Any]:
    entry = node.entry
    row = {"path": os.fsdecode(node.path), "shown": node.shown, "kind": node.kind, "bytes": entry.size}
    try:
        changed = tree.disk.changed(entry)
    except DamagedError as error:
        tree.lose(node.path, error.reason)
        changed = 0
    rights = {"mode": stat.filemode(entry.mode), "owner": f"{entry.user}:{entry.group}"}
    return {**row, **rights, "changed": minute(changed)}


def _left(tree: Tree) -> dict[str, Any]:
    left = [{"path": shown(path), "why": why} for path, why in tree.left[:MOST_SHOWN]]
    return {"cut": tree.cut, "left_out": left, "left_out_count": len(tree.left), "damaged": tree.damaged}


def _notes(done: dict[str, Any]) -> list[str]:
    lines = [f"left out: {row['path']}: {row['why']}" for row in done["left_out"]]
    if further := done["left_out_count"] - len(done["left_out"]):
        lines.append(f"left out: {further} more")
    if done["cut"]:
        lines.append(f"cut: there is more; name a folder below, as --path {done['path'].rstrip('/')}/NAME")
    return lines
