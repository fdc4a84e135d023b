"""A guest that takes all that it can get: inodes, disks, memory, processes; `taker/` is what runs in it.

It is Debian's kernel with busybox, started without a boot loader, and says on its serial line how far it came.
"""

import contextlib
import lzma
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from deskyard.host.command import run
from deskyard.host.places import tree
from deskyard.image.base.bootstrap import apt_sources
from deskyard.lab.tree import cached
from deskyard.plan.image.image import base_image
from deskyard.site.libvirt import documents

PROGRAMS = Path(__file__).with_name("taker")
PACKAGES = ("linux-image-cloud-amd64", "busybox-static")
KERNEL, BUSYBOX, MODULE = "vmlinuz", "busybox", "virtio_blk.ko"


@contextlib.contextmanager
def started_without_loader(domain: str) -> Iterator[None]:
    """Whoever defines that domain meanwhile gives it this guest to start; its files are gone afterwards."""
    # QEMU's account has to pass.
    with tempfile.TemporaryDirectory(prefix="dytaker.") as name, pytest.MonkeyPatch.context() as patch:
        folder = Path(name)
        folder.chmod(0o711)
        shutil.copy(_parts() / KERNEL, folder)
        _write_initrd(folder / "initrd")
        patch.setattr(documents, "domain", partial(_started, documents.domain, domain, folder))
        yield


def said(text: str) -> list[list[str]]:
    """What a guest has said by then, in words: of each line what stands behind its name."""
    lines = text.replace("\r", "").rpartition("\n")[0].splitlines()
    return [line.partition("taker: ")[2].split() for line in lines if "taker: " in line]


def _parts() -> Path:
    base = base_image(tree(), "desktop").base.bootstrap
    argv = ["mmdebstrap", "--variant=extract", "--aptopt=APT::Install-Recommends false"]
    argv += [f"--include={','.join(PACKAGES)}", base.suite]
    sources = apt_sources(base)

    def make(destination: Path) -> None:
        extracted = destination.with_name("extracted")
        run([*argv, str(extracted), *sources], timeout=1800)
        destination.mkdir()
        _only(extracted, "boot/vmlinuz-*").rename(destination / KERNEL)
        shutil.copy(extracted / "usr/bin/busybox", destination / BUSYBOX)
        module = _only(extracted, f"usr/lib/modules/*/kernel/drivers/block/{MODULE}.xz")
        (destination / MODULE).write_bytes(lzma.decompress(module.read_bytes()))

    return cached("taker", repr((argv, sources)), make)


def _only(folder: Path, pattern: str) -> Path:
    (found,) = folder.glob(pattern)
    return found


def _write_initrd(destination: Path) -> None:
    with tempfile.TemporaryDirectory() as name:
        root, parts = Path(name), _parts()
        for folder in ("bin", "dev", "etc", "mnt", "proc"):
            (root / folder).mkdir()
        shutil.copy(parts / BUSYBOX, root / "bin")
        shutil.copy(parts / MODULE, root)
        applets = subprocess.run([parts / BUSYBOX, "--list"], capture_output=True, text=True, check=True, timeout=60)
        for applet in set(applets.stdout.split()) - {BUSYBOX}:
            (root / "bin" / applet).symlink_to(BUSYBOX)
        (root / "init").symlink_to(f"bin/{BUSYBOX}")
        shutil.copy(PROGRAMS / "inittab", root / "etc")
        for program in ("fill", "bomb", "watch"):
            shutil.copy(PROGRAMS / program, root)
            (root / program).chmod(0o755)
        names = "\n".join(str(path.relative_to(root)) for path in sorted(root.rglob("*")))
        pack = [str(parts / BUSYBOX), "cpio", "-o", "-H", "newc"]
        with destination.open("wb") as file:
            subprocess.run(pack, cwd=root, input=names.encode(), stdout=file, check=True, timeout=60)


def _started(make_document: Callable[..., str], domain: str, folder: Path, **values: Any) -> str:
    document = make_document(**values)
    if values["name"] != domain:
        return document
    root = ElementTree.fromstring(document)
    system = root.find("os")
    assert system is not None
    for name, value in (("kernel", folder / KERNEL), ("initrd", folder / "initrd"), ("cmdline", "console=ttyS0 quiet")):
        ElementTree.SubElement(system, name).text = str(value)
    return ElementTree.tostring(root, encoding="unicode")
