"""The chat on the pages of gateways: who asks gateways reads and writes it by these functions alone."""

from alembic import op

from deskyard.control.store.migration import execute, read

revision = "0025"
down_revision = "0024"


def upgrade() -> None:
    """Add them."""
    execute(op.get_bind(), read("0025_page_chat"))
