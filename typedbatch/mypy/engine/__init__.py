"""One walk through each function, with what is known of the values of its names."""
