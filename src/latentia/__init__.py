"""Latent-variable probabilistic classifiers in scikit-learn's conventions.

Start with `LatentClassifier`: ``LatentClassifier().fit(table, labels)`` takes data frames and
arrays with gaps, text and unlabeled rows, and has `predict_proba`, `explain`, `impute`,
`score_samples` and `sample`. Single models are `GaussianMixtureClassifier`,
`LatentClassificationModel` (with `LatentClassificationModelCV`), `ProbitEmbeddingClassifier` (also
for label matrices), `MultimodalSoftmaxClassifier`, `MixtureOfExpertsClassifier` and
`MixtureOfExpertsRegressor`.

`compare` ranks classifiers, `write_report` writes a page on a model, the classes named `...Display`
draw, `load` reads what `save` wrote, `scan` is for large tables.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from latentia.apps.report import write_report as write_report
    from latentia.estimators.gaussian_mixture import GaussianMixtureClassifier as GaussianMixtureClassifier
    from latentia.estimators.latent_classification import LatentClassificationModel as LatentClassificationModel
    from latentia.estimators.latent_classification_cv import LatentClassificationModelCV as LatentClassificationModelCV
    from latentia.estimators.latent_classifier import LatentClassifier as LatentClassifier
    from latentia.estimators.probit_embedding import ProbitEmbeddingClassifier as ProbitEmbeddingClassifier
    from latentia.estimators.softmax.experts import MixtureOfExpertsClassifier as MixtureOfExpertsClassifier
    from latentia.estimators.softmax.experts import MixtureOfExpertsRegressor as MixtureOfExpertsRegressor
    from latentia.estimators.softmax.multimodal import MultimodalSoftmaxClassifier as MultimodalSoftmaxClassifier
    from latentia.evaluation.compare import Comparison as Comparison
    from latentia.evaluation.compare import compare as compare
    from latentia.evaluation.multilabel import known_f1_score as known_f1_score
    from latentia.evaluation.multilabel import known_hamming_loss as known_hamming_loss
    from latentia.persistence.files import load as load
    from latentia.plot.embedding import EmbeddingDisplay as EmbeddingDisplay
    from latentia.plot.factors import CompletionDisplay as CompletionDisplay
    from latentia.plot.factors import LatentMapDisplay as LatentMapDisplay
    from latentia.plot.factors import LoadingsDisplay as LoadingsDisplay
    from latentia.plot.factors import StructureDisplay as StructureDisplay
    from latentia.plot.general import CalibrationDisplay as CalibrationDisplay
    from latentia.plot.general import ObjectiveCurveDisplay as ObjectiveCurveDisplay
    from latentia.plot.general import SearchResultsDisplay as SearchResultsDisplay
    from latentia.scale.files import scan as scan

__version__ = "0.2.0"

#: Where public names live: they are imported when they are asked for.
_HOMES = {
    "CalibrationDisplay": "plot.general",
    "Comparison": "evaluation.compare",
    "CompletionDisplay": "plot.factors",
    "EmbeddingDisplay": "plot.embedding",
    "GaussianMixtureClassifier": "estimators.gaussian_mixture",
    "LatentClassificationModel": "estimators.latent_classification",
    "LatentClassificationModelCV": "estimators.latent_classification_cv",
    "LatentClassifier": "estimators.latent_classifier",
    "LatentMapDisplay": "plot.factors",
    "LoadingsDisplay": "plot.factors",
    "MixtureOfExpertsClassifier": "estimators.softmax.experts",
    "MixtureOfExpertsRegressor": "estimators.softmax.experts",
    "MultimodalSoftmaxClassifier": "estimators.softmax.multimodal",
    "ObjectiveCurveDisplay": "plot.general",
    "ProbitEmbeddingClassifier": "estimators.probit_embedding",
    "SearchResultsDisplay": "plot.general",
    "StructureDisplay": "plot.factors",
    "compare": "evaluation.compare",
    "known_f1_score": "evaluation.multilabel",
    "known_hamming_loss": "evaluation.multilabel",
    "load": "persistence.files",
    "scan": "scale.files",
    "write_report": "apps.report",
}

__all__ = list(_HOMES)


def __getattr__(name: str) -> Any:
    """A public name, or a folder of the package."""
    if name in _HOMES:
        found = getattr(import_module(f"latentia.{_HOMES[name]}"), name)
        globals()[name] = found
        return found
    if name in ("apps", "estimators", "evaluation", "families", "plot", "scale", "solvers"):
        return import_module(f"latentia.{name}")
    raise AttributeError(f"module 'latentia' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
