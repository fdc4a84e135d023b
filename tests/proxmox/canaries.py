"""Secrets that are known to a test, and everything that a run leaves, shows, sends or starts, to look for them in."""

import base64
import contextlib
import json
import os
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from deskyard.engine.command import EngineCommand
from deskyard.host.places import places
from tests.proxmox.inhabited import Inhabitants
from tests.proxmox.rack import Rack

SHORTEST = 12
# Where secrets are at home.
HOMES = {"management_ed25519", "link_ed25519", "ca.key"}
SAMPLE_SECONDS = 0.005


def needles(secret: str) -> set[bytes]:
    """A secret as it may be found: each of its lines as it is, in an address, and at every place in base64."""
    found = set()
    for line in secret.splitlines():
        if len(line) < SHORTEST or line.startswith("-----"):
            continue
        found |= {line.encode(), quote(line, safe="").encode()}
        for shift in range(3):
            # What stands around it changes the first and the last characters.
            found.add(base64.b64encode(bytes(shift) + line.encode())[4:-4])
    return found


@dataclass
class Canaries:
    """What is secret, by name, and what was seen, by place."""

    rack: Rack
    inhabitants: Inhabitants
    secrets: dict[str, str]
    seen: dict[str, set[bytes]] = field(default_factory=dict)

    def see(self, place: str, *texts: str | bytes) -> None:
        """Keep what was seen somewhere."""
        kept = (text if isinstance(text, bytes) else text.encode(errors="replace") for text in texts)
        self.seen.setdefault(place, set()).update(kept)

    def leaks(self) -> dict[str, set[str]]:
        """Place -> names of the secrets that are in it, in what was seen and in what is there now."""
        self._look()
        wanted = {name: needles(secret) for name, secret in self.secrets.items()}
        found: dict[str, set[str]] = {}
        for place, texts in self.seen.items():
            everything = b"\0".join(texts)
            for name, forms in wanted.items():
                if any(form in everything for form in forms):
                    found.setdefault(place, set()).add(name)
        return found

    def _look(self) -> None:
        fake = self.rack.peer.fake
        for path in self._files():
            place = "state" if path.is_relative_to(places().pulumi) else "files"
            self.see(place, path.read_bytes())
        self.see("API calls", *(str(call) for call in fake.calls))
        self.see("machines", *(json.dumps([vm.config, vm.pending], default=str) for vm in fake.vms))
        others = [fake.pools, fake.pool_info, fake.sdn, fake.sdn_running, fake._fw()]
        self.see("cluster", json.dumps(others, default=str))
        self.see(
            "agents", *(f"{argv} {stdin}" for system in self.inhabitants.systems.all() for argv, stdin in system.ran)
        )
        self.see("command lines", self.inhabitants.street.log.read_text())
        heard = [call for program in self.inhabitants.programs() for call in program.heard]
        # The certificate's key goes this way, and no other.
        self.see("gateway", *(call.command if call.command.endswith("certificate") else str(call) for call in heard))

    def _files(self) -> Iterator[Path]:
        """What the run has written: below the site's home, in its folder of temporary files, and the stack files."""
        for folder in (self.rack.folder / "home", self.rack.folder / "tmp", self.rack.stacks):
            for path in folder.rglob("*"):
                # Programs are linked into the cache and into Pulumi's home.
                if path.is_file() and not {"cache", "plugins"} & set(path.parts) and path.name not in HOMES:
                    yield path


@contextlib.contextmanager
def watching(canaries: Canaries, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """See what the engine prints and is started with, and the command lines of everything that we start."""
    run = EngineCommand.run

    def seeing(into: Callable[[str], object] | None) -> Callable[[str], object]:
        def see(line: str) -> None:
            canaries.see("engine", line)
            if into is not None:
                into(line)

        return see

    def recorded(self: EngineCommand, args: list[str], cwd: str, env: Any, out: Any = None, err: Any = None) -> Any:
        canaries.see("command lines", " ".join(args))
        return run(self, args, cwd, env, seeing(out), seeing(err))

    monkeypatch.setattr(EngineCommand, "run", recorded)
    (temporary := canaries.rack.folder / "tmp").mkdir(exist_ok=True)
    monkeypatch.setenv("TMPDIR", str(temporary))
    over = threading.Event()
    sampler = threading.Thread(target=_sample, args=(canaries, over), daemon=True)
    sampler.start()
    yield
    over.set()
    sampler.join(10)


def _sample(canaries: Canaries, over: threading.Event) -> None:
    while not over.wait(SAMPLE_SECONDS):
        canaries.see("command lines", *_descendants(os.getpid()))


def _descendants(ancestor: int) -> list[bytes]:
    """The command lines of all processes that come from this one."""
    lines = []
    for thread in _listed(Path(f"/proc/{ancestor}/task")):
        with contextlib.suppress(OSError):
            for pid in (thread / "children").read_text().split():
                lines.append(Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" "))
                lines += _descendants(int(pid))
    return lines


def _listed(folder: Path) -> list[Path]:
    with contextlib.suppress(OSError):
        return list(folder.iterdir())
    return []
