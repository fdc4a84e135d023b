"""What any process of this machine shows while a test does something: its command line and its environment."""

import contextlib
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

PLACES = ("cmdline", "environ")


@dataclass
class Seen:
    """Everything that was shown, by place; how often was looked."""

    shown: dict[str, set[bytes]] = field(default_factory=lambda: {place: set() for place in PLACES})
    looks: int = 0

    def places_of(self, text: str) -> list[str]:
        """Where a text was seen."""
        return [place for place, found in self.shown.items() if any(text.encode() in content for content in found)]


@contextmanager
def watching() -> Iterator[Seen]:
    """Look at all processes, without a pause, while the block lasts."""
    seen, over = Seen(), threading.Event()
    watcher = threading.Thread(target=_watch, args=(seen, over), daemon=True)
    watcher.start()
    try:
        yield seen
    finally:
        over.set()
        watcher.join(10)


def _watch(seen: Seen, over: threading.Event) -> None:
    while not over.is_set():
        for process in Path("/proc").iterdir():
            if process.name.isdigit():
                for place in PLACES:
                    with contextlib.suppress(OSError):
                        seen.shown[place].add((process / place).read_bytes())
        seen.looks += 1
        over.wait(0.01)
