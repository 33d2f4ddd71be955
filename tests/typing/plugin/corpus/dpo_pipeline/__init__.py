"""Direct preference optimisation on synthetic pairs."""
