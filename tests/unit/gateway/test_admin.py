"""Who asks the session service gets an answer, whatever fails in it."""

import asyncio
import fcntl
import json
import termios
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from deskyard.errors import GatewayError
from deskyard.gateway.session import admin, line

WAIT_SECONDS = 30


class Broken:
    """Sessions of a service in which something nobody thought of fails, and one that counts desktops."""

    awaiting = SimpleNamespace(hear_stages=len)

    async def listing(self) -> list[dict[str, Any]]:
        raise RuntimeError("the database is malformed")


async def asked(path: Path, pieces: list[bytes]) -> Any:
    """The answer to a request that comes in pieces; the next when the one before has been read."""
    server = await admin.serve(Broken(), path)  # type: ignore[arg-type]
    async with server, asyncio.timeout(WAIT_SECONDS):
        reader, writer = await asyncio.open_unix_connection(str(path))
        line = writer.get_extra_info("socket")
        for piece in pieces:
            writer.write(piece)
            await writer.drain()
            while fcntl.ioctl(line.fileno(), termios.TIOCOUTQ, bytes(4)) != bytes(4):
                await asyncio.sleep(0)
        writer.write_eof()
        answer = json.loads(await reader.read())
        writer.close()
    return answer


def test_request_that_comes_in_pieces_is_read_to_its_end(tmp_path: Path) -> None:
    text = json.dumps({"command": "stages", "desktops": {f"desktop-{number}": "x" * 100 for number in range(200)}})
    pieces = [text[first : first + 8192].encode() for first in range(0, len(text), 8192)]
    answer = asyncio.run(asked(tmp_path / "admin.sock", pieces))
    assert answer == {"result": 200}


def test_request_that_is_too_long_is_refused_in_so_many_words(tmp_path: Path) -> None:
    answer = asyncio.run(asked(tmp_path / "admin.sock", [b"[" * admin.LIMIT, b"["]))
    assert "is longer than" in answer["error"]["reason"]


def test_failure_that_nobody_thought_of_is_told_with_its_reason(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    async def ask() -> None:
        server = await admin.serve(Broken(), tmp_path / "admin.sock")  # type: ignore[arg-type]
        async with server:
            await asyncio.to_thread(line.ask, tmp_path / "admin.sock", {"command": "list"})

    with pytest.raises(GatewayError) as caught:
        asyncio.run(ask())
    assert (caught.value.value, "the database is malformed" in caught.value.reason) == ("list", True)
    assert "journalctl" in caught.value.remedy
    assert "Traceback" in capsys.readouterr().err
