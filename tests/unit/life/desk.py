"""A desktop whose disk is a file, and what backups ask of it."""

import contextlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from deskyard.errors import SiteError
from deskyard.plan.backup import Moment, Source
from tests.unit.life.machines import DEV1, Machines

TARGET = "lab/dev1"
SIZE = 4 << 20


@dataclass
class Desk:
    """A desktop whose disk is a file that begins with its nonce, and what makes backups of it."""

    folder: Path
    machines: Machines
    reader: str = "cat"
    wrong: list[str] = field(default_factory=list)
    boots: bool = True
    kept: bool = False

    @property
    def disk(self) -> Path:
        return self.folder / "disk"

    def write(self, text: str, nonce: str | None = None) -> None:
        self.disk.write_text(f"{nonce or self.disk.read_text().split()[0]} {text}".ljust(SIZE, "."))

    def text(self) -> str:
        return self.disk.read_text().split()[1].rstrip(".")

    @contextlib.contextmanager
    def moment(self, nonce: str) -> Iterator[Moment]:
        runs = self.machines.now[DEV1] == "running"
        if runs:
            self.write(self.text(), nonce)
        yield Moment(runs, 0.1, [Source("vda", SIZE, SIZE, ["sh", "-c", f"{self.reader} {self.disk}"])])

    @contextlib.contextmanager
    def room(self, purpose: str, needed: int) -> Iterator[Path]:
        folder = self.folder / purpose
        folder.mkdir()
        yield folder
        for path in folder.iterdir():
            path.unlink()
        folder.rmdir()

    def look(self, path: Path) -> Any:
        if not self.boots:
            raise SiteError("machine", "x", "the restored machine did not boot", "see its console")
        return SimpleNamespace(nonce=lambda: path.read_text().split()[0], faults=lambda: self.wrong)

    @contextlib.contextmanager
    def scratch(self, disks: Mapping[str, Path]) -> Iterator[Any]:
        yield self.look(disks["vda"])

    @contextlib.contextmanager
    def guest(self) -> Iterator[Any]:
        yield self.look(self.disk)

    def renew(self, disks: Mapping[str, Path], prove: Callable[[Any], None], identity: Mapping[str, str]) -> None:
        prove(self.look(disks["vda"]))
        disks["vda"].write_text(f"{identity['NONCE']} {identity['TEXT']}".ljust(SIZE, "."))

    def put_back(self) -> None:
        self.kept = False

    def mend(self) -> None:
        if self.kept:
            raise SiteError("machine", "x", "a restore was interrupted", "mv it back")

    @contextlib.contextmanager
    def swap(self, disks: Mapping[str, Path]) -> Iterator[None]:
        assert self.machines.now[DEV1] == "stopped"
        before = self.disk.read_bytes()
        self.disk.write_bytes(disks["vda"].read_bytes())
        try:
            yield
        except BaseException:
            self.machines.now[DEV1] = "stopped"
            self.disk.write_bytes(before)
            raise
