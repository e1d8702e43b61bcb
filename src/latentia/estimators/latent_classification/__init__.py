"""latent_classification."""
