"""What is known of batches on one way through a function: which fields they have, and who else holds them."""
