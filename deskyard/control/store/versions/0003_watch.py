"""Usage and cost, alerts and their rules, webhooks."""

from alembic import op

from deskyard.control.store.migration import execute, read

revision = "0003"
down_revision = "0002"


def upgrade() -> None:
    """Make their tables."""
    execute(op.get_bind(), read("0003_watch"))
