"""Workers and a controller that dispatches shards of a batch, after verl."""
