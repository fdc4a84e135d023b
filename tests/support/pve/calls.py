"""What the API was asked, so that tests can count calls and look for secrets in them."""

import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

# Values that are secret wherever they are well placed; anything else that is secret must not have been sent.
SECRET_PARAMETERS = frozenset({"password", "cipassword", "confirmation-password", "ticket", "otp"})
# What goes to a guest is said through its agent and may hold secrets: tests look at the agent for it.
GUEST_PARAMETERS = frozenset({"content", "input-data"})


@dataclass
class Call:
    """One API call; `status` is 0 while it runs and where its connection was cut."""

    number: int
    method: str
    path: str
    user: str | None = None
    parameters: dict[str, Any] = field(default_factory=dict)
    status: int = 0

    @property
    def writes(self) -> bool:
        """True if it may change something."""
        return self.method not in ("GET", "HEAD")

    def __str__(self) -> str:
        """Everything that a scan should see."""
        return f"{self.method} {self.path} {self.parameters}"


class Calls:
    """All API calls in the order in which they came."""

    def __init__(self) -> None:
        self._all: list[Call] = []
        self._lock = threading.Lock()

    def begin(self, method: str, path: str) -> Call:
        """Note a call that has come in; calls are counted from 1."""
        with self._lock:
            call = Call(len(self._all) + 1, method, path)
            self._all.append(call)
            return call

    def clear(self) -> None:
        """Forget them, and count from 1 again."""
        with self._lock:
            self._all.clear()

    def __iter__(self) -> Iterator[Call]:
        with self._lock:
            return iter(list(self._all))

    def __len__(self) -> int:
        return len(self._all)

    def writes(self) -> list[Call]:
        """Those that may have changed something."""
        return [call for call in self if call.writes]

    def to(self, method: str, suffix: str) -> list[Call]:
        """Those of a method whose path ends so."""
        return [call for call in self if call.method == method and call.path.endswith(suffix)]


def redacted(path: str, parameters: dict[str, Any]) -> dict[str, Any]:
    """Parameters as they may be kept."""
    to_guest = "/agent/" in path
    hidden = SECRET_PARAMETERS | GUEST_PARAMETERS if to_guest else SECRET_PARAMETERS
    return {key: "***" if key in hidden else value for key, value in parameters.items()}
