"""What is written down of a backup that was tried out."""

import pytest

from deskyard.errors import CommandError, SiteError
from deskyard.life.backup.proof import judge
from deskyard.plan.backup import Backup

FOUND = Backup("b1", "dev1", 1, running=True, nonce="n", disks=())


def test_a_verdict_that_cannot_be_written_down_says_that_the_backup_is_whole() -> None:
    def write(_: Backup) -> None:
        raise CommandError("command", "restic tag", "the repository is locked", "run it again")

    with pytest.raises(SiteError, match="is whole, but that could not be written down: the repository is locked"):
        judge(FOUND, write, lambda: None)
