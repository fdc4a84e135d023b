"""Since when a desktop's agent stands still; quotas of processors and disks."""

from alembic import op

from deskyard.control.store.migration import execute, read

revision = "0017"
down_revision = "0016"


def upgrade() -> None:
    """Add their columns; a machine that boots empties the first."""
    execute(op.get_bind(), read("0017_halted_and_quotas"))
