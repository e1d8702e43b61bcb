"""
A plane in which seven labels are decided
=========================================

Which segments of a seven-segment display must light up to show a handwritten digit? Every image has seven labels, one for each segment. A probit embedding
projects the 64 pixels of scikit-learn's digits to a plane in which a straight line decides each label. It is trained on half of the images, with 40 % of the label entries deleted at random.

Every panel is the same plane, its points colored by one label; the label is predicted on the tinted side, and the black line is where the model is undecided. The last panel shows which digits the images are:
the model was not told, but digits that share segments tend to lie close.

Run ``python examples/asked_for/plot_unknown_labels.py [picture.png]``; without an argument the picture opens in a window.
"""

import sys

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

from latentia import EmbeddingDisplay, ProbitEmbeddingClassifier, known_hamming_loss

# %%
# The digits that each segment takes part in, and the table of labels: one row per digit, one column per segment.
SEGMENTS = {
    "top": "02356789",
    "upper left": "045689",
    "upper right": "01234789",
    "middle": "2345689",
    "lower left": "0268",
    "lower right": "013456789",
    "bottom": "0235689",
}
lit = np.array([[str(digit) in digits for digits in SEGMENTS.values()] for digit in range(10)], dtype=int)

# %%
# Half of the images train the model, with 40 % of their label entries unknown (-1). Pixels share one scale, so they are not standardized.
X, digit = load_digits(return_X_y=True)
X = X / 16
X_train, X_test, digit_train, digit_test = train_test_split(X, digit, test_size=0.5, stratify=digit, random_state=0)
rng = np.random.default_rng(0)
Y_train = np.where(rng.random((len(X_train), 7)) < 0.4, -1, lit[digit_train])
for n_latent in (2, 4, 6):
    model = ProbitEmbeddingClassifier(n_latent, standardize=False).fit(X_train, Y_train)
    wrong = known_hamming_loss(lit[digit_test], model.predict(X_test))
    print(f"{n_latent} dimensions: {wrong:.1%} of the segments of new images are wrong")

# %%
# Two dimensions get more segments wrong, but they can be looked at. The images drawn are new to the model.
plane = ProbitEmbeddingClassifier(2, standardize=False).fit(X_train, Y_train)
figure = plt.figure(figsize=(9.2, 5.8), layout="constrained")
display = EmbeddingDisplay.from_estimator(
    plane, X_test, lit[digit_test], label_names=list(SEGMENTS), n_columns=4, figure=figure
)
for axis in display.axes_:
    axis.set_aspect("equal")

# %%
# The display leaves the eighth place of its grid free.
display.axes_[3].tick_params(labelbottom=False)
last = figure.add_subplot(2, 4, 8, sharex=display.axes_[0], sharey=display.axes_[0], aspect="equal")
last.tick_params(labelsize="small", labelleft=False)
last.set_title("the digit itself", fontsize="medium")
colors = plt.get_cmap("tab10").colors
places = plane.transform(X_test)
for value in range(10):
    mine = places[digit_test == value]
    last.scatter(*mine.T, s=8, color=colors[value], alpha=0.3, linewidths=0)
    last.text(*np.median(mine, axis=0), str(value), weight="bold", ha="center", va="center")

if len(sys.argv) > 1:
    figure.savefig(sys.argv[1], dpi=100)
else:
    plt.show()
