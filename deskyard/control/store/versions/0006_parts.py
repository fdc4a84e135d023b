"""Parts of a message: the tools that an agent used, and the tokens that it claims."""

from alembic import op

from deskyard.control.store.migration import execute, read

revision = "0006"
down_revision = "0005"


def upgrade() -> None:
    """Make their columns."""
    execute(op.get_bind(), read("0006_parts"))
