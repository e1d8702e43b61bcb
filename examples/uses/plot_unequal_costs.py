"""
Mistakes that cost different amounts
====================================

To miss a malignant tumor is worse than to look twice at a benign one. ``loss_matrix`` says how much worse, and ``predict`` takes the class with the least expected loss. Probabilities stay
what they are; only decisions change. A third decision, *ask a doctor*, needs no more than these probabilities.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_breast_cancer
from sklearn.model_selection import train_test_split

from latentia import LatentClassifier

data = load_breast_cancer()
X, y = data.data, data.target_names[data.target]
X_train, X_test, y_train, y_test = train_test_split(X, y, test_size=0.5, stratify=y, random_state=0)

# %%
# Rows of the matrix are true classes, columns are predictions, both in the order of ``classes_``: benign, malignant. The matrix is no part of the fit, so it can be changed afterwards.
model = LatentClassifier(effort="fast", random_state=0).fit(X_train, y_train)
benign, malignant = y_test == "benign", y_test == "malignant"
probable = model.predict(X_test)
costs = [1, 3, 10, 30, 100]
missed, alarms, paid, paid_plain = [], [], [], []
for cost in costs:
    said = model.set_params(loss_matrix=[[0, 1], [cost, 0]]).predict(X_test)
    missed.append(np.sum(malignant & (said == "benign")))
    alarms.append(np.sum(benign & (said == "malignant")))
    paid.append(alarms[-1] + cost * missed[-1])
    paid_plain.append(np.sum(benign & (probable == "malignant")) + cost * np.sum(malignant & (probable == "benign")))
    print(
        f"cost {cost:3}: {missed[-1]} missed, {alarms[-1]:2} false alarms; paid {paid[-1]:3}, with the most probable class {paid_plain[-1]}"
    )

# %%
figure, (left, right) = plt.subplots(1, 2, figsize=(7.6, 3.4), layout="constrained")
left.semilogx(costs, missed, "o-", label="missed")
left.semilogx(costs, alarms, "s--", label="false alarms")
left.set(xlabel="cost of a missed tumor", ylabel="test rows")
left.legend(frameon=False)
right.loglog(costs, paid, "o-", label="with loss matrix")
right.loglog(costs, paid_plain, "s--", label="most probable class")
right.set(xlabel="cost of a missed tumor", ylabel="paid on test rows")
right.legend(frameon=False)
plt.show()

# %%
# With a doctor who costs 0.2 and is always right, ask wherever both answers have a larger expected loss:
proba = model.predict_proba(X_test)
expected = np.column_stack([proba @ [[0, 1], [30, 0]], np.full(len(proba), 0.2)])
decision = np.array(["benign", "malignant", "ask"])[expected.argmin(axis=1)]
print({name: int(np.sum(decision == name)) for name in ("benign", "malignant", "ask")})
