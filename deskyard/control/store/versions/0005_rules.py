"""Rules of who answers approvals, and quotas."""

from alembic import op

from deskyard.control.store.migration import execute, read

revision = "0005"
down_revision = "0003"


def upgrade() -> None:
    """Make their tables."""
    execute(op.get_bind(), read("0005_rules"))
