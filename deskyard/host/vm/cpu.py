"""The emulator, and the processors that it gives a throw-away machine."""

from deskyard.plan.workspace import Accelerator

QEMU = "qemu-system-x86_64"
# How many, of which model: emulation panics recent kernels with two of them, or with the newest model.
CPUS: dict[Accelerator, tuple[int, str]] = {"kvm": (2, "host"), "tcg": (1, "Nehalem")}


def cpu_arguments(accelerator: Accelerator) -> list[str]:
    """QEMU's arguments for accelerator and processors."""
    count, model = CPUS[accelerator]
    return ["-accel", accelerator, "-cpu", model, "-smp", str(count)]
