"""The names that a spent budget closes: what gateways were told, and a function that has them told."""

from alembic import op

from deskyard.control.store.migration import execute, read

revision = "0021"
down_revision = "0020"


def upgrade() -> None:
    """Add the column, the table and the function."""
    execute(op.get_bind(), read("0021_closing"))
