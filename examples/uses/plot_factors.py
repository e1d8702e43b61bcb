"""
What varies together, and what tells the classes apart
======================================================

A latent classification model explains thirteen measurements of a wine by a few factors. The map shows the wines in the plane of the two factors that tell the three growers apart best; the
table shows which measurements each factor moves.
"""

import matplotlib.pyplot as plt
from sklearn.datasets import load_wine

from latentia import LatentClassificationModel, LatentMapDisplay, LoadingsDisplay

data = load_wine(as_frame=True)
X, y = data.data, data.target_names[data.target].astype(object)
y[::6] = None  # every sixth grower is unknown
model = LatentClassificationModel(random_state=0).fit(X, y)

# %%
# The default allows for eight factors; those that no column needs lose their loadings.
print(model.summary())

# %%
# Ellipses: one and two standard deviations of each class.
LatentMapDisplay.from_estimator(model, X, y)
plt.show()

# %%
# Correlations of columns with factors; their squares are shares of variance.
LoadingsDisplay.from_estimator(model)
plt.show()
