"""A download is the pinned file or nothing."""

import functools
import hashlib
import http.server
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from deskyard.errors import HostError
from deskyard.host.download import fetch, is_reachable

CONTENT = b"a pinned file"


class Quiet(http.server.SimpleHTTPRequestHandler):
    """Serves a folder and says nothing."""

    def log_message(self, *_arguments: object) -> None:
        """Keep the output of the tests clean."""


@pytest.fixture
def url(tmp_path: Path) -> Iterator[str]:
    served = tmp_path / "served"
    served.mkdir()
    (served / "file").write_bytes(CONTENT)
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Quiet, directory=str(served)))
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}/file"
    server.shutdown()
    server.server_close()
    thread.join()


def test_pinned_file_arrives(url: str, tmp_path: Path) -> None:
    fetch(url, tmp_path / "got", algorithm="sha256", checksum=hashlib.sha256(CONTENT).hexdigest())
    assert (tmp_path / "got").read_bytes() == CONTENT


def test_other_file_is_refused_and_not_kept(url: str, tmp_path: Path) -> None:
    with pytest.raises(HostError, match="pinned is"):
        fetch(url, tmp_path / "got", algorithm="sha256", checksum="0" * 64)
    assert [path.name for path in tmp_path.iterdir()] == ["served"]


def test_absent_file_is_a_clear_error(url: str, tmp_path: Path) -> None:
    with pytest.raises(HostError, match="404"):
        fetch(f"{url}-absent", tmp_path / "got", algorithm="sha256", checksum="0" * 64)


def test_reachable_means_that_the_file_is_there(url: str) -> None:
    assert is_reachable(url)
    assert not is_reachable(f"{url}-absent")
    assert not is_reachable("http://127.0.0.1:1/file", seconds=2)
