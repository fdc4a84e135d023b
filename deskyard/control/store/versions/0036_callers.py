"""Callers: what the web process wants and sets is in the name of somebody who is there, and is never unseen."""

from alembic import op

from deskyard.control.store.migration import execute, read

revision = "0036"
down_revision = "0035"


def upgrade() -> None:
    """Let the database stamp what the web process changes, and write the line of the audit."""
    execute(op.get_bind(), read("0036_callers"))
