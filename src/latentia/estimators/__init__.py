"""Estimators: scikit-learn's front of the families.

- `base`: the one way through `fit`, the one set of predictions, callbacks and progress;
- `latent_classifier`: LatentClassifier, a stack of the others and the one to start with;
- `gaussian_mixture`: GaussianMixtureClassifier;
- `latent_classification`: LatentClassificationModel; `latent_classification_cv`: the search of its
  sizes, LatentClassificationModelCV;
- `probit_embedding`: ProbitEmbeddingClassifier;
- `softmax`: MultimodalSoftmaxClassifier, MixtureOfExpertsClassifier and -Regressor.

An estimator reads input, chooses family, objective and solver, and publishes what was learned;
the numbers are made elsewhere. Start with `base.estimator`, then `gaussian_mixture`.
"""
