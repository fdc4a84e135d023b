"""A private socket is its owner's: nobody else opens it, and whoever asks is known by the kernel's word."""

import asyncio
import os
import stat
from pathlib import Path

import pytest

from deskyard.gateway.machine.private_socket import asking_user, is_private, listen


def test_nobody_else_opens_it_and_who_asks_is_known(tmp_path: Path) -> None:
    path = tmp_path / "of/line.sock"
    users: list[int] = []

    async def handle(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        users.append(asking_user(writer))
        writer.close()

    async def ask() -> None:
        # What a service of before has left does not stand in the way.
        for _ in range(2):
            async with await listen(handle, path, 1024):
                reader, writer = await asyncio.open_unix_connection(str(path))
                assert await reader.read() == b""
                writer.close()

    before = os.umask(0o022)
    try:
        asyncio.run(ask())
        assert os.umask(0o022) == 0o022
    finally:
        os.umask(before)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert users == [os.geteuid()] * 2


def test_root_and_the_services_own_user_are_answered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 990)
    assert [is_private(user) for user in (0, 990, 991)] == [True, True, False]
