"""Backups by a schedule: one that is due is made and tried out, then what the schedule does not keep goes."""

from dataclasses import dataclass
from datetime import datetime

from deskyard.errors import DeskyardError, HostError
from deskyard.life.backup import restoration, retention
from deskyard.life.backup.vault import vault_of
from deskyard.life.journal import Journal
from deskyard.life.power import Machine
from deskyard.model.care import BackupSchedule
from deskyard.plan import backup as plan
from deskyard.plan.backup import Backup
from deskyard.plan.care import backup_due, backup_rests, trial_due
from deskyard.plan.printable import printable
from deskyard.plan.workspace import WorkspacePlan


@dataclass
class Outcome:
    """The backup of a desktop that was made, whether it is verified, how many older ones went, what waits, what failed.

    `tried`: what came of it is known; it is not tried again at once.
    """

    made: str = ""
    verified: bool = False
    removed: int = 0
    waits: str = ""
    trouble: str = ""
    tried: bool = False

    @property
    def line(self) -> str:
        """The backup that was made, in a line for people; empty if none was."""
        went = f", {self.removed} older ones removed" if self.removed else ""
        return f"{self.made} {'verified' if self.verified else 'not verified'}{went}" if self.made else ""


class Scheduled:
    """The backups of a workspace at a moment; they are asked for once, where some desktop has a schedule."""

    def __init__(self, workspace: WorkspacePlan, moment: datetime) -> None:
        self._vault, self._moment = vault_of(workspace.site, workspace.name), moment
        self._found: list[Backup] | None = None

    def care_for(self, machine: Machine, tried: datetime | None, *, dry_run: bool = False) -> Outcome:
        """Make what is due of a desktop, last tried at that time; what fails keeps no other from its care."""
        done, schedule = Outcome(), machine.plan.desktop(machine.name).backup
        if not isinstance(schedule, BackupSchedule) or backup_rests(schedule, tried, self._moment):
            return done
        try:
            present = self._present(machine.name)
            if not backup_due(schedule, present, self._moment):
                return done
            state = str(machine.machines.states().get(machine.domain, {}).get("state", "absent"))
            done.waits = _obstacle(machine, state) or ("a backup: it would be made" if dry_run else "")
            if not done.waits:
                done.tried = True
                self._make(machine, schedule, present, done, runs=state == "running")
        except DeskyardError as error:
            if isinstance(error, HostError) and error.field == "lock":
                what = "the rest of its backup" if done.made else "a backup"
                done.waits, done.tried = f"{what}: another task is at work there", False
            else:
                done.tried = True
                done.trouble = printable(f"backup: {error.reason.splitlines()[0]} -> {error.remedy}")
        return done

    def _make(
        self, machine: Machine, schedule: BackupSchedule, present: list[Backup], done: Outcome, *, runs: bool
    ) -> None:
        restoration.settle(machine)
        done.made = str(self._vault.make(machine, machine.target)["backup"]["id"])
        if not runs and not plan.last_nonce(present):
            done.waits = "a verified backup: for one that is made while it runs"
        elif trial_due(schedule, present, self._moment):
            restoration.prove_backup(machine, done.made)
            done.verified = True
        if any(schedule.keep):
            done.removed = len(retention.prune(machine.target, schedule.keep, really=True)["removed"])

    def _present(self, desktop: str) -> list[Backup]:
        if self._found is None:
            self._found = self._vault.present(None)
        return [backup for backup in self._found if backup.desktop == desktop]


def _obstacle(machine: Machine, state: str) -> str:
    """The obstacle that keeps a backup of a desktop from being made now; empty if there is none."""
    if state not in ("running", "stopped"):
        return f"a backup: it is {state}"
    if Journal(machine).read() is not None:
        return f"a backup: for the end of an upgrade that broke off, ./inv desktop.upgrade {machine.target}"
    return ""
