"""Downloads an official release and unpacks it."""

import bz2
import shutil
import tarfile
import tempfile
import zipfile
from pathlib import Path

from deskyard.errors import HostError
from deskyard.host.download import fetch
from deskyard.host.toolchain.tool import Release


def download(release: Release, folder: Path) -> Path:
    """Unpack `release` as `folder` and answer the program in it; nothing is there unless its checksum was right.

    The program's neighbours in the archive are kept: Pulumi finds its language hosts beside itself. Raises
    `HostError` if the release cannot be reached or is not the pinned one.
    """
    if release.sha256 is None:
        reason = "no checksum is pinned for it"
        raise HostError("release", release.url, reason, "give the one you trust: ./inv toolchain.get --sha256 ...")
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder.parent) as workshop:
        archive = Path(workshop) / "archive"
        fetch(release.url, archive, algorithm="sha256", checksum=release.sha256)
        unpacked = Path(workshop) / "unpacked"
        _unpack(archive, unpacked, release.member)
        program = unpacked / release.member
        program.chmod(0o755)
        shutil.rmtree(folder, ignore_errors=True)
        program.parent.rename(folder)
    return folder / program.name


def _unpack(archive: Path, folder: Path, member: str) -> None:
    if zipfile.is_zipfile(archive):
        with zipfile.ZipFile(archive) as pack:
            pack.extractall(folder)
        return
    if tarfile.is_tarfile(archive):
        with tarfile.open(archive) as pack:
            pack.extractall(folder, filter="data")
        return
    folder.mkdir()
    with bz2.open(archive) as packed, (folder / member).open("wb") as program:
        shutil.copyfileobj(packed, program)
