"""Downloads an official release, checks it, and unpacks it."""

import hashlib
import shutil
import tarfile
import tempfile
import urllib.error
import urllib.request
import zipfile
from pathlib import Path

from deskyard.errors import HostError
from deskyard.toolchain.tool import Release

CONNECT_SECONDS = 20


def download(release: Release, folder: Path) -> Path:
    """Unpack `release` as `folder` and answer the program in it; nothing is there unless its checksum was right.

    The program's neighbours in the archive are kept: Pulumi finds its language hosts beside itself. Raises
    `HostError` if the release cannot be reached or is not the pinned one.
    """
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder.parent) as workshop:
        archive = Path(workshop) / "archive"
        _fetch(release.url, archive)
        checksum = hashlib.sha256(archive.read_bytes()).hexdigest()
        if checksum != release.sha256:
            reason = f"its SHA-256 is {checksum}, pinned is {release.sha256}"
            raise HostError("release", release.url, reason, "do not use it; find out why it changed")
        unpacked = Path(workshop) / "unpacked"
        _unpack(archive, unpacked)
        program = unpacked / release.member
        program.chmod(0o755)
        shutil.rmtree(folder, ignore_errors=True)
        program.parent.rename(folder)
    return folder / program.name


def _fetch(url: str, archive: Path) -> None:
    try:
        with urllib.request.urlopen(url, timeout=CONNECT_SECONDS) as answer, archive.open("wb") as file:
            shutil.copyfileobj(answer, file)
    except (urllib.error.URLError, TimeoutError, OSError) as error:
        cause = getattr(error, "reason", error)
        raise HostError("release", url, f"cannot be reached: {cause}", "check the network or a proxy") from error


def _unpack(archive: Path, folder: Path) -> None:
    if zipfile.is_zipfile(archive):
        with zipfile.ZipFile(archive) as pack:
            pack.extractall(folder)
        return
    with tarfile.open(archive) as pack:
        pack.extractall(folder, filter="data")
