"""The anchors that the gateways' audits and Mission Control's hold of each other."""

from alembic import op

from deskyard.control.store.migration import execute, read

revision = "0014"
down_revision = "0013"


def upgrade() -> None:
    """Make the table, and let the worker alone take gateways' lines into the audit."""
    execute(op.get_bind(), read("0014_anchor"))
