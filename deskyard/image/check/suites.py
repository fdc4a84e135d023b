"""Tests a disk: what must not be in it before it ever booted, then what it does once booted."""

import sys
from dataclasses import dataclass
from pathlib import Path

from deskyard.errors import BuildError, CommandError
from deskyard.host.command import run
from deskyard.host.places import tree
from deskyard.host.progress import Timings, say, step
from deskyard.host.vm.guest_boot import Guest, boot_guest
from deskyard.image.check.first_frame import wallpaper
from deskyard.image.check.hygiene import Check, examine, require_clean
from deskyard.image.check.inventory import Inventory, take
from deskyard.image.check.measures import Measures, measure
from deskyard.model.image import AnyImage, CustomImage
from deskyard.model.tier import TIERS
from deskyard.plan.account import MANAGER
from deskyard.plan.image.suites import suite_folders
from deskyard.plan.workspace import Accelerator

TEST_SECONDS: dict[Accelerator, float] = {"kvm": 1800, "tcg": 5400}
# An image of ours is tested in little memory, what is added to it in that of the smallest tier.
MEMORY_MIB, CUSTOM_MEMORY_MIB = 2048, TIERS["free"].memory_mib


@dataclass(frozen=True)
class Verdict:
    """The verdict on a tested image, and what it told about itself."""

    inventory: Inventory
    boot_seconds: float
    hygiene: tuple[Check, ...] = ()
    measures: Measures | None = None


def check_image(
    image: AnyImage, disk: Path, accelerator: Accelerator, logs: Path, timings: Timings, *, keep: bool = False
) -> Verdict:
    """Run the suites of the image's roles against `disk`; raises `BuildError` naming what failed.

    What comes up is kept in the folder of the disk; with `keep`, a guest that failed goes on running.
    """
    with step("check the disk before its first boot", timings):
        hygiene = _check_unbooted(disk, disk.parent / "unbooted.raw")
    with (
        step("boot the image and run its tests", timings),
        boot_guest(
            disk,
            disk.parent / "boot",
            accelerator=accelerator,
            user=MANAGER,
            memory_mib=CUSTOM_MEMORY_MIB if isinstance(image, CustomImage) else MEMORY_MIB,
            logs=logs,
            keep=keep,
        ) as guest,
    ):
        say(f"    SSH after {guest.boot_seconds:.0f} s")
        try:
            measures = measure(guest, wallpaper(image, tree()))
            suites = [*map(str, suite_folders(image, tree()))]
            _pytest(suites, logs, "booted", TEST_SECONDS[accelerator], *_where(guest), f"--infra-image={image.name}")
            return Verdict(take(guest), guest.boot_seconds, hygiene, measures)
        except Exception:
            _keep_journal(guest, logs)
            raise


def _check_unbooted(disk: Path, raw: Path) -> tuple[Check, ...]:
    run(["qemu-img", "convert", "-O", "raw", str(disk), str(raw)], timeout=600)
    checks = examine(raw)
    require_clean(checks)
    raw.unlink()
    return checks


def _where(guest: Guest) -> list[str]:
    return ["--hosts=ssh://guest", f"--ssh-config={guest.ssh_config}", "--sudo"]


def _pytest(suites: list[str], logs: Path, name: str, seconds: float, *options: str) -> None:
    log = logs / f"tests-{name}.log"
    argv = [sys.executable, "-m", "pytest", "-m", "", "-p", "no:cacheprovider", "--color=no"]
    argv += [f"--junitxml={logs / f'tests-{name}.xml'}", *options, *suites]
    with log.open("w") as file:

        def keep(line: str) -> None:
            file.write(line + "\n")
            if line.startswith(("FAILED", "ERROR")) or " passed" in line or " failed" in line:
                say(f"    {line.strip('= ')}")

        try:
            run(argv, timeout=seconds, on_line=keep, cwd=tree())
        except CommandError as error:
            failed = [line for line in log.read_text().splitlines() if line.startswith(("FAILED", "ERROR"))]
            reason = "its tests failed:\n" + "\n".join(failed or [error.reason])
            raise BuildError("image", logs.name, reason, "mend the role that the test names") from error


def _keep_journal(guest: Guest, logs: Path) -> None:
    try:
        journal = guest.ssh("sudo", "journalctl", "--boot", "--no-pager", check=False, timeout=90)
        (logs / "test-journal.log").write_text(journal.stdout)
    except CommandError as error:
        say(f"    the journal could not be read: {error.reason}")
