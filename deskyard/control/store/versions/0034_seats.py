"""Desktops for a task: the seats at which they are, as the ledger of their workspace has them."""

from alembic import op

from deskyard.control.store.migration import execute, read

revision = "0034"
down_revision = "0033"


def upgrade() -> None:
    """Add the seats, the columns of a desktop that is for a task, and its operations' share."""
    execute(op.get_bind(), read("0034_seats"))
