"""How Alembic reaches the store: the caller hands it an open connection (`reconciler.store.schema`)."""

from alembic import context

from reconciler.store.tables import metadata

context.configure(
    connection=context.config.attributes["connection"],
    target_metadata=metadata,
    render_as_batch=False,
    transaction_per_migration=False,
)
with context.begin_transaction():
    context.run_migrations()
