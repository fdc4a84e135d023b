"""The columns for alerts: when an answer grew last, since when a desktop is there, and what looks found last."""

from alembic import op

from deskyard.control.store.migration import execute, read

revision = "0016"
down_revision = "0015"


def upgrade() -> None:
    """Add the columns, whose values the database writes by itself, and the rules."""
    execute(op.get_bind(), read("0016_alerts"))
