"""A session says which passkey began it, and a passkey of an admin ends while another one stays."""

from alembic import op

from deskyard.control.store.migration import execute, read

revision = "0046"
down_revision = "0043"


def upgrade() -> None:
    """Add the column and the rule."""
    execute(op.get_bind(), read("0046_passkeys"))
