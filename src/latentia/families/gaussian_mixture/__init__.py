"""gaussian_mixture."""
