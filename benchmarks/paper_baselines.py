"""The small baselines on eleven UCI tables, beside table 3 of "Latent classification models" (Langseth and Nielsen).

    LATENTIA_DATA=folder python benchmarks/paper_baselines.py [--jobs 2] [--seed 0]

Five stratified folds, the same for all; the paper's folds are not known, so differences of one or two standard errors
mean nothing.
"""

from __future__ import annotations

import argparse
import time
import warnings

from baselines import baselines
from data import PAPER_TABLES, load_numbers

from latentia.evaluation.compare import compare

#: Table 3 of the paper, in %; the means are over the eleven tables below.
PAPER = {
    "balance-scale": {"NB": 86.9, "NB/D": 65.8, "k-NN": 89.8, "CG/PCA/n": 76.3},
    "breast": {"NB": 96.2, "NB/D": 97.4, "k-NN": 95.9, "CG/PCA/n": 94.6},
    "crabs": {"NB": 39.5, "NB/D": 44.5, "k-NN": 89.5, "CG/PCA/n": 94.5},
    "diabetes": {"NB": 75.9, "NB/D": 75.6, "k-NN": 75.1, "CG/PCA/n": 74.5},
    "glass": {"NB": 36.4, "NB/D": 71.0, "k-NN": 71.5, "CG/PCA/n": 72.0},
    "glass2": {"NB": 62.0, "NB/D": 81.6, "k-NN": 77.3, "CG/PCA/n": 72.4},
    "heart": {"NB": 84.8, "NB/D": 83.7, "k-NN": 82.6, "CG/PCA/n": 77.4},
    "iris": {"NB": 95.3, "NB/D": 93.3, "k-NN": 94.7, "CG/PCA/n": 96.7},
    "tae": {"NB": 54.3, "NB/D": 49.6, "k-NN": 57.0, "CG/PCA/n": 53.6},
    "thyroid": {"NB": 96.3, "NB/D": 92.6, "k-NN": 95.8, "CG/PCA/n": 89.8},
    "wine": {"NB": 97.2, "NB/D": 98.9, "k-NN": 95.5, "CG/PCA/n": 97.2},
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    warnings.filterwarnings("ignore", message="Number of distinct clusters")  # mixtures on columns of few values
    start = time.perf_counter()
    result = compare(
        baselines(options.seed),
        {name: load_numbers(name) for name in PAPER_TABLES},
        cv=5,
        n_jobs=options.jobs,
        random_state=options.seed,
    )
    print(result)
    print(f"\n{time.perf_counter() - start:.0f} s with {options.jobs} jobs\n")
    columns = ["NB", "NB/D", "k-NN", "CG/PCA/n"]
    print("ours (paper), %".ljust(16) + "".join(name.rjust(16) for name in columns))
    accuracy = {
        d: dict(zip(result.estimators, row, strict=True))
        for d, row in zip(result.datasets, result.accuracy, strict=True)
    }
    for name in PAPER_TABLES:
        cells = [f"{100 * accuracy[name][c]:.1f} ({PAPER[name][c]:.1f})" for c in columns]
        print(name.ljust(16) + "".join(cell.rjust(16) for cell in cells))
    ours = {c: sum(100 * accuracy[d][c] for d in PAPER_TABLES) / len(PAPER_TABLES) for c in columns}
    theirs = {c: sum(PAPER[d][c] for d in PAPER_TABLES) / len(PAPER_TABLES) for c in columns}
    print("mean".ljust(16) + "".join(f"{ours[c]:.1f} ({theirs[c]:.1f})".rjust(16) for c in columns))


if __name__ == "__main__":
    main()
