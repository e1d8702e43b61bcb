"""
Numbers, yes and no, ordered levels: mixed types in one model
=============================================================

The diabetes study of scikit-learn has numbers (blood values) and a sex; doctors read the body mass index in classes. A latent classification model takes all of them as they are: each
kind of column has its own distribution given the latent factors. Which patients get worse in the following year?
"""

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from sklearn.datasets import load_diabetes
from sklearn.model_selection import train_test_split

from latentia import LatentClassificationModel, LoadingsDisplay

data = load_diabetes(as_frame=True, scaled=False)
table = data.data.rename(
    columns={"s1": "cholesterol", "s2": "LDL", "s3": "HDL", "s5": "log triglycerides", "s6": "glucose"}
)
table["sex"] = table["sex"].map({1.0: "group 1", 2.0: "group 2"})  # the data do not say which is which
table["bmi"] = pd.cut(table["bmi"], [0, 25, 30, 35, 100], labels=["normal", "overweight", "obese", "very obese"])
table = table.drop(columns="s4")  # the ratio of two other columns
worse = np.where(data.target > data.target.median(), "worse", "stable")

# %%
# Some cells get lost: a fifth of all, whatever their kind.
rng = np.random.default_rng(0)
table = table.mask(rng.random(table.shape) < 0.2)
print(table.head(4).to_string())

# %%
# Text is categorical and ordered categories are ordinal, by their dtypes.
train, test, y_train, y_test = train_test_split(table, worse, test_size=0.4, stratify=worse, random_state=0)
model = LatentClassificationModel(n_latent=3, random_state=0).fit(train, y_train)
print(dict(zip(table.columns, model.kinds_, strict=True)))
print(f"accuracy on new rows {model.score(test, y_test):.2f}")

# %%
# Gaps are filled in the types of the table, and new patients can be drawn.
print(model.impute(test.head(3)).to_string())
print(model.sample(3, y="worse")[0].to_string())

# %%
# What varies together: correlations of the columns with the factors.
LoadingsDisplay.from_estimator(model)
plt.show()
