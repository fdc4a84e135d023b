"""Until when a session that a provider began counts, unless the provider is asked again."""

from alembic import op

from deskyard.control.store.migration import execute, read

revision = "0013"
down_revision = "0012"


def upgrade() -> None:
    """Make the columns and grants."""
    execute(op.get_bind(), read("0013_standing"))
