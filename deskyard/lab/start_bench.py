"""Measures how desktops start: cold, from a template, claimed from a pool, many at once; as ratios of one run."""

import importlib
import io
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any
from uuid import UUID

from PIL import Image, ImageColor

from deskyard.access import access
from deskyard.declaration.declaration import Declared
from deskyard.errors import DeskyardError, SiteError
from deskyard.host.deadline import Deadline
from deskyard.host.places import places, tree
from deskyard.host.progress import say, step
from deskyard.image import warm
from deskyard.image.check.first_frame import Wallpaper, wallpaper
from deskyard.image.store.store import require
from deskyard.lab.desktop_bench import NAME, bare_boot, own_stacks
from deskyard.lab.quantile import Row, judged, quantile, row
from deskyard.life.pool import filling, making, pool
from deskyard.plan.image.image import read_image
from deskyard.plan.pool.seat import Claim
from deskyard.plan.workspace import IMAGES, DesktopPlan
from deskyard.site.libvirt import daemon
from deskyard.site.ssh_link import SshLink
from deskyard.workspace import readiness, workspace
from deskyard.workspace.seats import Seats

ROUTES, FRAME, IDENTITY = "all routes answer", "a drawn frame through the gateway", "an identity of its own, over SSH"
BARE, COLD, WARM, CLAIM = "bare boot of the same disk -> SSH", "cold", "warm", "claim"
# Measured, not judged: of eight emulated desktops at once each answers slowly.
FRAME_SECONDS, SSH_SECONDS, HOUR = 900.0, 600.0, 3600.0
PAUSE_SECONDS = 0.1


def measure(rounds: int, at_once: int) -> list[Row]:
    """Measure everything in a workspace of its own; raises an error before anything is made if an image is missing."""
    for image in IMAGES:
        require(image)
    waits: dict[str, list[float]] = {BARE: [bare_boot()]}
    with own_stacks(_declaration(at_once)), _workspace() as (declared, seats):
        first = declared.plan.seats[0]
        for _ in range(rounds):
            _add(waits, COLD, _start(declared, seats, first, cold=True))
        with step("template"):
            warm.make(first.machine.image, declared.site, first.tier)
        for _ in range(rounds):
            _add(waits, WARM, _start(declared, seats, first))
        for _ in range(rounds):
            claimed, waited = _claim(declared)
            waits.setdefault(CLAIM, []).append(claimed)
            _add(waits, CLAIM, waited)
        together, memory = _together(declared, seats)
        for waited in together:
            _add(waits, f"{at_once} {WARM} at once", waited)
        return rows(waits, at_once, len(together), memory)


def rows(waits: Mapping[str, Sequence[float]], at_once: int, came: int, memory_mib: Sequence[int]) -> list[Row]:
    """The waits as rows; the last row is the memory of each desktop that idles, MiB instead of seconds."""
    (bare,) = waits[BARE]
    found = [row(name, measured, bare) for name, measured in waits.items()]
    cold, quick = waits.get(f"{COLD} -> {FRAME}"), waits.get(f"{WARM} -> {FRAME}")
    if cold and quick:
        times = quantile(cold, 0.5) / quantile(quick, 0.5)
        found.append(Row(f"{WARM} is so many times as fast", times, times, times, times, 1, ">= 25", times >= 25))
    if CLAIM in waits:
        found = [judged(each, "s", 1) if each.name == CLAIM else each for each in found]
    found.append(Row(f"came up of {at_once} at once", came, came, came, came / at_once, 1, "all", came == at_once))
    if memory_mib:
        found.append(row("memory of a desktop that idles, MiB", memory_mib, 1.0))
    return found


def _declaration(seats: int) -> str:
    """A workspace of seats alone, which `own_stacks` keeps out of everybody's way."""
    names = "".join(f"\n    - {{name: s{number}, lifetime: task}}" for number in range(1, seats + 1))
    values = f"deskyard:network: 10.80.1.0/24\n  deskyard:gateway_port: 8443\n  deskyard:desktops:{names}"
    return f"config:\n  {values}\n  deskyard:pool: {{size: 1}}\n"


@contextmanager
def _workspace() -> Iterator[tuple[Declared, Seats]]:
    try:
        workspace.up(NAME)
        yield pool.opened(NAME)
    finally:
        workspace.destroy(NAME)


def _add(waits: dict[str, list[float]], how: str, waited: Mapping[str, float]) -> None:
    for what, seconds in waited.items():
        waits.setdefault(f"{how} -> {what}", []).append(seconds)
        say(f"    {how} -> {what}: {seconds:.1f} s")


def _start(declared: Declared, seats: Seats, seat: DesktopPlan, *, cold: bool = False) -> dict[str, float]:
    """Make a desktop at a seat, and remove it: how long each thing took from the beginning."""
    began = time.monotonic()
    with seats.hold(seat.name):
        try:
            making.make(seats, declared, seat, _claimed(), routes=True, cold=cold)
            return {ROUTES: time.monotonic() - began, **_seen(declared, seat, began)}
        finally:
            seats.remove(seat.name)


def _seen(declared: Declared, seat: DesktopPlan, began: float) -> dict[str, float]:
    """When its screen showed the wallpaper, and when it told who it is: both asked through the gateway.

    Raises `SiteError` if it is somebody else, as one that goes on from a template is until it is made itself.
    """
    link, waits = SshLink(declared.site.name, declared.workspace.name), {}
    shown = wallpaper(read_image(tree(), seat.machine.image), tree())
    if shown is not None:
        granted = access.grant(f"{declared.workspace.name}/{seat.name}", mode="agent")
        authority = places().authority(declared.site.name)
        _wait_for(shown, str(granted["url"]), str(authority) if authority.exists() else None)
        waits[FRAME] = time.monotonic() - began
    answer = link.run(seat.name, ["cat", "/etc/machine-id"], timeout=SSH_SECONDS).stdout.strip()
    waits[IDENTITY] = time.monotonic() - began
    with daemon.machine(seat.machine.domain) as machine:
        own = UUID(machine.UUIDString()).hex
    if answer != own:
        reason = f"says that its machine-id is {answer[:40]!r}, and its machine's is {own}"
        raise SiteError("desktop", seat.name, reason, "see its console, and that of the template")
    return waits


def _wait_for(shown: Wallpaper, link: str, authority: str | None) -> None:
    """Return when a picture of the screen, taken by a link, has the wallpaper's colour at the wallpaper's pixel."""
    sdk = _sdk()
    refusals = [f"the pixel never was {shown.colour}"]

    def is_drawn() -> bool:
        try:
            data = desktop.screen(region=(shown.x, shown.y, 1, 1), format="png").data
        except sdk.DesktopError as error:
            refusals.append(str(error))
            return False
        assert data is not None
        return Image.open(io.BytesIO(data)).convert("RGB").getpixel((0, 0)) == ImageColor.getrgb(shown.colour)

    with sdk.Desktop.connect(link, authority) as desktop:
        if not Deadline(FRAME_SECONDS).wait_for(is_drawn, PAUSE_SECONDS):
            raise SiteError("screen", None, f"no frame of it was drawn: {refusals[-1]}", "see ./inv desktop.health")


def _sdk() -> Any:
    """The SDK of this tree: a distribution of its own, which nothing else of the workshop needs."""
    if (folder := str(tree() / "sdk")) not in sys.path:
        sys.path.append(folder)
    return importlib.import_module("deskyard_sdk")


def _claim(declared: Declared) -> tuple[float, dict[str, float]]:
    """The time of a claim of a desktop that was made ahead, and how long all took from there; it is released."""
    filling.fill(NAME)
    began = time.monotonic()
    found = pool.claim(NAME, None, None, int(HOUR))
    claimed = time.monotonic() - began
    try:
        seat = declared.plan.seat(found["name"])
        readiness.wait(declared.plan, desktops=[seat])
        return claimed, {ROUTES: time.monotonic() - began, **_seen(declared, seat, began)}
    finally:
        pool.release(found["target"])


def _together(declared: Declared, seats: Seats) -> tuple[list[dict[str, float]], list[int]]:
    """Make all at once: the times of those that came up, and what memory each takes while it idles."""
    pool.drain(NAME)

    def start(seat: DesktopPlan) -> dict[str, float] | None:
        began = time.monotonic()
        try:
            making.make(seats, declared, seat, _claimed(), routes=True)
            return {ROUTES: time.monotonic() - began, **_seen(declared, seat, began)}
        except DeskyardError as error:
            say(f"    {seat.name}: {error.reason.splitlines()[0]}")
            return None

    with ThreadPoolExecutor(len(declared.plan.seats)) as workers:
        came = [waited for waited in workers.map(start, declared.plan.seats) if waited is not None]
    memory = _memory(declared)
    seats.remove_all()
    return came, memory


def _memory(declared: Declared) -> list[int]:
    """The memory of this machine that the process of each machine has, MiB."""
    found: list[int] = []
    for seat in declared.plan.seats:
        try:
            with daemon.machine(seat.machine.domain) as machine:
                stats: Any = machine.memoryStats()
        except DeskyardError:
            continue
        found.append(int(stats.get("rss", 0)) // 1024)
    return found


def _claimed() -> Claim:
    return Claim("bench", time.time() + HOUR)
