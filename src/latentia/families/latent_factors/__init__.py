"""latent_factors."""
