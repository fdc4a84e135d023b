"""The peer of the tests: a Proxmox VE API over HTTPS on loopback, in a thread of this process."""

import asyncio
import ssl
import threading
from collections.abc import Coroutine
from pathlib import Path
from types import TracebackType
from typing import Any, Self, TypeVar

import httpx

from tests.support.pve.certificate import Certificates, issue
from tests.support.pve.cluster import Capacity
from tests.support.pve.fake import Fake

T = TypeVar("T")
# Far beyond what anything takes: on a busy machine a single answer may take half a minute.
SECONDS = 300


class Peer:
    """Serves while its `with` block lasts; `fake` holds the state and the switches of what goes wrong."""

    def __init__(self, folder: Path, nodes: int = 1, capacity: Capacity | None = None) -> None:
        self.certificates: Certificates = issue(folder)
        self.fake = Fake(nodes, capacity)
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="pve", daemon=True)

    def __enter__(self) -> Self:
        """Listen on a free port of 127.0.0.1."""
        self._thread.start()
        self.wait(self.fake.start(str(self.certificates.certificate), str(self.certificates.key)))
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Stop, and let go of whoever is kept waiting."""
        self._loop.call_soon_threadsafe(self.fake.faults.wake)
        self.wait(self.fake.stop())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(SECONDS)
        self._loop.close()

    @property
    def endpoint(self) -> str:
        """Address of the API."""
        return f"https://127.0.0.1:{self.fake.port}"

    def wait(self, work: Coroutine[Any, Any, T]) -> T:
        """Run something in the thread of the API, as fakepve's own scenarios want it."""
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(SECONDS)

    def client(self, token: str | None = None) -> "Client":
        """A client that trusts the peer's authority and no other; without a token it is root."""
        context = ssl.create_default_context(cafile=str(self.certificates.authority))
        client = Client(base_url=f"{self.endpoint}/api2/json", verify=context, trust_env=False, timeout=SECONDS)
        if token is not None:
            client.headers["Authorization"] = f"PVEAPIToken={token}"
            return client
        ticket, csrf = self.fake.issue_ticket("root@pam")
        client.headers["CSRFPreventionToken"] = csrf
        client.cookies.set("PVEAuthCookie", ticket)
        return client


class Client(httpx.Client):
    """Asks the API as a person with curl would."""

    def ask(self, method: str, path: str, /, **parameters: Any) -> Any:
        """The data of an answer; any refusal fails the test with what the API said."""
        where = "params" if method in ("GET", "DELETE") else "data"
        answer = self.request(method, path, **{where: parameters})  # type: ignore[arg-type]
        assert answer.status_code == 200, f"{method} {path}: {answer.status_code} {answer.text}"
        return answer.json()["data"]

    def finish(self, method: str, path: str, /, **parameters: Any) -> str:
        """Start a task and wait for it; how it ended."""
        upid = str(self.ask(method, path, **parameters))
        node = upid.split(":")[1]
        for _ in range(SECONDS * 20):
            task = self.ask("GET", f"/nodes/{node}/tasks/{upid}/status")
            if task["status"] == "stopped":
                return str(task["exitstatus"])
            threading.Event().wait(0.05)
        raise AssertionError(f"task {upid} goes on")
