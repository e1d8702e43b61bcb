"""Tables as users have them, small."""

from __future__ import annotations

import numpy as np


def make_table(n: int = 60, delimiter: str = ",", seed: int = 0) -> str:
    """Numbers, text, integers, ids with leading zeros, gaps of several spellings, and empty labels."""
    rng = np.random.default_rng(seed)
    y = np.arange(n) % 2
    lines = ["size;color;two;code;kind"]
    for k in range(n):
        cells = [
            f"{rng.normal() + 2 * y[k]:.3f}",
            ["red", "blue", "green"][int(rng.integers(3))],
            str(int(rng.random() < 0.3 + 0.4 * y[k])),
        ]
        cells = [["", "?", "NA", "n/a"][int(rng.integers(4))] if rng.random() < 0.1 else cell for cell in cells]
        lines.append(";".join([*cells, f"00{k % 3}", ["no", "yes"][y[k]] if k % 5 else ""]))
    return "\n".join(lines).replace(";", delimiter) + "\n"
