"""Batches of actions: done in order in one thread, stopped at the first failure, remembered by their id."""

import asyncio
import contextlib
import json
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from http import HTTPStatus
from typing import Any

from deskyard.computer.answers.screen import Effect, Result
from deskyard.computer.caller import Caller
from deskyard.computer.claims import BATCH, Sink, digest
from deskyard.computer.display.acting.actions import Action, Tools, check_places
from deskyard.computer.display.acting.audience import Audience
from deskyard.computer.display.acting.remembered import Batch, Outcome, Remembered
from deskyard.computer.display.events import Armed
from deskyard.computer.display.eyes import Eyes
from deskyard.computer.display.x_server import REFUSED
from deskyard.computer.problem import Problem, described

MOST_WAITING = 8
# Who lost the answer to a batch that has an id asks again within so long, and finds it done or being done.
AWAY_SECONDS = 10.0


class Stderr:
    """The record as lines of JSON on standard error, which the journal keeps."""

    def note(self, entry: dict[str, Any]) -> None:
        """Write one line."""
        print(json.dumps({"audit": "computer", **entry}), file=sys.stderr, flush=True)


class Runner:
    """Does batches, one at a time."""

    def __init__(self, tools: Tools, eyes: Eyes, sink: Sink) -> None:
        self.tools = tools
        self._eyes = eyes
        self._sink = sink
        self._thread = ThreadPoolExecutor(1, "hands")
        self._waiting = 0
        self._remembered = Remembered()
        self._closing = threading.Event()

    def begin(
        self, caller: Caller, actions: list[Action], id: str = "", said: str = "", armed: Armed | None = None
    ) -> Batch:
        """Have a batch done, or find it where its id was sent before; raises `Problem` where it cannot even wait."""
        asked = digest(said) if id else ""
        if id and (before := self._remembered.find(caller.session, id)):
            if before.digest != asked:
                reason = "was used for other actions"
                raise Problem(HTTPStatus.CONFLICT, "id", id, reason, "take a new id for each batch")
            return before
        drive = self.tools.hands.drive
        drive.check()
        if self._waiting >= MOST_WAITING:
            reason = f"{self._waiting} batches wait already"
            raise Problem(
                HTTPStatus.TOO_MANY_REQUESTS, "actions", None, reason, "wait for an answer before the next one"
            )
        audience = Audience(drive.look_again, AWAY_SECONDS if id else 0)
        self._waiting += 1
        doing = asyncio.get_running_loop().run_in_executor(self._thread, self._do, caller, actions, audience)
        batch = Batch(asked, audience, doing, armed)
        if id:
            self._remembered.add(caller.session, id, batch)

        def done(doing: "asyncio.Future[Outcome]") -> None:
            self._waiting -= 1
            if id and (doing.cancelled() or doing.exception()):
                # Nothing was done: the same id may try again.
                self._remembered.forget(caller.session, id)

        doing.add_done_callback(done)
        return batch

    def _do(self, caller: Caller, actions: list[Action], audience: Audience) -> Outcome:
        hands = self.tools.hands
        hands.gone = lambda: audience.is_gone() or self._closing.is_set()
        hands.begin(caller.session)
        if hands.gone():
            hands.release_own()
            hands.still_wanted()
        check_places(actions, self.tools.spaces)
        outcome = Outcome()
        before = self._frame()
        for index, action in enumerate(actions):
            result: Result = {"action": index, "type": action.kind, "ok": False}
            front = (0, "")
            try:
                hands.still_wanted()
                did = action.do(self.tools)
                front = hands.window()
                result = {**result, "ok": True, **(did or Effect())}
            except Exception as error:
                outcome.problem = self._failed(action, error)
                result = {**result, **described(outcome.problem)}
                with contextlib.suppress(Problem, *REFUSED):
                    front = hands.window()
            outcome.results.append(result)
            outcome.notes.append(_note(caller, action, result, front, before))
            self._sink.note(outcome.notes[-1])
            if outcome.problem:
                break
        if outcome.problem or hands.gone():
            # Without a screen nothing is down; what was done before is answered all the same.
            with contextlib.suppress(Problem, *REFUSED):
                hands.release_own()
        outcome.notes.append(
            {"kind": BATCH, "session": caller.session, "frame_before": before, "frame_after": self._frame()}
        )
        self._sink.note(outcome.notes[-1])
        return outcome

    def _failed(self, action: Action, error: Exception) -> Problem:
        if isinstance(error, Problem):
            return error
        print(f"{action.kind}: {type(error).__name__}: {error}", file=sys.stderr, flush=True)
        reason = f"failed: {type(error).__name__}"
        return Problem(
            HTTPStatus.BAD_GATEWAY, action.path, action.kind, reason, "look at the screen, then go on from there"
        )

    def _frame(self) -> str:
        try:
            return self._eyes.frame_hash()
        except Problem:
            return ""

    def close(self) -> None:
        """End the thread; a batch under way is done no further."""
        self._closing.set()
        self.tools.hands.drive.look_again()
        self._thread.shutdown(wait=True, cancel_futures=True)


def _note(caller: Caller, action: Action, result: Result, front: tuple[int, str], frame: str) -> dict[str, Any]:
    entry: dict[str, Any] = {"kind": action.kind, "session": caller.session, "scope": "act", "ok": result["ok"]}
    if action.points:
        entry["at"] = [[point.x, point.y, point.space] for point in action.points[:2]]
    if action.text:
        # Not surrogates: they were refused when the text was read.
        entry["text_sha256"] = digest(action.text)
    if not result["ok"]:
        entry["error"] = result["error"]
    return entry | {"window": front[0], "class": front[1], "frame": frame}
