"""The first tables."""

from alembic import op

from deskyard.control.store.migration import execute, read

revision = "0001"
down_revision = None


def upgrade() -> None:
    """Make them."""
    execute(op.get_bind(), read("0001_first"))
