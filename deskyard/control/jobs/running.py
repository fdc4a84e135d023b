"""Runs a claimed operation in a child to its end, and ends the child as soon as the operation is not ours any more."""

import contextlib
import json
import logging
import os
import queue
import signal
import subprocess
import sys
import threading
from collections.abc import Mapping
from concurrent import futures
from concurrent.futures import Future
from dataclasses import dataclass, field
from functools import partial
from typing import IO, Any

import psycopg

from deskyard.control.approvals import rules
from deskyard.control.approvals.deciders import GATEWAY_LACKS, GATEWAY_REFUSES, Bringer
from deskyard.control.approvals.target import KIND as DECIDE
from deskyard.control.approvals.target import proof_hash
from deskyard.control.consent.target import KIND as CONSENT
from deskyard.control.consent.target import OPERATIONS
from deskyard.control.credentials import job as credentials
from deskyard.control.credentials.target import KINDS as GIVEN
from deskyard.control.halting import job as halting
from deskyard.control.jobs import deciding, enrolment, keeping, leave, waiting
from deskyard.control.jobs.conversation import Turn
from deskyard.control.jobs.remains import ORDERLY_SECONDS, Forced, Lost, Remains
from deskyard.control.jobs.standby import Program, Standby
from deskyard.control.machines import jobs as machines
from deskyard.control.opening import secret
from deskyard.control.opening.target import SESSION, session_target
from deskyard.control.people.intent import Intent
from deskyard.control.people.passkeys import Passkeys
from deskyard.control.queue import claim as claims
from deskyard.control.queue.claim import Claim, Wish
from deskyard.control.retention import policy
from deskyard.control.store.connection import AWAY
from deskyard.control.store.pool import Lend
from deskyard.control.tasks import jobs as tasks
from deskyard.control.upkeep import brought, closing
from deskyard.errors import DeskyardError
from deskyard.host import offspring
from deskyard.host.deadline import Deadline
from deskyard.plan.power import NoRoom

CHILD = (sys.executable, "-m", "deskyard.control.jobs.child")
MOST_LINE = 4000
ENROL, CHAT = "person.enrol", "desktop.chat"
# What the worker writes down by itself: no program has to be run for it.
RULES = {rules.SET: deciding.set_rule, rules.REMOVE: deciding.remove_rule}
RULES |= {policy.SET: keeping.set_policy, policy.REMOVE: keeping.remove_policy, CONSENT: waiting.decide}
# What the next attempt may not meet again: the database was away, or another process wrote or took a row just then.
AGAIN = (*AWAY, psycopg.errors.UniqueViolation, psycopg.errors.ForeignKeyViolation)
log = logging.getLogger(__name__)


class Cancelled(Exception):
    """A person wanted it ended, and its program ended in its own order."""


class Killed(DeskyardError):
    """Its program was ended from outside, by what no program can answer to."""

    def __init__(self, held: Claim) -> None:
        reason = f"{claims.KILLED}, as the kernel does where memory lacks, and it is not begun again by itself"
        super().__init__("operation", held.kind, reason, "see journalctl -k on the worker's machine, then retry it")


@dataclass(frozen=True)
class Runner:
    """Runs operations; `standby` starts the program that does them.

    More run at once than a role may have connections: each is lent a connection for what it writes down.
    """

    passkeys: Passkeys
    standby: Standby = field(default_factory=lambda: Standby(CHILD))
    lease: float = claims.LEASE_SECONDS
    deciders: Bringer = field(default_factory=Bringer)

    def run(self, lend: Lend, held: Claim) -> None:
        """Do it, and write its end down; raises one of `AGAIN` where the next attempt may go well."""
        turn = Turn(held) if held.kind == CHAT else None
        try:
            self._run(lend, held, turn)
        except AGAIN:
            raise
        except psycopg.Error as error:
            # Whoever tries it again meets the same: nobody does it five times for that.
            log.exception("%s: the database refused a statement of its worker", held.id)
            problem = _mistake(held, error)
            with lend() as link, link.transaction():
                if claims.finish(link, held, "failed", problem=problem) and turn is not None:
                    turn.break_off(link, problem)

    def _run(self, lend: Lend, held: Claim, turn: Turn | None) -> None:
        try:
            with lend() as link, link.transaction():
                actor = leave.require(link, held, self.passkeys)
                if held.kind == SESSION:
                    # Whoever has a link answers no ticket of its desktop: that is not to be the request's word alone.
                    link.execute("update operation set asker = %s where id = %s", [actor, held.id])
                waits = held.kind in OPERATIONS and waiting.hold(link, held, actor)
            if waits:
                return
            result = self._done(lend, held, turn, actor)
        except Lost:
            log.warning("%s is another worker's by now", held.id)
        except Cancelled:
            self._end(lend, held, turn, "cancelled", None)
        except Forced:
            self._end(lend, held, turn, "cancelled", claims.forced(held.kind, held.workspace, held.desktop))
        except NoRoom as error:
            with lend() as link:
                waits = claims.wait_for_room(link, held, error.reason)
            if not waits:
                self._end(lend, held, turn, "failed", error.as_dict())
        except Killed as error:
            # What it does is made to be done again, as where its worker is killed.
            with lend() as link, link.transaction():
                again = claims.begin_again(link, held, self.lease)
            if not again:
                self._end(lend, held, turn, "failed", error.as_dict())
        except DeskyardError as error:
            self._end(lend, held, turn, "failed", error.as_dict())
        else:
            with lend() as link, link.transaction():
                if claims.finish(link, held, "done", result=tasks.shown(held, brought.shown(held, result))):
                    tasks.keep(link, held, result)
                    halting.keep(link, held, result)
                    machines.keep(link, held, result)
                    closing.keep(link, held)
                    brought.keep(link, held, result)
                    if turn is not None:
                        turn.end(link, "done")

    def _done(self, lend: Lend, held: Claim, turn: Turn | None, actor: str) -> dict[str, Any]:
        if held.kind == ENROL:
            with lend() as link:
                return dict(enrolment.enrol(link, held, self.passkeys))
        if held.kind in GIVEN:
            with lend() as link, link.transaction():
                # Given and ended at once: the next attempt would make another key or link.
                given = credentials.give(link, held, actor, self.passkeys.origin)
                if not claims.finish(link, held, "done", result=given):
                    raise Lost
            return given
        if held.kind in RULES:
            with lend() as link:
                return RULES[held.kind](link, held, actor)
        if held.kind != DECIDE:
            return self._child(lend, held, turn, actor)
        with lend() as link:
            kept = deciding.collect(link, held, actor)
        if kept is None:
            kept = self._decided(lend, held, actor)
            with lend() as link:
                deciding.forget(link, held)
        return kept

    def _decided(self, lend: Lend, held: Claim, actor: str) -> dict[str, Any]:
        """Have a gateway told an answer; one whose list of who may answer is of before is told that first."""
        workspace = str(held.workspace)
        changes = self.deciders.changes[workspace]
        try:
            return self._child(lend, held, None, actor)
        except DeskyardError as error:
            if error.field not in (GATEWAY_LACKS, GATEWAY_REFUSES):
                raise
            self._bring(lend, held)
            if self.deciders.changes[workspace] == changes:
                raise
        return self._child(lend, held, None, actor)

    def _bring(self, lend: Lend, held: Claim) -> None:
        """Have a gateway told the list, and hold the operation for as long as that takes."""
        self._renew(lend, held)
        telling = Future[None]()

        def tell() -> None:
            try:
                self.deciders.bring(lend, str(held.workspace), self.passkeys.origin)
            except BaseException as error:
                telling.set_exception(error)
            else:
                telling.set_result(None)

        # No thread of a pool, for which the end of the worker would wait.
        threading.Thread(target=tell, daemon=True).start()
        while not futures.wait([telling], self.lease / claims.RENEWALS).done:
            self._renew(lend, held)
        telling.result()
        self._renew(lend, held)

    def _renew(self, lend: Lend, held: Claim) -> Wish:
        """Hold it longer; what is wanted of it. Raises `Lost` if it is another worker's."""
        with lend() as link:
            wish = claims.renew(link, held, self.lease)
        if wish is None:
            raise Lost
        return wish

    def _end(self, lend: Lend, held: Claim, turn: Turn | None, state: str, problem: Mapping[str, str] | None) -> None:
        with lend() as link, link.transaction():
            if claims.finish(link, held, state, problem=problem) and turn is not None:
                turn.end(link, "interrupted" if state == "cancelled" else "failed", problem)

    def _child(self, lend: Lend, held: Claim, turn: Turn | None, actor: str) -> dict[str, Any]:
        with lend() as link:
            values = dict(held.input) | brought.asked(link, held)
            machine = tasks.meant(link, held)
            values |= turn.begin(link) if turn is not None else {}
        wanted: dict[str, Any] = {"kind": held.kind, "workspace": held.workspace, "desktop": held.desktop}
        wanted |= {"input": values, "actor": actor, "attempt": held.attempt, "operation": held.id, **machine}
        if held.kind == DECIDE:
            # What was signed, whatever is known of the ticket by now: the child compares it with what the gateway says.
            wanted["target"] = Intent.parsed((held.proof or {}).get("intent")).target
            wanted["proof"] = proof_hash(held.proof)
            with lend() as link:
                wanted["signatures"] = deciding.signatures(link, held)
        process = self.standby.begin(wanted, partial(self._note, lend, held))
        remains = Remains(lend, held, process.mark, self.lease)
        try:
            assert process.stdin is not None
            if turn is None:
                process.stdin.close()
            done = self._follow(lend, held, turn, process)
            if process.returncode < 0 or not done:
                remains.end()
        except Forced:
            remains.end(by_force=True)
            process.wait()
            raise
        except BaseException:
            # Whoever has it by now finds them, too, and begins nothing before they have ended.
            offspring.end(process.mark, ORDERLY_SECONDS)
            process.poll()
            raise
        return self._outcome(lend, held, process.returncode, done)

    def _note(self, lend: Lend, held: Claim, mark: str) -> None:
        with lend() as link:
            if not claims.note_program(link, held, mark):
                raise Lost

    def _follow(self, lend: Lend, held: Claim, turn: Turn | None, process: Program) -> dict[str, Any]:
        """Hear a program to its end; what it told of that."""
        heard = _heard(process)
        renewal, open_streams = Deadline(self.lease / claims.RENEWALS), 2
        done: dict[str, Any] = {}
        stops = is_over = False
        while open_streams:
            try:
                kind, line = heard.get(timeout=min(renewal.left, turn.left) if turn is not None else renewal.left)
            except queue.Empty:
                kind, line = "", None
            if kind and line is None:
                open_streams -= 1
            elif kind == "said" and line is not None:
                with lend() as link:
                    claims.say(link, held, line[:MOST_LINE])
            elif line is not None:
                spoken = json.loads(line)
                if turn is None or not turn.hear(spoken):
                    done = spoken
            if turn is not None and turn.left == 0:
                self._keep_up(lend, turn, process)
            if renewal.left == 0:
                if is_over and not kind:
                    # What goes on by right holds its streams open.
                    break
                is_over = process.poll() is not None
                stops = self._hold(lend, held, process, stops)
                renewal = Deadline(self.lease / claims.RENEWALS)
        process.wait()
        if stops and not _is_whole(done):
            Remains(lend, held, process.mark, self.lease).end()
            raise Cancelled
        return done

    def _keep_up(self, lend: Lend, turn: Turn, process: Program) -> None:
        with lend() as link:
            answers = turn.answers(link)
            turn.keep_up(link)
        for answer in answers:
            _answer(process, answer)

    def _hold(self, lend: Lend, held: Claim, process: Program, stops: bool) -> bool:
        """Hold it longer; whether it was asked to stop, which its program is told once."""
        wish = self._renew(lend, held)
        if wish is Wish.KILL and process.poll() != 0:
            raise Forced
        if wish is Wish.STOP and not stops and process.poll() is None:
            os.killpg(process.pid, signal.SIGTERM)
        if (process.poll() or 0) < 0:
            # What it started may hold its streams open.
            Remains(lend, held, process.mark, self.lease).end()
        return wish is not Wish.NONE

    def _outcome(self, lend: Lend, held: Claim, code: int, done: Mapping[str, Any]) -> dict[str, Any]:
        if "problem" in done:
            kind = NoRoom if done.get("lacks_room") is True else DeskyardError
            raise kind(**{name: done["problem"].get(name, "") for name in ("field", "value", "reason", "remedy")})
        if code != 0 or not done:
            wish = self._renew(lend, held)
            if wish is Wish.NONE:
                if code == -signal.SIGKILL:
                    raise Killed(held)
                remedy = "see its log, then retry it"
                raise DeskyardError("operation", held.kind, f"its program ended with {code}", remedy)
            if not done:
                raise Cancelled
        if "secret" in done:
            with lend() as link:
                return dict(secret.keep(link, held, done["secret"], session_target(held.desktop, held.input)))
        return dict(done.get("result") or {})


def _is_whole(done: Mapping[str, Any]) -> bool:
    """Whether all was done, however late a person wanted that it stops: what came of it has to be written down."""
    return "result" in done or "secret" in done


def _mistake(held: Claim, error: psycopg.Error) -> dict[str, str]:
    reason = f"the database refused what was to be written down: {error.diag.message_primary or error}"
    remedy = "it is a mistake of this Deskyard: see the log of its worker; then retry it"
    return DeskyardError("operation", held.kind, reason, remedy).as_dict()


def _answer(process: "subprocess.Popen[str]", answer: Mapping[str, Any]) -> None:
    """Tell the child an answer; one that is gone hears nothing, which its end says."""
    assert process.stdin is not None
    with contextlib.suppress(OSError):
        process.stdin.write(json.dumps(answer) + "\n")
        process.stdin.flush()


def _heard(process: "subprocess.Popen[str]") -> "queue.Queue[tuple[str, str | None]]":
    """A queue of the lines that the child says and tells, as they come; None at the end of each stream."""
    heard: queue.Queue[tuple[str, str | None]] = queue.Queue()

    def read(kind: str, stream: IO[str]) -> None:
        for line in stream:
            if line.strip():
                heard.put((kind, line.rstrip("\n")))
        heard.put((kind, None))

    assert process.stdout is not None and process.stderr is not None
    for kind, stream in (("told", process.stdout), ("said", process.stderr)):
        threading.Thread(target=read, args=(kind, stream), daemon=True).start()
    return heard
