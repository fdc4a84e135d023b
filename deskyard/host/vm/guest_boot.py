"""Boots a disk in a throw-away virtual machine: nothing of it reaches the disk, and it ends with the block."""

import os
import socket
import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from deskyard.errors import BuildError, CommandError, HostError
from deskyard.host.command import Result, run
from deskyard.host.vm.cpu import QEMU, cpu_arguments
from deskyard.host.vm.evidence import TEST_CONSOLE, TEST_QEMU, TEST_SCREEN, save_screen
from deskyard.host.vm.panic import ended_by_panic
from deskyard.host.vm.qemu import Machine
from deskyard.host.vm.scratch import SSH_CONFIG
from deskyard.host.vm.seed import write_seed
from deskyard.plan.workspace import Accelerator

BOOT_SECONDS: dict[Accelerator, float] = {"kvm": 180, "tcg": 600}
NAME = "guest"
GROWTH_GIB = 4
# The kernel takes no more bytes for the name of a socket; ssh makes its own under its name and 17 characters first.
LONGEST_SOCKET, DRAFT = 107, ".0123456789abcdef"
MAC = "52:54:00:00:00:01"
# The fixed addresses of QEMU's user network. The NIC has the name of a gateway's outer one: its firewall lets SSH in
# from there alone, and to a desktop the name does not matter.
NETWORK = {
    "version": 2,
    "ethernets": {
        "uplink": {
            "match": {"macaddress": MAC},
            "set-name": "uplink",
            "addresses": ["10.0.2.15/24"],
            "routes": [{"to": "0.0.0.0/0", "via": "10.0.2.2"}],
            "nameservers": {"addresses": ["10.0.2.3"]},
        }
    },
}


@dataclass(frozen=True)
class Guest:
    """A running throw-away guest; `ssh_config` knows it as `guest`."""

    folder: Path
    console: Path
    ssh_config: Path
    boot_seconds: float

    def ssh(self, *command: str, timeout: float = 60, check: bool = True) -> Result:
        """Run a command line in the guest."""
        return run(["ssh", "-F", str(self.ssh_config), NAME, *command], timeout=timeout, check=check)


def free_port() -> int:
    """A TCP port of the loopback address that nobody has right now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def make_key(folder: Path) -> Path:
    """A new SSH key pair that lives as long as its folder."""
    key = folder / "key"
    run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "deskyard-build", "-f", str(key)], timeout=30)
    return key


@contextmanager
def boot_guest(
    disk: Path,
    folder: Path,
    *,
    accelerator: Accelerator,
    user: str,
    memory_mib: int = 2048,
    hostname: str = "image-test",
    logs: Path | None = None,
    keep: bool = False,
) -> Iterator[Guest]:
    """Boot `disk` below an overlay in `folder` and wait for SSH as `user`; raises `BuildError` if it does not come.

    What the guest says on its console goes to `logs` (by default `folder`), and so does its screen if the block fails;
    with `keep` it then goes on running.
    """
    folder.mkdir(parents=True, exist_ok=True)
    logs = logs or folder
    key, port, machine = make_key(folder), free_port(), Machine(folder)
    overlay, seed, console = folder / "overlay.qcow2", folder / "seed.iso", logs / TEST_CONSOLE
    run(["qemu-img", "create", "-q", "-f", "qcow2", "-b", str(disk), "-F", "qcow2", str(overlay)], timeout=60)
    # Larger than the image, as a tier's disk is: so its growth is seen.
    run(["qemu-img", "resize", "-q", str(overlay), f"+{GROWTH_GIB}G"], timeout=60)
    public = key.with_suffix(".pub").read_text().strip()
    write_seed(
        seed,
        meta_data={"instance-id": f"{hostname}-{port}", "local-hostname": hostname},
        user_data={"ssh_authorized_keys": [public]},
        network_config=NETWORK,
    )
    ssh_config = folder / SSH_CONFIG
    write_ssh_config(ssh_config, key, port, user)
    argv = [
        "sh",
        "-c",
        machine.starting(QEMU),
        QEMU,
        *cpu_arguments(accelerator),
        "-m",
        str(memory_mib),
        *_devices(overlay, seed, console, port),
    ]
    with _process(argv, logs / TEST_QEMU, keep=keep) as process, ended_by_panic(process, console):
        try:
            seconds = _await_ssh(process, ssh_config, console, BOOT_SECONDS[accelerator])
            with _process(["ssh", "-F", str(ssh_config), "-M", "-N", NAME], folder / "ssh.log"):
                yield Guest(folder, console, ssh_config, seconds)
        except Exception:
            save_screen(machine, logs / TEST_SCREEN)
            raise


def _devices(overlay: Path, seed: Path, console: Path, port: int) -> list[str]:
    return [
        *("-nodefaults", "-no-user-config", "-display", "none", "-vga", "std"),
        *("-drive", f"file={overlay},if=virtio,format=qcow2,cache=unsafe"),
        *("-drive", f"file={seed},if=virtio,format=raw,readonly=on"),
        *("-netdev", f"user,id=net0,hostfwd=tcp:127.0.0.1:{port}-:22"),
        *("-device", f"virtio-net-pci,netdev=net0,mac={MAC}"),
        *("-device", "virtio-rng-pci"),
        *("-chardev", f"file,id=console,path={console}", "-serial", "chardev:console"),
        # A channel nobody listens to, so that the guest agent has what it waits for.
        *("-device", "virtio-serial-pci", "-chardev", "null,id=agent"),
        *("-device", "virtserialport,chardev=agent,name=org.qemu.guest_agent.0"),
    ]


def write_ssh_config(path: Path, key: Path, port: int, user: str) -> None:
    """Write a configuration of SSH that knows the guest at a loopback port as `guest`."""
    path.write_text(
        f"Host {NAME}\n"
        "  HostName 127.0.0.1\n"
        f"  Port {port}\n"
        f"  User {user}\n"
        f"  IdentityFile {key}\n"
        "  IdentitiesOnly yes\n"
        "  BatchMode yes\n"
        "  ConnectTimeout 20\n"
        # The guest makes its host key at this very boot; the first answer on this loopback port is the guest's.
        "  StrictHostKeyChecking accept-new\n"
        f"  UserKnownHostsFile {path.parent}/known_hosts\n"
        "  LogLevel ERROR\n"
        # One connection for all commands: a key exchange costs an emulated guest seconds.
        f"  ControlPath {_control_path(path.parent)}\n"
    )


def _control_path(folder: Path) -> str:
    """Where ssh shares its connection; in a folder that is too deep for a socket each command has its own."""
    mux = folder / "mux"
    return str(mux) if len(os.fsencode(mux)) + len(DRAFT) <= LONGEST_SOCKET else "none"


@contextmanager
def _process(argv: Sequence[str], log: Path, *, keep: bool = False) -> Iterator[subprocess.Popen[bytes]]:
    """A program that ends with the block; with `keep`, a block that fails, not one that is interrupted, leaves it."""
    with log.open("wb") as output:
        try:
            process = subprocess.Popen(
                argv, stdin=subprocess.DEVNULL, stdout=output, stderr=output, start_new_session=True
            )
        except FileNotFoundError as error:
            raise HostError("program", argv[0], "is not installed", "run ./inv host.prepare") from error
    kept = False
    try:
        yield process
    except Exception:
        kept = keep
        raise
    finally:
        if not kept:
            _end(process)


def _end(process: subprocess.Popen[bytes]) -> None:
    process.terminate()
    try:
        process.wait(timeout=10)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait(timeout=10)


def _await_ssh(process: subprocess.Popen[bytes], ssh_config: Path, console: Path, seconds: float) -> float:
    started = time.monotonic()
    while time.monotonic() - started < seconds:
        if process.poll() is not None:
            reason = f"the virtual machine ended at once; QEMU's words are in {console.with_name(TEST_QEMU)}"
            raise BuildError("boot", console.parent.name, reason, "mend what QEMU names")
        try:
            argv = ["ssh", "-F", str(ssh_config), "-o", "ControlPath=none", NAME, "true"]
            if run(argv, timeout=40, check=False).code == 0:
                return time.monotonic() - started
        except CommandError:
            continue
        time.sleep(1)
    reason = f"no SSH within {seconds:.0f} s"
    raise BuildError("boot", console.parent.name, reason, f"read the console: {console}")
