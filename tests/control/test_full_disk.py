"""Mission Control on a disk that fills up: it says so, shows what there is, and goes on when there is room."""

import contextlib
import secrets
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from tests.control.lab import WAIT_SECONDS, Lab, lab
from tests.support.requirements import need_root

# Database and log at rest take about half of it.
MIB = 192
LONG, MOST = 20_000, 400


@pytest.fixture(scope="module")
def whole() -> Iterator[Lab]:
    """A Mission Control that keeps all it has on a small disk of its own."""
    need_root("mounts a disk of its own")
    root = Path(tempfile.mkdtemp(prefix="deskyard-control."))
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={MIB}m", "none", str(root)], check=True, timeout=WAIT_SECONDS)
    try:
        with lab(root=root) as found:
            yield found
    finally:
        subprocess.run(["umount", "--lazy", str(root)], check=False, timeout=WAIT_SECONDS)
        root.rmdir()


@contextlib.contextmanager
def full(mission: Lab) -> Iterator[None]:
    """Take all room that is left on its disk."""
    ballast = mission.folder.root / "ballast"
    try:
        with ballast.open("wb", buffering=0) as stream, contextlib.suppress(OSError):
            while stream.write(bytes(4096)):
                pass
        yield
    finally:
        ballast.unlink()


def test_a_full_disk_is_said_nothing_is_lost_and_it_goes_on_when_there_is_room(
    mission: Lab, owner: httpx.Client
) -> None:
    mission.declare("lab", "first")
    kept = []

    def write() -> httpx.Response:
        return owner.post("/api/desktops/lab.first/chat", json={"message": secrets.token_hex(LONG // 2)})

    with full(mission):
        for _ in range(MOST):
            answer = write()
            if answer.status_code != httpx.codes.ACCEPTED:
                break
            kept.append(answer.json()["messageId"])
        said = answer.json()
        assert (answer.status_code, said["field"], said["reason"]) == (503, "database", "has no room left on its disk")
        assert "make room" in said["remedy"] and answer.headers["retry-after"]
        assert owner.get("/api/desktops/lab.first").json()["state"] == "ready"
    assert write().status_code == httpx.codes.ACCEPTED
    query = "select count(*) as kept from message where id = any(%s)"
    assert mission.link.execute(query, [kept]).fetchone() == {"kept": len(kept)}
    done = owner.post("/api/desktops/lab.first/restart").json()["id"]
    assert mission.state(done, "done")["state"] == "done"
    mission.until("select 1 from audit_entry where detail ->> 'operation' = %s", [done])
    assert owner.get("/api/audit/verify").json()["ok"]
