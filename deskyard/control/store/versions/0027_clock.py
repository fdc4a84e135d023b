"""Moments that lie ahead of a clock that was set back, and the alert that tells of a clock that jumped."""

from alembic import op

from deskyard.control.store.migration import execute, read

revision = "0027"
down_revision = "0026"


def upgrade() -> None:
    """Make the function, and the rule."""
    execute(op.get_bind(), read("0027_clock"))
