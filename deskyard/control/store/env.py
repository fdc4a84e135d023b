"""The environment in which Alembic runs each migration: one transaction on the URL that it was given."""

from alembic import context

from deskyard.control.store.migration import engine_of

engine = engine_of(context.config.attributes["url"])
with engine.connect() as link:
    context.configure(connection=link)
    with context.begin_transaction():
        context.run_migrations()
engine.dispose()
