"""Batches of actions: done in order in one thread, stopped at the first failure, remembered by their id."""

import asyncio
import contextlib
import contextvars
import json
import sys
import threading
from collections import OrderedDict
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Any

from deskyard.computer.answers.screen import Effect, Result
from deskyard.computer.caller import Caller
from deskyard.computer.claims import BATCH, Sink, digest
from deskyard.computer.display.acting.actions import Action, Tools, check_places
from deskyard.computer.display.eyes import Eyes
from deskyard.computer.display.x_server import REFUSED
from deskyard.computer.problem import Problem, described

MOST_WAITING = 8
MOST_REMEMBERED = 500


class Stderr:
    """The record as lines of JSON on standard error, which the journal keeps."""

    def note(self, entry: dict[str, Any]) -> None:
        """Write one line."""
        print(json.dumps({"audit": "computer", **entry}), file=sys.stderr, flush=True)


@dataclass
class Outcome:
    """The outcome of a batch: a result for each action done, and the problem that ended it early, if any."""

    results: list[Result] = field(default_factory=list)
    problem: Problem | None = None


class Runner:
    """Does batches, one at a time."""

    def __init__(self, tools: Tools, eyes: Eyes, sink: Sink) -> None:
        self.tools = tools
        self._eyes = eyes
        self._sink = sink
        self._thread = ThreadPoolExecutor(1, "hands")
        self._waiting = 0
        self._remembered: OrderedDict[tuple[str, str], tuple[str, asyncio.Future[Outcome]]] = OrderedDict()

    async def run(self, caller: Caller, actions: list[Action], gone: threading.Event) -> Outcome:
        """Do the batch; raises `Problem` where nothing of it was done."""
        self.tools.hands.drive.check()
        if self._waiting >= MOST_WAITING:
            reason = f"{self._waiting} batches wait already"
            raise Problem(
                HTTPStatus.TOO_MANY_REQUESTS, "actions", None, reason, "wait for an answer before the next one"
            )
        self._waiting += 1
        try:
            loop = asyncio.get_running_loop()
            # The thread works for the request in hand: what it notes is claimed in that answer.
            within = contextvars.copy_context().run
            return await loop.run_in_executor(self._thread, within, self._do, caller, actions, gone)
        finally:
            self._waiting -= 1

    async def once(self, caller: Caller, id: str, body: str, actions: list[Action], gone: threading.Event) -> Outcome:
        """Do the batch of this id, or say what came of it when it was done before."""
        key = (caller.session, id)
        asked = digest(body)
        if key in self._remembered:
            before, future = self._remembered[key]
            if before != asked:
                reason = "was used for other actions"
                raise Problem(HTTPStatus.CONFLICT, "id", id, reason, "take a new id for each batch")
            return await asyncio.shield(future)
        task = asyncio.ensure_future(self.run(caller, actions, gone))
        self._remembered[key] = (asked, task)
        while len(self._remembered) > MOST_REMEMBERED:
            self._remembered.popitem(last=False)
        try:
            return await asyncio.shield(task)
        except Problem:
            # Nothing was done: the same id may try again.
            self._remembered.pop(key, None)
            raise

    def _do(self, caller: Caller, actions: list[Action], gone: threading.Event) -> Outcome:
        hands = self.tools.hands
        hands.gone = gone.is_set
        hands.begin(caller.session)
        check_places(actions, self.tools.spaces)
        outcome = Outcome()
        before = self._frame()
        for index, action in enumerate(actions):
            result: Result = {"action": index, "type": action.kind, "ok": False}
            front = (0, "")
            try:
                if gone.is_set():
                    raise Problem(HTTPStatus.CONFLICT, "connection", None, "the caller is gone", "send the batch again")
                did = action.do(self.tools)
                front = hands.window()
                result = {**result, "ok": True, **(did or Effect())}
            except Exception as error:
                outcome.problem = self._failed(action, error)
                result = {**result, **described(outcome.problem)}
                with contextlib.suppress(Problem, *REFUSED):
                    front = hands.window()
            outcome.results.append(result)
            self._note(caller, action, result, front, before)
            if outcome.problem:
                break
        if outcome.problem or gone.is_set():
            hands.release_own()
        self._sink.note(
            {"kind": BATCH, "session": caller.session, "frame_before": before, "frame_after": self._frame()}
        )
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

    def _note(self, caller: Caller, action: Action, result: Result, front: tuple[int, str], frame: str) -> None:
        entry: dict[str, Any] = {"kind": action.kind, "session": caller.session, "scope": "act", "ok": result["ok"]}
        if action.points:
            entry["at"] = [[point.x, point.y, point.space] for point in action.points[:2]]
        if action.text:
            # Not surrogates: they were refused when the text was read.
            entry["text_sha256"] = digest(action.text)
        if not result["ok"]:
            entry["error"] = result["error"]
        self._sink.note(entry | {"window": front[0], "class": front[1], "frame": frame})

    def close(self) -> None:
        """End the thread when its batch is done."""
        self._thread.shutdown(wait=True, cancel_futures=True)
