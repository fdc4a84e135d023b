"""The list of who may answer has only what a gateway takes, and few gateways at once are told it."""

import json
import logging
import secrets
import threading
from collections.abc import Callable, Mapping
from contextlib import nullcontext
from typing import Any, cast

import cbor2
import pytest
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from cryptography.hazmat.primitives.serialization import load_pem_public_key

from deskyard.access.gateway_program import TooOld
from deskyard.control.approvals import deciders
from deskyard.control.approvals.deciders import AGAIN_SECONDS, AT_ONCE, OLD_SECONDS, Bringer
from deskyard.control.store.connection import Link
from deskyard.control.store.pool import Lend
from deskyard.errors import ConfigError, SiteError
from deskyard.gateway.egress import cli
from deskyard.gateway.egress.ask import deciders as of_gateway
from deskyard.host.deadline import Deadline

ORIGIN = "https://mission.localhost:9443"
NAMES = tuple(f"w{number}" for number in range(3 * AT_ONCE))


def elliptic() -> tuple[bytes, Any]:
    key = ec.generate_private_key(ec.SECP256R1()).public_key()
    numbers = key.public_numbers()
    x, y = (number.to_bytes(32, "big") for number in (numbers.x, numbers.y))
    return cbor2.dumps({1: 2, 3: -7, -1: 1, -2: x, -3: y}), key


def edwards() -> tuple[bytes, Any]:
    key = ed25519.Ed25519PrivateKey.generate().public_key()
    return cbor2.dumps({1: 1, 3: -8, -1: 6, -2: key.public_bytes_raw()}), key


def prime(algorithm: int = -257) -> tuple[bytes, Any]:
    key = rsa.generate_private_key(65537, 2048).public_key()
    numbers = key.public_numbers()
    n, e = numbers.n.to_bytes(256, "big"), numbers.e.to_bytes(3, "big")
    return cbor2.dumps({1: 3, 3: algorithm, -1: n, -2: e}), key


def row(name: str, cose: bytes, id: bytes | None = None) -> dict[str, Any]:
    """A passkey as the database has it."""
    id = secrets.token_bytes(16) if id is None else id
    return {"name": name, "role": "operator", "workspaces": None, "id": id, "public_key": cose}


def listed(*rows: dict[str, Any]) -> list[str]:
    """Whose passkeys a list has, which a gateway takes."""
    document = deciders._document("lab", list(rows), None, ORIGIN)
    text = json.dumps(document, sort_keys=True)
    assert len(text) < cli.LIST_LIMIT
    return [passkey.person for passkey in of_gateway.parse(text).passkeys]


@pytest.mark.parametrize("made", [elliptic, edwards, prime])
def test_key_of_each_kind_is_brought_as_it_was_enrolled(made: Callable[[], tuple[bytes, Any]]) -> None:
    cose, key = made()
    passkey = deciders._passkey("ada", b"id", cose)
    assert passkey is not None and load_pem_public_key(passkey["key"].encode()) == key
    assert passkey["algorithm"] == cbor2.loads(cose)[3] and listed(row("ada", cose)) == ["ada"]


def test_what_is_brought_is_what_a_gateway_takes() -> None:
    assert (deciders.ALGORITHMS, deciders.MOST_PASSKEYS) == (of_gateway.ALGORITHMS, of_gateway.MOST_PASSKEYS)
    assert deciders.NAME == of_gateway._NAME and deciders.MOST_BYTES < cli.LIST_LIMIT
    assert of_gateway._ID.fullmatch("a" * deciders.MOST_ID) and not of_gateway._ID.fullmatch(
        "a" * (deciders.MOST_ID + 1)
    )


def test_what_a_gateway_would_not_take_is_left_out_and_said_once(caplog: pytest.LogCaptureFixture) -> None:
    good = elliptic()[0]
    wrong = [row("e" * 301, good), row("a\nb", good), row("longid", good, b"x" * 1051), row("other", prime(-37)[0])]
    wrong += [row("noid", good, b""), row("broken", b"x")]
    for _ in range(2):
        assert listed(row("ada", good), *wrong, row("m" * 254, good)) == ["ada", "m" * 254]
    assert [record.levelname for record in caplog.records] == ["WARNING"] * len(wrong)
    assert all(
        "is not brought to gateways" in record.message and "\n" not in record.message for record in caplog.records
    )


@pytest.mark.parametrize(("id_bytes", "fits"), [(16, deciders.MOST_PASSKEYS), (1050, range(1000, 1400))])
def test_list_of_a_great_many_has_as_many_as_a_gateway_reads(
    caplog: pytest.LogCaptureFixture, id_bytes: int, fits: Any
) -> None:
    cose = elliptic()[0]
    rows = [row(f"p{number}", cose, number.to_bytes(id_bytes, "big")) for number in range(deciders.MOST_PASSKEYS + 1)]
    found = len(listed(*rows))
    assert found == fits if isinstance(fits, int) else found in fits
    assert f"{len(rows) - found} of them answer nothing there" in caplog.text


class Nobody:
    """A database with nobody in it, and with workspaces that run."""

    def __init__(self, names: tuple[str, ...]) -> None:
        self._names = names
        self._found: list[dict[str, Any]] = []

    def execute(self, query: Any, values: Any = None) -> "Nobody":
        self._found = [{"id": name} for name in self._names] if query == deciders.ASKING else []
        return self

    def fetchall(self) -> list[dict[str, Any]]:
        return self._found


def looked(bringer: Bringer, *names: str) -> None:
    """Have it look, and begin what there is to tell."""
    bringer._next = Deadline(0)
    bringer.look(cast(Link, Nobody(names)), cast(Lend, lambda: nullcontext(Nobody(names))), ORIGIN)


def joined(bringer: Bringer) -> None:
    for thread in list(bringer._threads._threads.values()):
        thread.join(60)
        assert not thread.is_alive()


def test_few_gateways_are_told_at_once_and_all_in_the_end() -> None:
    heard: list[str] = []
    begun, go = threading.Semaphore(0), threading.Event()

    def tell(name: str, document: Mapping[str, Any]) -> dict[str, Any]:
        begun.release()
        assert go.wait(60)
        heard.append(name)
        return {"changed": True}

    bringer = Bringer(tell, lambda name: True)
    looked(bringer, *NAMES)
    for _ in range(AT_ONCE):
        assert begun.acquire(timeout=60)
    # Those beside them have not been let in.
    assert not begun.acquire(blocking=False) and not bringer._few.acquire(blocking=False)
    go.set()
    joined(bringer)
    assert sorted(heard) == sorted(NAMES) and bringer.changes == dict.fromkeys(NAMES, 1)


def test_only_gateways_that_ask_are_told() -> None:
    heard: list[str] = []

    def tell(name: str, document: Mapping[str, Any]) -> dict[str, Any]:
        heard.append(name)
        return {"changed": False}

    bringer = Bringer(tell, lambda name: name == "asks")
    looked(bringer, "asks", "silent")
    joined(bringer)
    assert heard == ["asks"] and bringer.changes["asks"] == 0
    assert 0 < bringer._pauses["silent"].left <= AGAIN_SECONDS


@pytest.mark.parametrize(
    ("error", "level", "pause"),
    [
        (SiteError("gateway", "lab", "is away", "wait"), logging.INFO, AGAIN_SECONDS),
        (
            ConfigError("deciders", None, "is no list", "send it"),
            logging.WARNING,
            AGAIN_SECONDS,
        ),
        (TooOld("gateway", "lab", "is from before gateways verified answers", "up"), logging.INFO, OLD_SECONDS),
    ],
)
def test_gateway_that_could_not_be_told_is_not_taken_for_told(
    caplog: pytest.LogCaptureFixture, error: Exception, level: int, pause: float
) -> None:
    caplog.set_level(logging.INFO)
    answers = iter([error, None])

    def tell(name: str, document: Mapping[str, Any]) -> dict[str, Any]:
        if (failure := next(answers)) is not None:
            raise failure
        return {"changed": True}

    bringer = Bringer(tell, lambda name: True)
    looked(bringer, "lab")
    joined(bringer)
    assert [record.levelno for record in caplog.records] == [level]
    assert pause - 20 < bringer._pauses["lab"].left <= pause
    bringer._pauses.clear()
    looked(bringer, "lab")
    joined(bringer)
    assert bringer.changes["lab"] == 1


def test_what_was_brought_is_read_and_written_by_one_thread_at_a_time() -> None:
    bringer = Bringer(lambda name, document: {"changed": True}, lambda name: True)
    held: list[bool] = []

    class Shared(dict[str, str]):
        """It would end the worker to look through it while a thread writes into it."""

        def items(self) -> Any:
            held.append(bringer._lock.locked())
            return super().items()

        def __setitem__(self, name: str, text: str) -> None:
            held.append(bringer._lock.locked())
            super().__setitem__(name, text)

    bringer._brought = Shared(gone="")
    bringer.bring(cast(Lend, lambda: nullcontext(Nobody(()))), "lab", ORIGIN)
    looked(bringer, "lab")
    joined(bringer)
    assert held == [True, True] and set(bringer._brought) == {"lab"}
