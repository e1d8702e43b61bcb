"""latent_softmax."""
