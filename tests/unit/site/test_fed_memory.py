"""Saved memory is fed through a pipe: a new head, then the stream; nobody waits for a reader that never came."""

import subprocess
from pathlib import Path

import pytest

from deskyard.errors import SiteError
from deskyard.site.libvirt.warm import making, restoring, save_image, templates
from deskyard.site.libvirt.warm.save_image import Head

STREAM = b"QEVM" + bytes(range(256)) * 4096
HEAD = save_image.write(Head("<domain/>" * 20_000, "<cookie/>"))


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of a template, whose memory came in pieces."""
    monkeypatch.setenv("DESKYARD_HOME", str(tmp_path))
    found = templates.folder("t")
    found.mkdir(parents=True)
    saved = save_image.write(Head("<domain/>", "")) + STREAM
    making._unpack((saved[at : at + 1000] for at in range(0, len(saved), 1000)), found)
    return found


def test_reader_finds_the_new_head_and_the_stream_behind_it(folder: Path) -> None:
    with restoring._fed(HEAD, folder / templates.MEMORY) as path:
        assert path.read_bytes() == HEAD + STREAM
    assert not path.exists()


def test_reader_that_breaks_off_ends_the_feeding(folder: Path) -> None:
    with restoring._fed(HEAD, folder / templates.MEMORY) as path, path.open("rb") as pipe:
        assert pipe.read(100) == HEAD[:100]


@pytest.mark.parametrize("refuses_at_once", [True, False])
def test_nobody_waits_for_a_reader_that_never_came(folder: Path, refuses_at_once: bool) -> None:
    with restoring._fed(HEAD, folder / templates.MEMORY) as path:
        if not refuses_at_once:
            subprocess.run(["sleep", "0.3"], check=True)
    assert not path.exists()


def test_reader_of_memory_that_cannot_be_unpacked_gets_something_that_is_none(folder: Path) -> None:
    (folder / templates.MEMORY).write_bytes(b"not packed")
    with restoring._fed(HEAD, folder / templates.MEMORY) as path:
        assert path.read_bytes() == HEAD + restoring.NO_MEMORY


def test_memory_that_libvirt_packed_itself_is_refused(folder: Path) -> None:
    with pytest.raises(SiteError, match="save_image_format"):
        making._unpack([save_image.write(Head("<domain/>", "", compression=1))], folder)
