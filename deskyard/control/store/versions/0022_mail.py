"""Whether alerts can be mailed: the sender of the server that the host declared."""

from alembic import op

from deskyard.control.store.migration import execute, read

revision = "0022"
down_revision = "0021"


def upgrade() -> None:
    """Add the table."""
    execute(op.get_bind(), read("0022_mail"))
