"""Tests a disk: what must not be in it before it ever booted, then what it does once booted."""

import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

from deskyard.errors import BuildError, CommandError
from deskyard.model.image import Image
from deskyard.plan.image import suite_folders
from deskyard.plan.workspace import Accelerator
from deskyard.run.command import run
from deskyard.run.guest_boot import Guest, boot_guest
from deskyard.run.places import tree
from deskyard.run.progress import Timings, say, step

MANAGEMENT_USER = "deskyard"
TEST_SECONDS = 1800.0


@dataclass(frozen=True)
class Verdict:
    """What a tested image told about itself."""

    packages: dict[str, str]
    boot_seconds: float


def check_image(image: Image, disk: Path, accelerator: Accelerator, logs: Path, timings: Timings) -> Verdict:
    """Run the suites of the image's roles against `disk`; raises `BuildError` naming what failed and the logs."""
    with tempfile.TemporaryDirectory(prefix=".test-", dir=disk.parent) as scratch:
        with step("check the disk before its first boot", timings):
            _check_unbooted(disk, Path(scratch) / "disk.raw", logs)
        boot = Path(scratch) / "boot"
        with (
            step("boot the image and run its tests", timings),
            boot_guest(disk, boot, accelerator=accelerator, user=MANAGEMENT_USER) as guest,
        ):
            say(f"    SSH after {guest.boot_seconds:.0f} s")
            try:
                _pytest([*map(str, suite_folders(image, tree()))], logs, "booted", *_where(guest))
                return Verdict(_packages(guest), guest.boot_seconds)
            except BaseException:
                _keep_journal(guest, logs)
                raise
            finally:
                (logs / "test-console.log").write_bytes(guest.console.read_bytes())


def _check_unbooted(disk: Path, raw: Path, logs: Path) -> None:
    run(["qemu-img", "convert", "-O", "raw", str(disk), str(raw)], timeout=600)
    suite = tree() / "tests/infra/image_hygiene/test_unbooted_disk.py"
    _pytest([str(suite)], logs, "unbooted", f"--infra-disk={raw}")
    raw.unlink()


def _where(guest: Guest) -> list[str]:
    return ["--hosts=ssh://guest", f"--ssh-config={guest.ssh_config}", "--sudo"]


def _pytest(suites: list[str], logs: Path, name: str, *options: str) -> None:
    log = logs / f"tests-{name}.log"
    argv = [sys.executable, "-m", "pytest", "-m", "vm", "-p", "no:cacheprovider", "--color=no"]
    argv += [f"--junitxml={logs / f'tests-{name}.xml'}", *options, *suites]
    with log.open("w") as file:

        def keep(line: str) -> None:
            file.write(line + "\n")
            if line.startswith(("FAILED", "ERROR")) or " passed" in line or " failed" in line:
                say(f"    {line.strip('= ')}")

        try:
            run(argv, timeout=TEST_SECONDS, on_line=keep, cwd=tree())
        except CommandError as error:
            failed = [line for line in log.read_text().splitlines() if line.startswith(("FAILED", "ERROR"))]
            reason = "its tests failed:\n" + "\n".join(failed or [error.reason]) + f"\n  log: {log}"
            raise BuildError("image", logs.name, reason, "mend the role that the test names") from error


def _packages(guest: Guest) -> dict[str, str]:
    lines = guest.ssh("dpkg-query", "-W", "-f", r"'${Package} ${Version}\n'").stdout.splitlines()
    return dict(line.split(" ", 1) for line in lines if " " in line)


def _keep_journal(guest: Guest, logs: Path) -> None:
    try:
        journal = guest.ssh("sudo", "journalctl", "--boot", "--no-pager", check=False, timeout=90)
        (logs / "test-journal.log").write_text(journal.stdout)
    except CommandError as error:
        say(f"    the journal could not be read: {error.reason}")
