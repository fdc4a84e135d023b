"""Operations that wait for another person."""

from alembic import op

from deskyard.control.store.migration import execute, read

revision = "0033"
down_revision = "0032"


def upgrade() -> None:
    """Add the columns, the answers, and the indexes that know of what waits."""
    execute(op.get_bind(), read("0033_consent"))
