"""Runs as root in a machine that goes on from a template: makes it itself, before it has a NIC.

Its values come by standard input as NAME=VALUE, each ended by a NUL: TEMPLATE and TEMPLATE_MAC (what stands in their
place), NAME, MAC, NIC (its name), MACHINE_ID, INSTANCE, MANAGER, KEYS (public ones), SEED (random), EPOCH.

Whoever wants the machine waits for this, and an emulated one takes a tenth of a second for each program that it starts,
or for a module such as `json`. So it is one program, imports what is built into Python, and works while those that it
needs run beside it.
"""

import fcntl
import os
import pwd
import select
import stat
import sys
import time

RESEED_SECONDS = 10.0
RESEEDED = b"crng reseeded due to virtual machine fork"
BLKFLSBUF = 0x1261
SEED_DISC = "/dev/vdb"
HOST_KEY = "/etc/ssh/ssh_host_ed25519_key"
NETWORK = ("/etc/systemd/network", "/etc/netplan", "/etc/udev/rules.d")
NETPLAN = "/usr/sbin/netplan"
SSH_SOCKET = "/etc/systemd/system/sockets.target.wants/ssh.socket"
CLOUD = "/var/lib/cloud"
HOME, HOME_KNOWN = "/home", "/var/lib/deskyard/home-volume"
# With its NIC, which comes next, the network does: systemd-networkd waits for it. What else starts would only take the
# processor from that.
LATER = """
/usr/lib/systemd/systemd-networkd-wait-online --interface="$1" --timeout=120
# Makes its secret first.
for link in /etc/systemd/system/*.wants/agent-openclaw.service; do
  if [ -L "$link" ]; then systemctl start --no-block agent-openclaw.service; fi
done
# What had read the template's identity reads its own, behind all that answers somebody.
systemctl restart systemd-journald.service
journalctl --flush
systemctl start systemd-random-seed.service
/usr/lib/systemd/systemd-random-seed save
sync
"""


def values(text: str) -> dict[str, str]:
    """The values by their names."""
    return dict(pair.split("=", 1) for pair in text.split("\0") if pair)


def draw_random_numbers(seed: str) -> None:
    """Return when the kernel has seen that it is another machine; it drew its siblings' random numbers before."""
    put("/dev/urandom", seed)
    end = time.monotonic() + RESEED_SECONDS
    log = os.open("/dev/kmsg", os.O_RDONLY | os.O_NONBLOCK)
    while not any(RESEEDED in record for record in records(log)):
        left = end - time.monotonic()
        if left <= 0:
            raise SystemExit("its kernel did not draw new random numbers")
        select.select([log], [], [], left)


def records(log: int) -> list[bytes]:
    """The records of the kernel's log that were not read yet."""
    found = []
    while True:
        try:
            found.append(os.read(log, 8192))
        except BrokenPipeError:
            continue  # what came next was overwritten: the next read begins behind it
        except BlockingIOError:
            return found


def start(path: str, *arguments: str) -> int:
    """Start a program; its process."""
    return os.posix_spawn(path, [path, *arguments], os.environ)


def finish(process: int, name: str) -> None:
    """Wait for a program; ends this one if it failed."""
    code = os.waitstatus_to_exitcode(os.waitpid(process, 0)[1])
    if code != 0:
        raise SystemExit(f"{name} ended with {code}")


def put(path: str, text: str) -> None:
    """Write a small file as it stands there, or anew."""
    with open(path, "w", encoding="utf-8", errors="surrogateescape") as file:
        file.write(text)


def replace(paths: list[str], old: str, new: str) -> None:
    """Write one text in place of another wherever it stands in those of these files that are there."""
    for path in paths:
        if (before := text_of(path)) is not None and old in before:
            rewrite(path, before.replace(old, new))


def text_of(path: str) -> str | None:
    """The text of a file; None where there is none."""
    try:
        with open(path, encoding="utf-8", errors="surrogateescape") as file:
            return file.read()
    except FileNotFoundError:
        return None


def rewrite(path: str, text: str) -> None:
    """Write a file anew, as its owner has it; a cut leaves the old or the new one."""
    found, fresh = os.stat(path), f"{path}.new"
    put(fresh, text)
    os.chown(fresh, found.st_uid, found.st_gid)
    os.chmod(fresh, stat.S_IMODE(found.st_mode))
    os.replace(fresh, path)


def files(folders: tuple[str, ...]) -> list[str]:
    """The files below these folders, as far as there are any."""
    return [os.path.join(folder, name) for top in folders for folder, _, names in os.walk(top) for name in names]


def keep_host_key(key: str, home: str) -> None:
    """Keep the host key as role home_volume does: with /home it outlives the system disk."""
    fresh = f"{home}/.deskyard/identity.new"
    for folder in (f"{home}/.deskyard", fresh):
        os.makedirs(folder, exist_ok=True)
        os.chmod(folder, 0o700)
    for path in (key, f"{key}.pub"):
        with open(path, "rb") as file:
            content, mode = file.read(), stat.S_IMODE(os.fstat(file.fileno()).st_mode)
        copy = os.open(f"{fresh}/{os.path.basename(path)}", os.O_WRONLY | os.O_CREAT | os.O_TRUNC, mode)
        os.fchmod(copy, mode)
        os.write(copy, content)
        os.fsync(copy)
        os.close(copy)
    os.rename(fresh, f"{home}/.deskyard/identity")


def let_in(keys: str, account: str) -> None:
    """Let the owners of these public keys in as this account."""
    owner = pwd.getpwnam(account)
    folder = f"{owner.pw_dir}/.ssh"
    os.makedirs(folder, exist_ok=True)
    put(f"{folder}/authorized_keys", f"{keys}\n")
    for path, mode in ((folder, 0o700), (f"{folder}/authorized_keys", 0o600)):
        os.chown(path, owner.pw_uid, owner.pw_gid)
        os.chmod(path, mode)


def be_instance(cloud: str, before: str, instance: str) -> None:
    """Have cloud-init find the first boot of this instance over: what it does once is not done again."""
    os.rename(f"{cloud}/instances/{before}", f"{cloud}/instances/{instance}")
    os.symlink(f"/var/lib/cloud/instances/{instance}", f"{cloud}/instance.new")
    os.replace(f"{cloud}/instance.new", f"{cloud}/instance")
    folder = f"{cloud}/instances/{instance}"
    if os.path.exists(f"{folder}/obj.pkl"):
        os.unlink(f"{folder}/obj.pkl")
    for file in ("instance-id", "previous-instance-id"):
        put(f"{cloud}/data/{file}", f"{instance}\n")


def named(cloud: str, instance: str) -> list[str]:
    """Where cloud-init keeps the name of its instance: until it has read its seed the next boot takes it from there."""
    folder = f"{cloud}/instances/{instance}"
    texts = [f"{folder}/{file}" for file in os.listdir(folder) if file.endswith((".txt", ".txt.i"))]
    return [f"{cloud}/data/previous-hostname", f"{cloud}/data/set-hostname", *texts]


def main() -> None:
    """Do it, and leave behind what starts the rest once the network is up."""
    own = values(sys.stdin.buffer.read().decode())
    time.clock_settime(time.CLOCK_REALTIME, float(own["EPOCH"]))
    # No key is made before that.
    draw_random_numbers(own["SEED"])
    name = own["NAME"]
    key = start("/usr/bin/ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", f"root@{name}", "-f", HOST_KEY)
    # The kernel has that of the template's boot.
    with open("/proc/sys/kernel/random/uuid", encoding="ascii") as drawn:
        put("/run/deskyard-boot-id", drawn.read())
    boot = start("/usr/bin/mount", "--bind", "/run/deskyard-boot-id", "/proc/sys/kernel/random/boot_id")
    put("/etc/machine-id", f"{own['MACHINE_ID']}\n")
    put("/etc/hostname", f"{name}\n")
    put("/proc/sys/kernel/hostname", f"{name}\n")
    replace(files(NETWORK), own["TEMPLATE_MAC"], own["MAC"])
    netplan = start(NETPLAN, "generate") if os.path.exists(NETPLAN) else None
    # Its seed is another disc than the one that was looked at.
    disc = os.open(SEED_DISC, os.O_RDONLY)
    fcntl.ioctl(disc, BLKFLSBUF)
    os.close(disc)
    let_in(own["KEYS"], own["MANAGER"])
    be_instance(CLOUD, own["TEMPLATE"], own["INSTANCE"])
    replace(["/etc/hosts", *named(CLOUD, own["INSTANCE"])], own["TEMPLATE"], name)
    finish(key, "ssh-keygen")
    # Whoever waits for its routes comes in by SSH next: it is there before them.
    ssh = start("/usr/bin/systemctl", "start", "ssh.socket" if os.path.islink(SSH_SOCKET) else "ssh.service")
    if os.path.ismount(HOME):
        keep_host_key(HOST_KEY, HOME)
        put(HOME_KNOWN, "")
    os.sync()
    finish(boot, "mount")
    if netplan is not None:
        finish(netplan, "netplan")
    finish(ssh, "systemctl")
    # The agent waits for whoever holds its pipes.
    silent = [(os.POSIX_SPAWN_OPEN, stream, os.devnull, os.O_RDWR, 0) for stream in range(3)]
    os.posix_spawn("/bin/sh", ["sh", "-c", LATER, "later", own["NIC"]], os.environ, file_actions=silent, setsid=True)


if __name__ == "__main__":
    main()
