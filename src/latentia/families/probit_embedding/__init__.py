"""probit_embedding."""
