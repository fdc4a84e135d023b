"""Finds out how this machine runs virtual machines: with KVM where a kernel truly boots, else emulated."""

import json
import os
import subprocess
import tempfile
from pathlib import Path
from typing import Literal, cast

from deskyard.errors import ConfigError, HostError
from deskyard.host.deadline import Deadline
from deskyard.host.places import places
from deskyard.host.progress import say
from deskyard.host.secret_file import write_secret
from deskyard.host.vm.cpu import QEMU, cpu_arguments
from deskyard.plan.workspace import Accelerator

Setting = Literal["auto", "kvm", "tcg"]

VARIABLE = "DESKYARD_ACCELERATOR"
DEVICE = Path("/dev/kvm")
BOOT_ID = Path("/proc/sys/kernel/random/boot_id")
PROBE_SECONDS = 45.0
# The first line of userspace: a kernel that hangs under KVM never gets there.
USERSPACE = b"systemd[1]:"


def accelerator(setting: Setting) -> Accelerator:
    """The accelerator to use; `auto` trusts a boot, not the device file, and remembers it until the next reboot."""
    setting = _override(setting)
    if setting == "tcg":
        return "tcg"
    if not os.access(DEVICE, os.R_OK | os.W_OK):
        if setting == "kvm":
            raise HostError("accelerator", "kvm", f"{DEVICE} cannot be opened", "join group kvm, or set auto")
        return "tcg"
    if setting == "kvm":
        return "kvm"
    return _remembered() or _probe_and_remember()


def _override(setting: Setting) -> Setting:
    value = os.environ.get(VARIABLE) if setting == "auto" else None
    if value is None:
        return setting
    if value not in ("auto", "kvm", "tcg"):
        raise ConfigError(VARIABLE, value, "is no accelerator", "set auto, kvm or tcg")
    return cast(Setting, value)


def _memory() -> Path:
    return places().state / "accelerator.json"


def _remembered() -> Accelerator | None:
    try:
        answer = json.loads(_memory().read_text())
    except (FileNotFoundError, ValueError):
        return None
    same = answer.get("boot_id") == BOOT_ID.read_text().strip()
    return cast(Accelerator, answer["accelerator"]) if same else None


def _probe_and_remember() -> Accelerator:
    disk = _bootable_disk()
    if disk is None:
        # Nothing to boot yet: be slow rather than hang, and ask again when there is a disk.
        return "tcg"
    say("==> trying whether KVM boots a kernel")
    found: Accelerator = "kvm" if boots_with_kvm(disk) else "tcg"
    say(f"    {found} (remembered until the machine restarts)")
    write_secret(_memory(), json.dumps({"boot_id": BOOT_ID.read_text().strip(), "accelerator": found}).encode())
    return found


def _bootable_disk() -> Path | None:
    candidates = [*places().bases.glob("*/disk.qcow2"), *places().images.glob("*/*/disk.qcow2")]
    return min(candidates, key=lambda path: path.stat().st_size, default=None)


def boots_with_kvm(disk: Path, seconds: float = PROBE_SECONDS) -> bool:
    """Whether a guest reaches userspace from `disk` with KVM in the given time; writes nothing to the disk."""
    with tempfile.TemporaryDirectory(prefix="deskyard-kvm-") as folder:
        console = Path(folder) / "console.log"
        argv = [QEMU, *cpu_arguments("kvm"), "-m", "1024", "-display", "none", "-monitor", "none", "-net", "none"]
        argv += ["-drive", f"file={disk},if=virtio,format=qcow2,snapshot=on"]
        argv += ["-chardev", f"file,id=console,path={console}", "-serial", "chardev:console"]
        process = subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            return _reaches_userspace(process, console, seconds)
        finally:
            process.kill()
            process.wait(timeout=10)


def _reaches_userspace(process: subprocess.Popen[bytes], console: Path, seconds: float) -> bool:
    def is_there() -> bool:
        return console.is_file() and USERSPACE in console.read_bytes()

    Deadline(seconds).wait_for(lambda: is_there() or process.poll() is not None, 0.5)
    return is_there()
