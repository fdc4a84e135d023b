"""A model behind Anthropic's Messages API that fills a form in the browser, and writes a document in the office.

A step a turn, as `screen_model`; it waits by events alone, long enough for an emulated desktop.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from tests.support.screen_model import GEOMETRY, computer
from tests.support.vendor_api import Api

HOME = "/home/agent"
FORM, LETTER = f"{HOME}/form.html", f"{HOME}/letter.odt"
NAME, TEXT = "Ada Lovelace", "A letter that nobody typed."
SENT = f"sent: {NAME}"
# Its field is all of the page: wherever it is clicked, it is typed into.
PAGE = """<!doctype html><title>Form</title>
<form onsubmit="document.title = 'sent: ' + n.value; return false">
<input id=n aria-label=Name style="position:fixed;inset:0;width:100%;height:100%"></form>"""
# As long as a wait may be. A first start of a large program takes an emulated processor longer: it is waited for again.
SECONDS, TRIES = 300, 4
Results = Sequence[Mapping[str, Any]]
Step = Callable[[Results], dict[str, Any]]


def start(*command: str) -> Step:
    """Start a program."""
    return lambda _: {"name": "start", "input": {"command": list(command)}}


def wait_for(event: str, **asked: Any) -> Step:
    """Wait for what the action before brings about."""
    return lambda _: {"name": "wait_for", "input": {"event": event, "within": SECONDS, **asked}}


def do(action: str, **given: Any) -> Step:
    """Do something with the tool `computer`."""
    return lambda _: computer(action, **given)


def click_middle(results: Results) -> dict[str, Any]:
    """Click the middle of the window that was told of last."""
    x, y, width, height = map(int, GEOMETRY.findall(str([result["content"] for result in results]))[-1])
    return computer("left_click", coordinate=[x + width // 2, y + height // 2])


STEPS: tuple[Step, ...] = (
    start("chromium", f"file://{FORM}"),
    wait_for("window.appeared", match={"class": "chromium"}),
    wait_for("app.ready", match={"class": "chromium"}),
    click_middle,
    do("type", text=f"{NAME}\n"),
    wait_for("window.title", match={"title": SENT}),
    start("soffice", "--nologo", "--writer"),
    wait_for("window.appeared", match={"class": "office"}),
    wait_for("app.ready", match={"class": "office"}),
    click_middle,
    do("type", text=TEXT),
    do("key", text="ctrl+s"),
    wait_for("dialog.appeared"),
    wait_for("screen.settled", quiet=2),
    do("type", text=f"{LETTER}\n"),
    wait_for("window.title", match={"title": "letter.odt"}),
)


class Model(Api):
    """Answers who has the key."""

    key = "secret"

    def answer(self, asked: dict[str, Any]) -> dict[str, Any]:
        """The next message: the step that follows what came of those before."""
        assert (self.path, self.headers["x-api-key"]) == ("/v1/messages", self.key)
        results = [block for message in asked["messages"][2::2] for block in message["content"]]
        done = [result for result in results if not result.get("is_error")]
        if len(done) == len(STEPS):
            return _says("It is done.")
        call = STEPS[len(done)](done)
        tries = next(
            (number for number, result in enumerate(reversed(results)) if not result.get("is_error")), len(results)
        )
        if tries and (call["name"] != "wait_for" or tries == TRIES):
            return _says(f"Step {len(done)}, {call}, failed: {results[-1]['content']}")
        return {"role": "assistant", "content": [{"type": "tool_use", "id": f"toolu_{len(results)}", **call}]}


def _says(text: str) -> dict[str, Any]:
    return {"role": "assistant", "content": [{"type": "text", "text": text}]}
