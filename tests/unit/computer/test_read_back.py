"""Whether what was typed stands in its field: judged by the program's answers, and never of a password."""

import asyncio
import threading
from collections.abc import Iterator
from typing import Any, cast

import pytest

from deskyard.computer.accessibility.bus import Bus, Refused
from deskyard.computer.accessibility.texts import Texts
from deskyard.computer.answers.screen import Window
from deskyard.computer.display.acting import read_back
from deskyard.computer.display.acting.read_back import Field, ReadBack

FIELD = Field(":1.2/a", "Hello world", 6, 11, False)


class Answers:
    """A program that answers these texts, one after the other; the last again and again."""

    def __init__(self, *texts: str | None) -> None:
        self._texts = list(texts)

    async def focused(self, window: int) -> Field | None:
        return FIELD

    async def text(self, id: str) -> str | None:
        assert id == FIELD.id
        return self._texts.pop(0) if len(self._texts) > 1 else self._texts[0]


@pytest.fixture
def asking(monkeypatch: pytest.MonkeyPatch) -> Iterator[ReadBack]:
    """One whose event loop runs in a thread, and that gives a program up soon."""
    monkeypatch.setattr(read_back, "LATE_SECONDS", 0.1)
    monkeypatch.setattr(read_back, "AGAIN_SECONDS", 0.001)
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    found = ReadBack()
    found.loop = loop
    yield found
    loop.call_soon_threadsafe(loop.stop)
    thread.join(10)
    loop.close()


@pytest.mark.parametrize(
    ("answers", "said"),
    [
        (("Hello moon",), "same"), (("Hello ", "Hello mo", "Hello moon"), "same"), (("Hello Moon",), "different"),
        ((None,), "unknown"), (("Hello ", None), "unknown"),
    ],
)  # fmt: skip
def test_a_field_is_asked_until_it_has_what_was_typed(
    asking: ReadBack, answers: tuple[str | None, ...], said: str
) -> None:
    asking.texts = Answers(*answers)
    assert asking.before(5) == FIELD
    assert asking.outcome(FIELD, "moon") == said


def test_without_anybody_to_ask_it_is_not_known(asking: ReadBack) -> None:
    assert (asking.before(5), asking.outcome(FIELD, "moon"), asking.outcome(None, "moon")) == (None, *["unknown"] * 2)


@pytest.mark.parametrize(
    ("field", "typed", "expected"),
    [
        (FIELD, "moon", "Hello moon"), (FIELD, "a\n", None), (FIELD, "a\tb", None),
        (Field("x", "ab", 1, 1, True), "1\n2", "a1\n2b"), (Field("x", "ab", 1, 1, True), "\t", None),
        (Field("x", "", 0, 0, True), "世界", "世界"),
    ],
)  # fmt: skip
def test_typing_replaces_what_is_selected(field: Field, typed: str, expected: str | None) -> None:
    assert field.after(typed) == expected


class Played(Bus):
    """A bus with one program, whose only node has this role and the keyboard; it notes what is asked of it."""

    def __init__(self, role: int) -> None:
        super().__init__("")
        self.role = role
        self.asked: list[str] = []

    async def call(
        self, at: Any, interface: str, method: str, seconds: float, types: str = "", values: tuple[Any, ...] = ()
    ) -> Any:
        self.asked.append(method)
        if method == "GetChildren":
            return ([(":1.2", "/a")],)
        if method == "GetMatches":
            return ([(":1.2", "/entry")],)
        answers: dict[str, Any] = {
            "GetRole": (self.role,), "GetState": ([1 << 7 | 1 << 12 | 1 << 25, 0],), "GetNSelections": (0,),
            "GetInterfaces": (["org.a11y.atspi.Text"],), "GetText": ("hunter2",),
        }  # fmt: skip
        if method not in answers:
            raise Refused(method)
        return answers[method]

    async def properties(self, at: Any, interface: str, seconds: float) -> dict[str, Any]:
        return {"Name": "Sign in"}

    async def property(self, at: Any, interface: str, name: str, seconds: float) -> Any:
        return {"CharacterCount": 7, "CaretOffset": 7}[name]

    async def process(self, at: Any, seconds: float) -> int:
        return 99


async def of_window(window: int, field: str) -> Window:
    return cast(Window, {"pid": 99, "title": "Sign in"})


def test_a_password_is_never_asked_for() -> None:
    bus = Played(role=40)
    texts = Texts(bus, of_window)
    assert asyncio.run(texts.focused(5)) is None
    assert asyncio.run(texts.text(":1.2/entry")) is None
    assert "GetText" not in bus.asked


def test_a_field_that_has_the_keyboard_is_read() -> None:
    bus = Played(role=79)
    found = asyncio.run(Texts(bus, of_window).focused(5))
    assert found is not None and found.after("!") == "hunter2!"
