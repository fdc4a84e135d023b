"""Checks the chain of the audit beside all else that is watched: it is never cut, and to read it takes long."""

from deskyard.control.recorder import chain
from deskyard.control.recorder.chain import NOTHING, Verdict
from deskyard.control.store.connection import Link
from deskyard.host.deadline import Deadline

NEW_SECONDS, WHOLE_SECONDS = 3600.0, 86400.0


class Audited:
    """The audit as it was checked last: what is wrong with it, and how far it is known to be whole."""

    def __init__(self) -> None:
        self.problem: str | None = None
        # Not before its first check is done.
        self.is_known = False
        self._known: Verdict = NOTHING
        self._new, self._whole = Deadline(0), Deadline(0)

    def look(self, link: Link) -> None:
        """Check each line once a day, and every hour those that are new, behind the last that was known."""
        is_due = self._whole.left == 0
        if not is_due and self._new.left > 0:
            return
        verdict = chain.verify_after(link, NOTHING if is_due else self._known)
        self.problem, self.is_known = verdict.problem, True
        # Of one that is not whole all is looked at each time.
        self._known = verdict if verdict.ok else NOTHING
        self._new = Deadline(NEW_SECONDS)
        if is_due:
            self._whole = Deadline(WHOLE_SECONDS)
