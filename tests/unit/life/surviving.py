"""Workspace `lab` on paper: machines, disks and backups as files, which outlive a task that is killed at a step.

A step is what the hypervisor or the disk does in one piece. A task that is to die does so before or behind one of them,
by SIGKILL in a process of its own; the next task finds what is there.
"""

import contextlib
import json
import os
import signal
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import asdict, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from deskyard.errors import SiteError
from deskyard.host.secret_file import write_secret
from deskyard.plan.backup import MANIFEST, Backup, Moment, Source, disk_tags
from deskyard.plan.backup import Disk as KeptDisk
from deskyard.plan.image.source import ImageSource
from deskyard.plan.power import Power
from deskyard.plan.snapshot import Snapshot
from tests.unit.life.machines import DEV1, DEV2, GATEWAY

SIZE = 1 << 20


class World:
    """What is there; `fatal` is the step at which this process dies, counted from 1."""

    def __init__(self, folder: Path) -> None:
        self.file, self.count, self.fatal, self.names = folder / "world.json", 0, 0, list[str]()
        running = dict.fromkeys((GATEWAY, DEV1, DEV2), "running")
        wanted = dict.fromkeys(running, str(Power.RUNNING))
        start = {"now": running, "wanted": wanted, "disk": {"now": "desktop-old", "staged": "", "before": ""}}
        self.put({**start, "home": "nonce0 work", "kept_home": "", "snapshots": [], "rows": []})

    def get(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self.file.read_text())
        return found

    def put(self, values: Mapping[str, Any]) -> None:
        write_secret(self.file, json.dumps(values).encode())

    def step(self, what: str, change: Callable[[dict[str, Any]], None] = lambda _: None) -> None:
        """Change what is there in one piece, with a moment to die before it and one behind."""
        self._pass(f"before {what}")
        values = self.get()
        change(values)
        self.put(values)
        self._pass(f"behind {what}")

    def around(self, what: str, work: Callable[..., Any]) -> Callable[..., Any]:
        """The same work as a step."""

        def done(*given: Any, **named: Any) -> Any:
            self._pass(f"before {what}")
            answer = work(*given, **named)
            self._pass(f"behind {what}")
            return answer

        return done

    def _pass(self, name: str) -> None:
        self.count += 1
        self.names.append(name)
        if self.count == self.fatal:
            os.kill(os.getpid(), signal.SIGKILL)


class SystemDisk:
    """The system disk of dev1, by the names of its images."""

    def __init__(self, world: World) -> None:
        self.world = world

    def image(self) -> str:
        return str(self.world.get()["disk"]["now"])

    def require_exchangeable(self) -> None:
        """It always can."""

    def stage(self, image: ImageSource, size_gib: int) -> None:
        self.world.step("stage", lambda found: found["disk"].update(staged=f"{image.name}-{image.digest}"))

    def swap(self) -> None:
        def change(found: dict[str, Any]) -> None:
            assert found["now"][DEV1] == "stopped" and found["disk"]["staged"]
            disk = found["disk"]
            found["disk"] = {"now": disk["staged"], "staged": "", "before": disk["now"]}

        self.world.step("swap", change)

    def swap_back(self) -> None:
        def change(found: dict[str, Any]) -> None:
            assert found["now"][DEV1] == "stopped"
            found["disk"].update(now=found["disk"]["before"], before="")

        self.world.step("swap back", change)

    def has_kept(self) -> bool:
        return bool(self.world.get()["disk"]["before"])

    def forget(self) -> None:
        self.world.step("forget", lambda found: found["disk"].update(staged="", before=""))


class Backups:
    """Backups of dev1, whose only content is `home`, which begins with its nonce."""

    def __init__(self, world: World, folder: Path) -> None:
        self.world, self.folder = world, folder

    @contextlib.contextmanager
    def moment(self, nonce: str) -> Iterator[Moment]:
        runs = self.world.get()["now"][DEV1] == "running"
        if runs:
            self.world.step("nonce", lambda found: found.update(home=f"{nonce} {found['home'].split()[1]}"))
        yield Moment(runs, 0.1, [Source("vda", SIZE, SIZE, [self.world.get()["home"]])])

    @contextlib.contextmanager
    def room(self, purpose: str, needed: int) -> Iterator[Path]:
        self.world.step("room")
        yield self.folder

    @contextlib.contextmanager
    def scratch(self, disks: Mapping[str, Path]) -> Iterator[Any]:
        self.world.step("boot scratch")
        yield _guest(disks["vda"].read_text())

    def mend(self) -> None:
        if self.world.get()["kept_home"]:
            raise SiteError("machine", DEV1, "a restore was interrupted", "mv it back")

    @contextlib.contextmanager
    def swap(self, disks: Mapping[str, Path]) -> Iterator[None]:
        found = self.world.get()
        assert found["now"][DEV1] == "stopped" and not found["kept_home"]
        restored = disks["vda"].read_text()
        self.world.step("swap content", lambda found: found.update(kept_home=found["home"], home=restored))
        try:
            yield
        except BaseException:
            self.world.step("content back", lambda found: found.update(home=found["kept_home"], kept_home=""))
            raise
        self.world.step("content forgotten", lambda found: found.update(kept_home=""))

    @contextlib.contextmanager
    def guest(self) -> Iterator[Any]:
        yield _guest(self.world.get()["home"])


class Repository:
    """The rows that restic would list; a disk's is there before the manifest that makes it a backup."""

    location = "paper"

    def __init__(self, world: World, folder: Path) -> None:
        self.world, self.folder = world, folder

    def require_room(self, used: int) -> None:
        pass

    def prepare(self) -> bool:
        return False

    def snapshots(self) -> list[dict[str, Any]]:
        return list(self.world.get()["rows"])

    def keep(self, source: Source, desktop: str, backup: str) -> tuple[KeptDisk, int]:
        identity = os.urandom(4).hex()
        row = {"id": identity, "tags": disk_tags(desktop, backup), "content": source.argv[0]}
        self.world.step("keep", lambda found: found["rows"].append(row))
        return KeptDisk(source.target, SIZE, SIZE, identity), 1

    def finish(self, backup: Backup) -> None:
        row = {"id": os.urandom(4).hex(), "tags": backup.tags}
        self.world.step("manifest", lambda found: found["rows"].append(row))

    def tag(self, backup: Backup) -> None:
        def change(found: dict[str, Any]) -> None:
            (row,) = [row for row in found["rows"] if row["id"] == backup.manifest]
            row["tags"] = backup.tags

        self.world.step("tag", change)

    def restore(self, disk: KeptDisk, folder: Path) -> Path:
        (row,) = [row for row in self.snapshots() if row["id"] == disk.snapshot]
        path = self.folder / "restored"
        path.write_text(row["content"])
        self.world.step("restored")
        return path


class Machines:
    """The machines of the workspace."""

    def __init__(self, world: World, folder: Path) -> None:
        self.world, self.folder = world, folder

    def states(self) -> dict[str, dict[str, Any]]:
        found = self.world.get()
        return {name: {"state": state, "desired": found["wanted"][name]} for name, state in found["now"].items()}

    def desired(self) -> dict[str, Power]:
        return {name: Power(power) for name, power in self.world.get()["wanted"].items()}

    def want(self, domain: str, power: Power) -> None:
        self.world.step("want", lambda found: found["wanted"].update({domain: str(power)}))

    def mend_wishes(self, domains: Collection[str]) -> None:
        """A wish is what was written last."""

    def take_room(self, domain: str) -> None:
        """There is always room."""

    def require_room_again(self, domain: str) -> None:
        """There is always room."""

    def start(self, domain: str) -> None:
        self._move(domain, "running")

    def shut_down(self, domain: str, *, force: bool) -> None:
        self._move(domain, "stopped")

    def pause(self, domain: str, *, to_disk: bool) -> None:
        self._move(domain, "saved" if to_disk else "paused")

    def snapshots(self, domain: str) -> list[Snapshot]:
        return [Snapshot(**row) for row in self.world.get()["snapshots"]]

    def take_snapshot(self, domain: str, wanted: Snapshot) -> None:
        row = asdict(replace(wanted, memory=True, made=len(self.snapshots(domain)) + 1))
        self.world.step("take", lambda found: found["snapshots"].append(row))

    def restore_snapshot(self, domain: str, name: str) -> None:
        assert name in [snapshot.name for snapshot in self.snapshots(domain)]
        self._move(domain, "running")

    def delete_snapshot(self, domain: str, name: str) -> None:
        def change(found: dict[str, Any]) -> None:
            found["snapshots"] = [row for row in found["snapshots"] if row["name"] != name]

        self.world.step("delete", change)

    def images(self) -> dict[str, str]:
        return dict.fromkeys(self.states(), self.world.get()["disk"]["now"])

    def system(self, domain: str) -> SystemDisk:
        return SystemDisk(self.world)

    def backups(self, domain: str) -> Backups:
        return Backups(self.world, self.folder)

    def host_key(self, domain: str) -> str:
        return "the key"

    def _move(self, domain: str, state: str) -> None:
        self.world.step(state, lambda found: found["now"].update({domain: state}))


def manifests(world: World) -> int:
    """How many backups are tied together."""
    return sum(MANIFEST in row["tags"] for row in world.get()["rows"])


def _guest(home: str) -> Any:
    return SimpleNamespace(nonce=lambda: home.split()[0], faults=list)
