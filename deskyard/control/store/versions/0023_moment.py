"""The moments that gateways wrote down of desktops: who came in and drove, and what was refused."""

from alembic import op

from deskyard.control.store.migration import execute, read

revision = "0023"
down_revision = "0022"


def upgrade() -> None:
    """Add the table."""
    execute(op.get_bind(), read("0023_moment"))
