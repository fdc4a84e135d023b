"""Who asks the session service gets an answer, whatever fails in it."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from deskyard.errors import GatewayError
from deskyard.gateway.session import admin, line


class Broken:
    """Sessions of a service in which something nobody thought of fails."""

    async def listing(self) -> list[dict[str, Any]]:
        raise RuntimeError("the database is malformed")


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
