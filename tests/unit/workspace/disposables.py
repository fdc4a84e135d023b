"""Machines at the seats of workspace `lab` as files, which several processes see; and its declaration."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from deskyard.declaration.declaration import Declared
from deskyard.errors import HostError, SiteError
from deskyard.host.secret_file import write_secret
from deskyard.model.site import Site
from deskyard.model.workspace import Workspace
from deskyard.plan.first_boot import FirstBoot
from deskyard.plan.image.source import ImageSource
from deskyard.plan.warm import BOOTS
from deskyard.plan.workspace import DesktopPlan, WorkspacePlan, plan_workspace

IMAGES = {name: ImageSource(name, "0123", "disk") for name in ("desktop", "gateway", "agent")}


@dataclass(frozen=True)
class Known(Declared):
    """A declaration whose images are built: these, and no template of them."""

    images: Mapping[str, ImageSource] = field(default_factory=lambda: IMAGES)

    def image_sources(self) -> dict[str, ImageSource]:
        return dict(self.images)

    def management_key(self) -> str:
        return "ssh-ed25519 AAAA x"

    def templates(self) -> dict[str, str]:
        return {}


def declared(seats: int, size: int | None = None, images: Mapping[str, ImageSource] = IMAGES, **keys: Any) -> Any:
    """A workspace of a desktop that is kept and so many seats, of which `size` are to wait."""
    desktops = [{"name": "kept"}, *({"name": f"s{number}", "lifetime": "task"} for number in range(1, seats + 1))]
    pool = {"size": seats if size is None else size}
    values = {"name": "lab", "network": "10.80.1.0/24", "desktops": desktops, "pool": pool, **keys}
    workspace, site = Workspace.check(values, "test"), Site()
    return Known(workspace, site, plan_workspace(workspace, site, "tcg"), images=images)


@dataclass
class Disposables:
    """A file for each machine, with its words; `made` and `removed` are those of this process."""

    folder: Path
    # How each says that it started.
    starts: str = BOOTS

    def __post_init__(self) -> None:
        self.folder.mkdir(exist_ok=True)
        self.made: list[DesktopPlan] = []
        self.removed: list[str] = []
        self.full = False
        # Those that do not go.
        self.stuck: set[str] = set()

    def record(self) -> None:
        return None

    def there(self) -> set[str]:
        return {path.name for path in self.folder.iterdir() if not path.name.startswith(".")}

    def marks(self) -> dict[str, dict[str, str]]:
        return {seat: json.loads((self.folder / seat).read_text()) for seat in self.there()}

    def mark(self, seat: str, words: Mapping[str, str]) -> None:
        write_secret(self.folder / seat, json.dumps(dict(words)).encode())

    def require_room(self, seat: DesktopPlan) -> None:
        if self.full:
            raise HostError("memory", f"{seat.machine.memory_mib} MiB", "100 MiB are available", "release others")

    def make(
        self,
        plan: WorkspacePlan,
        seat: DesktopPlan,
        image: ImageSource | None,
        first_boot: FirstBoot,
        template: str | None,
    ) -> str:
        (self.folder / seat.name).write_text("{}")
        self.made.append(seat)
        return self.starts

    def remove(self, seat: str) -> None:
        if seat in self.stuck:
            raise SiteError("machine", seat, "its process does not end", "look at its disk")
        (self.folder / seat).unlink(missing_ok=True)
        self.removed.append(seat)
