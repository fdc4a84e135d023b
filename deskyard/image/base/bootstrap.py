"""Makes a bootable Debian disk from the distribution's packages, natively, without a loop device."""

import os
import shlex
from collections.abc import Sequence
from pathlib import Path

from deskyard.host.command import run
from deskyard.host.places import tree
from deskyard.host.vm.boot_sector import write_boot_sector
from deskyard.model.image_base import BootstrapBase

SECTOR = 512
BIOS_BOOT_START, ROOT_START = 2048, 4096
# The partition goes to the end; the file system leaves it room for GPT's second table and for rounding.
SPARE_SECTORS = 2048
MINUTES = 60


def bootstrap_disk(
    base: BootstrapBase,
    packages: Sequence[str],
    disk_gib: int,
    folder: Path,
    destination: Path,
    past: Sequence[str] = (),
) -> None:
    """Write a qcow2 of `disk_gib` to `destination`; `folder` is empty, private, and may be removed afterwards.

    Packages come from the sources `past` if there are any; the disk's own sources are the ordinary ones all the same.
    """
    archive = folder / "tree.tar"
    hooks = [f"printf '%s\\n' {shlex.join(apt_sources(base))} >\"$1\"/etc/apt/sources.list"] if past else []
    install_packages(base, packages, archive, [tree() / "packer/base/prepare.sh"], hooks, past)
    raw = folder / "disk.raw"
    _partition(raw, disk_gib)
    _fill(raw, archive, folder / "tree")
    _install_grub(raw, folder)
    run(["qemu-img", "convert", "-O", "qcow2", str(raw), str(destination)], timeout=10 * MINUTES)


def install_packages(
    base: BootstrapBase,
    packages: Sequence[str],
    archive: Path,
    scripts: Sequence[Path] = (),
    hooks: Sequence[str] = (),
    past: Sequence[str] = (),
) -> None:
    """Install `packages` into a new tree, run `scripts` in it, and pack it as `archive` (`-` keeps nothing).

    They come from the sources `past` if there are any, else from those of the suite.
    """
    hooks = [
        *(f'--customize-hook=chroot "$1" sh -s < {shlex.quote(str(script))}' for script in scripts),
        *(f"--customize-hook={hook}" for hook in hooks),
    ]
    keeps = archive != Path("-")
    argv = [
        "mmdebstrap",
        "--variant=apt",
        "--aptopt=APT::Install-Recommends false",
        "--dpkgopt=force-unsafe-io",
        f"--include={','.join(packages)}",
        *hooks,
        *([] if keeps else ["--format=null"]),
        base.suite,
        str(archive),
        *(past or apt_sources(base)),
    ]
    run(argv, timeout=30 * MINUTES, env={"DEBIAN_FRONTEND": "noninteractive"})


def apt_sources(base: BootstrapBase) -> list[str]:
    """The archives of the suite: its release, its updates, its security updates."""
    security = base.mirror.rstrip("/") + "-security"
    return [
        f"deb {base.mirror} {base.suite} main",
        f"deb {base.mirror} {base.suite}-updates main",
        f"deb {security} {base.suite}-security main",
    ]


def _partition(raw: Path, disk_gib: int) -> None:
    with raw.open("wb") as file:
        file.truncate(disk_gib << 30)
    argv = ["sgdisk", "--set-alignment=1"]
    argv += [f"--new=1:{BIOS_BOOT_START}:{ROOT_START - 1}", "--typecode=1:ef02", "--change-name=1:bios-boot"]
    argv += [f"--new=2:{ROOT_START}:0", "--typecode=2:8300", "--change-name=2:root"]
    run([*argv, str(raw)], timeout=MINUTES)


def _fill(raw: Path, archive: Path, folder: Path) -> None:
    """Write the tree as the root file system, with the owners it has in the archive."""
    kib = (raw.stat().st_size // SECTOR - ROOT_START - SPARE_SECTORS) * SECTOR // 1024
    make = ["mke2fs", "-q", "-F", "-t", "ext4", "-L", "root", "-O", "^metadata_csum_seed,^orphan_file"]
    make += ["-E", f"offset={ROOT_START * SECTOR},lazy_itable_init=1", "-d", str(folder), str(raw), f"{kib}k"]
    script = (
        f"mkdir {shlex.quote(str(folder))}"
        f" && tar -x --numeric-owner --xattrs --exclude='./dev/*' -C {shlex.quote(str(folder))}"
        f" -f {shlex.quote(str(archive))}"
        f" && cp {shlex.quote(str(folder))}/boot/grub/i386-pc/*.img {shlex.quote(str(raw.parent))}"
        f" && {shlex.join(make)} && rm -rf {shlex.quote(str(folder))} {shlex.quote(str(archive))}"
    )
    run([*_as_root(), "sh", "-ec", script], timeout=10 * MINUTES)


def _as_root() -> list[str]:
    """Run as root of a user namespace if not as root: it holds the files' owners."""
    return [] if os.geteuid() == 0 else ["unshare", "--map-auto", "--map-root-user", "--"]


def _install_grub(raw: Path, folder: Path) -> None:
    boot, core = (folder / "boot.img").read_bytes(), (folder / "core.img").read_bytes()
    write_boot_sector(raw, boot, core, BIOS_BOOT_START, ROOT_START - BIOS_BOOT_START)
