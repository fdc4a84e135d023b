"""What the door notes of the streams that E2B's desktop package starts on a desktop."""

import json

import pytest
from deskyard_e2b import starting
from deskyard_e2b.keeping import Kept
from deskyard_e2b.stream import KEY_SECONDS, Streams

SANDBOX = Kept("lab--a", b"owner", b"nonce", True, "base", {}, 1.0, 2.0)
KEY = "Abcdefgh01234567"
STORE = f"x11vnc -storepasswd {KEY} ~/.vnc/passwd"
BEGIN = "x11vnc -bg -display :0 -forever -wait 50 -shared -rfbport 5900 -usepw 2>/tmp/x11vnc_stderr.log  -id 7"


def message(command: str, flags: int = 0) -> bytes:
    """A request for a command as E2B's clients send it."""
    asked = {"process": {"cmd": "/bin/bash", "args": ["-l", "-c", command], "envs": {}}, "stdin": False}
    content = json.dumps(asked).encode()
    return starting.ENVELOPE.pack(flags, len(content)) + content


def heard(*commands: str, clock: float = 0.0) -> Streams:
    """The streams after these commands."""
    streams = Streams(lambda: clock)
    for command in commands:
        streams.heard(SANDBOX, SANDBOX.owner, message(command))
    return streams


def test_a_stream_with_its_key_opens_and_is_of_one_sandbox() -> None:
    streams = heard(STORE, BEGIN)
    assert streams.owner_of(SANDBOX, KEY) == b"owner"
    assert streams.owner_of(SANDBOX, KEY[:-1]) is None
    assert streams.owner_of(SANDBOX, KEY) == b"owner", "a wrong key ends nothing"
    streams.clock = lambda: KEY_SECONDS
    assert streams.owner_of(SANDBOX, KEY) is None


@pytest.mark.parametrize(
    "commands",
    [
        [],
        [STORE],
        [BEGIN],
        [STORE, BEGIN.replace("-usepw", "-nopw")],
        [STORE, BEGIN, "pkill x11vnc"],
        [STORE, BEGIN, BEGIN],
        [STORE.replace(KEY, "None"), BEGIN],
        [STORE, STORE.replace(KEY, "None"), BEGIN],
        [f"echo {STORE}", BEGIN],
    ],
)
def test_without_a_stream_that_has_a_key_nothing_opens(commands: list[str]) -> None:
    for key in (KEY, "None", ""):
        assert heard(*commands).owner_of(SANDBOX, key) is None


def test_a_key_that_another_gave_opens_nothing_by_the_stream_of_who_began_it() -> None:
    own = KEY[::-1]
    for commands in ([(b"a", STORE), (b"b", BEGIN)], [(b"b", STORE.replace(KEY, own)), (b"a", STORE), (b"b", BEGIN)]):
        streams = Streams(lambda: 0.0)
        for owner, command in commands:
            streams.heard(SANDBOX, owner, message(command))
        assert streams.owner_of(SANDBOX, KEY) is None
    assert streams.owner_of(SANDBOX, own) == b"b", "the stream has the key of who began it"


def test_a_desktop_hears_another_key_and_all_else_as_it_is() -> None:
    streams = Streams()
    passed = starting.read(streams.heard(SANDBOX, b"owner", message(STORE) + b"rest"))
    asked = starting.read(message(STORE) + b"rest")
    assert passed is not None and asked is not None
    assert (passed.rest, passed.process["cmd"]) == (b"rest", "/bin/bash")
    words, own = passed.command.split(), asked.command.split()
    assert [*words[:2], *words[3:]] == [*own[:2], *own[3:]]
    assert words[2] != KEY and len(words[2]) == len(KEY)
    for same in (message(BEGIN), message("x11vnc -help"), message(STORE, flags=1), b"x11vnc", b"\0\0\0\0\1[x11vnc"):
        assert streams.heard(SANDBOX, b"owner", same) == same
