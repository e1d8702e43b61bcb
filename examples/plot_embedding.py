"""Which labels of a multilabel problem go together? Look at a two-dimensional embedding that was learned with them.

Rows are documents of random topics; some label entries are deleted. Every panel is the same plane with the rows coloured by one label and that label's
decision line. Labels whose lines are nearly parallel depend on the same direction of the features: on the same side they go together, on opposite sides they exclude each other.

Run as ``python examples/plot_embedding.py [picture.png]``.
"""

import sys

import matplotlib
import numpy as np

matplotlib.use("Agg")

from latentia.embedding_display import EmbeddingDisplay  # noqa: E402
from latentia.multilabel_metrics import known_f1_score, known_hamming_loss  # noqa: E402
from latentia.probit_embedding import ProbitEmbeddingClassifier  # noqa: E402

rng = np.random.default_rng(0)
names = ["calm", "quiet", "sad", "happy", "amazed", "angry"]
angles = np.deg2rad([0, 25, 60, 150, 175, 200])  # each label looks in its own direction of a hidden plane
X = rng.standard_normal((600, 30))
plane = X @ rng.standard_normal((30, 2)) / np.sqrt(30) * 3
scores = plane @ np.stack([np.cos(angles), np.sin(angles)]) - 0.8
Y = (scores + rng.standard_normal(scores.shape) > 0).astype(int)

train, test = slice(0, 400), slice(400, None)
known = np.where(rng.random(Y.shape) < 0.3, -1, Y)  # a third of the entries is unknown
model = ProbitEmbeddingClassifier(n_latent=2, prior="columns").fit(X[train], known[train])
found = model.predict(X[test])
print(
    f"hamming loss {known_hamming_loss(Y[test], found):.3f}, micro F1 {known_f1_score(Y[test], found, average='micro'):.3f}"
)
print(
    f"{model.n_effective_} effective dimensions, log evidence {model.log_evidence_:.1f} after {model.n_iter_} iterations"
)

display = EmbeddingDisplay.from_estimator(model, X[train], known[train], label_names=names)
path = sys.argv[1] if len(sys.argv) > 1 else "embedding.png"
display.figure_.savefig(path, dpi=130)
print(f"wrote {path}")
