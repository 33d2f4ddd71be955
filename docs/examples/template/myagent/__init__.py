"""An agent with typed batches."""
