"""How long conversations are kept, and the tokens that were claimed in those that are gone."""

from alembic import op

from deskyard.control.store.migration import execute, read

revision = "0007"
down_revision = "0006"


def upgrade() -> None:
    """Make their tables."""
    execute(op.get_bind(), read("0007_retention"))
