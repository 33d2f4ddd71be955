"""What the members of a batch do."""
