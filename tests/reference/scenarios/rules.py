"""Rules that choose, with made-up scores: searches, patience, ties, folds, ticks."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any
from unittest.mock import patch

import numpy as np

from latentia.engine.rows import ArraySource
from latentia.estimators import latent_classification_cv as size_grid
from latentia.estimators import latent_classification_cv as size_search
from latentia.estimators.base import fitted_model as tempering
from latentia.estimators.base import training as unlabeled_weight
from latentia.estimators.latent_classification_cv import Search, Setting
from latentia.estimators.latent_classifier import candidates as folds
from latentia.estimators.latent_classifier import features
from latentia.estimators.softmax import training as distinct_rows
from latentia.estimators.softmax import training as search_rules
from latentia.estimators.softmax.experts import gates_to_try
from latentia.estimators.softmax.multimodal import (
    FittedConfiguration,
    SubclassSearch,
    class_of_subclass,
    pruned_configurations,
)
from latentia.scale.tables import digest_labels, read_classes
from latentia.solvers import Outcome
from latentia.solvers.em import RestartHistory, best_step
from latentia.solvers.lbfgs import HeldOut, LBFGSHistory
from latentia.solvers.structural import best_structure, penalized
from latentia.table.columns import join_distinct
from latentia.table.encoder import Levels, Merging
from latentia.table.frames import PlainValues

from ..describe import refusal
from ..digest import tree
from ..registry import Group
from ..tables import numbers

SCENARIOS = Group()


def made_up(setting: Setting, seed: int) -> list[Any]:
    rng = np.random.RandomState(hash((setting.n_latent, setting.n_components, int(10 * setting.ridge), seed)) % 2**31)
    right = rng.randint(3, 9, 2) / 10
    return [
        size_search._FoldScore(r, loss, w, 0.0)
        for r, loss, w in zip(right, rng.uniform(0.2, 1.0, 2), (3.0, 5.0), strict=True)
    ]


@SCENARIOS
def searches_of_sizes() -> dict[str, Any]:
    """Which sizes are tried and which wins, whatever the models."""
    found: dict[str, Any] = {}
    for seed in range(12):
        rng = np.random.RandomState(seed)
        data: Any = SimpleNamespace(
            X=np.zeros((30, rng.randint(1, 4))),
            n_classes=int(rng.randint(2, 4)),
            encoder=SimpleNamespace(kinds=[["continuous"] * 3, ["binary"] * 3, ["binary", "continuous"]][seed % 3]),
        )
        grids: dict[str, Any] = {
            "n_latent": [None, [3, 1, 2], [1, 2]][rng.randint(3)],
            "n_components": [None, [2, 1]][rng.randint(2)],
            "objective": [None, ["conditional", "likelihood"]][rng.randint(2)],
            "ridge": [None, [0.1, 1.0]][rng.randint(2)],
        }
        heard: list[Any] = []
        with patch.object(size_search, "score_folds", lambda setting, data, folds, seed=seed: made_up(setting, seed)):
            search = Search(
                [(np.arange(3), np.arange(3))] * 2,
                ["accuracy", "log_loss"][seed % 2],
                [None, 1, 2, 3][rng.randint(4)],
                None,
            )
            groups = size_grid.search_settings(grids, data, 24)
            stop_at = [99, 99, 4][rng.randint(3)]
            trials = search.run(
                groups,
                lambda setting: setting,
                data,
                lambda trial, heard=heard, stop_at=stop_at: heard.append(trial) or len(heard) >= stop_at,
                lambda best, grids=grids, data=data: size_grid.refinements(grids, data, 24, best),
            )
        found[str(seed)] = {
            "tried": " ".join(f"{t.n_latent},{t.n_components},{t.objective[0]},{t.ridge:g}" for t in trials),
            "best": str(search.best(trials).setting),
            "scores": np.array([[t.mean_accuracy, t.std_accuracy, t.mean_log_loss, t.std_log_loss] for t in trials]),
            "summary": trials[0].summary(),
            "heard": len(heard),
        }
    return found


@SCENARIOS
def searches_of_subclasses() -> dict[str, Any]:
    found: dict[str, Any] = {}
    for seed in range(14):
        rng = np.random.RandomState(seed)
        limits = tuple(int(n) for n in rng.randint(1, 5, rng.randint(2, 4)))
        search = SubclassSearch(limits, patience=int(rng.randint(0, 3)))
        strategy = search.compressive(
            [[0.05], [0.1, 0.3]][rng.randint(2)], int(rng.randint(1, 4)), int(rng.randint(0, 9))
        )
        budget = int(rng.randint(4, 12))

        def fit(configuration: Any, rng: Any = rng) -> FittedConfiguration:
            parts = np.concatenate([rng.dirichlet(np.ones(n)) for n in configuration])
            score = np.round(rng.normal(), 2) if rng.uniform() < 0.9 else np.nan
            if rng.uniform() < 0.5:
                score = search_rules.HeldOutScore(rng.normal(size=6), rng.uniform(0.5, 2.0, 6))
            return FittedConfiguration(score, parts, None)

        tried = []
        for proposal in strategy:
            search.record(proposal, fit(proposal.configuration))
            tried.append(
                f"{proposal.configuration} {proposal.round} {list(proposal.parents)} {[s.kept.astype(int).tolist() for s in proposal.sources]}"
            )
        if hasattr(search, "neighbors"):
            for proposal in search.neighbors(budget):
                search.record(proposal, fit(proposal.configuration))
                tried.append(
                    f"{proposal.configuration} {proposal.round} {list(proposal.parents)} {[s.kept.astype(int).tolist() for s in proposal.sources]}"
                )
        found[str(seed)] = {"tried": " / ".join(tried), "best": str(search.best), "children": str(search.children())}
    search = SubclassSearch((2, 1, 3))
    found["all"] = " ".join(str(p.configuration) for p in search.exhaustive())
    fitted = FittedConfiguration(0.0, np.array([0.7, 0.2, 0.1, 1.0, 0.04, 0.96]), None)
    found["pruned"] = str(
        {k: v.astype(int).tolist() for k, v in pruned_configurations((3, 1, 2), fitted, [0.05, 0.15, 0.5]).items()}
    )
    return found | {"classes": class_of_subclass((3, 1, 2))}


@SCENARIOS
def ties_and_patience() -> dict[str, Any]:
    rng = np.random.RandomState(0)
    scores = [search_rules.HeldOutScore(rng.normal(size=8) + k / 4, rng.uniform(0.5, 2.0, 8)) for k in range(4)]
    near = [1.0, 1.0005, 0.9995, 1.002]
    found: dict[str, Any] = {
        "scores": [float(s) for s in scores],
        "worse": str([[a.is_worse(b) for b in scores] for a in scores]),
        "better": str([[search_rules.is_better(a, b) for b in (*near, np.nan)] for a in (*near, np.nan)]),
        "best": [search_rules.best_model(near, sizes) for sizes in ([4, 3, 2, 9], [1, 2, 3, 4], [5, 5, 5, 5])],
        "none": search_rules.best_model([np.nan, np.nan], [3, 2]),
    }
    for limit in range(4):
        patience = search_rules.Patience(limit)
        found[f"patience {limit}"] = str(
            [patience.ends_with(s) for s in (0.0, 1.0, 0.9, 1.0004, 0.2, 3.0, 2.0, 2.0, 2.0)]
        )
        held_out = search_rules.Patience(limit)
        found[f"held out {limit}"] = str([held_out.ends_with(s) for s in (*scores[::-1], scores[3], scores[2])])
    losses = iter([3.0, 2.5, 2.5, 2.6, 2.4, 2.7, 2.8, 2.9, 3.0])
    stopping = HeldOut(lambda params: next(losses), 2)
    found["stops"] = (
        str([stopping.should_stop(lambda k=k: k) for k in range(8)]) + f" {stopping.best} {stopping.best_step}"
    )
    value, size = np.array([-100.0, -101.0, -99.0, -130.0]), np.array([9.0, 7.0, 12.0, 2.0])
    found["structure"] = [best_structure(value, size, w) for w in (5.0, 50.0, 5000.0)] + penalized(
        value, size, 40.0
    ).tolist()
    return found


@SCENARIOS
def trees_of_experts() -> dict[str, Any]:
    found = {}
    for depth in (1, 2, 3):
        for most in (1, 2, 3, 4, 8, 9, 10):
            found[f"{depth} {most}"] = str(gates_to_try("auto", depth, most))
        found[f"{depth} given"] = str(gates_to_try(3, depth, 5)) + str(gates_to_try([2] * depth, depth, 5))
    return found


@SCENARIOS
def rows_of_searches() -> dict[str, Any]:
    """Folds and draws of stacks, weights of held-out rows."""
    table = numbers()
    from latentia import LatentClassifier

    data = LatentClassifier(unlabeled=-1)._read_input(
        table.X, table.y, np.where(np.arange(43) % 9 == 0, 0.0, table.weight)
    )
    source = ArraySource(table.X, table.y, table.weight)
    rng = np.random.default_rng
    twice = np.concatenate([table.X[:8], table.X[:8], table.X[:4]])
    labels = np.concatenate([table.truth[:8], table.truth[:8], 2 - table.truth[:4]])
    few = np.tile([[0.0], [1.0]], (9, 1))
    return {
        "folds": [folds.assign_folds(data, n, power) for n, power in ((2, 1), (3, 2), (5, 3))],
        "searched": [[fold.train, fold.test] for fold in folds.search_folds(3, data, 99, 2, rng(0))],
        "some": [[fold.train, fold.test] for fold in folds.search_folds(2, data, 12, 1, rng(0))],
        "given": [
            [fold.train, fold.test]
            for fold in folds.search_folds(
                [(np.arange(20), np.arange(20, 43)), (np.arange(20, 43), np.arange(12))], data, 12, 1, rng(0)
            )
        ],
        "chosen": folds.choose_rows(data, 12, rng(1)),
        "default": len(folds.search_folds(None, data, 99, 1, rng(0))),
        "unlabeled": unlabeled_weight.assign_folds(ArraySource(np.nan_to_num(table.X), table.y), 3),
        "best": [
            unlabeled_weight._best(
                np.random.RandomState(k).uniform(0, 1, (3, 9)) - [[0], [0.2], [0.1 * k]], np.arange(1.0, 10.0)
            )
            for k in range(6)
        ],
        "merged": tree(distinct_rows.merge_equal_rows(twice, labels, np.arange(20.0))),
        "merged_plain": str(distinct_rows.merge_equal_rows(table.X[:5], table.truth[:5], None)[2]),
        "held_out": distinct_rows.held_out_weight(twice, labels, np.arange(1.0, 21.0), 0.25, rng(0)),
        "held_out_few": distinct_rows.held_out_weight(few, np.arange(18) % 2, None, 0.25, rng(0)),
        "numbers": source.sample_numbers(12, rng(4)),
    }


@SCENARIOS
def temperings() -> dict[str, Any]:
    rng = np.random.RandomState(0)
    joint = rng.normal(size=(3, 40)) * 6
    codes = np.where(rng.uniform(size=40) < 0.6, joint.argmax(0), rng.randint(0, 3, 40))
    weight = rng.uniform(0.2, 2.0, 40)
    rows = tempering.LabeledRows(joint, rng.randint(0, 6, 40), codes, weight)
    sure = rows._replace(log_likelihood=np.eye(3)[codes].T * 3)
    return {
        "best": [tempering.best_tempering(rows._replace(log_likelihood=joint * s)) for s in (0.1, 1.0, 4.0)],
        "plain": tempering.best_tempering(rows, with_offsets=False),
        "sure": tempering.best_tempering(sure),
        "losses": rows.log_losses(tempering.Tempering(2.5, np.array([0.3, 0.0, -0.2]))),
    }


@SCENARIOS
def kernels() -> dict[str, Any]:
    rng = np.random.RandomState(0)
    rows = rng.normal(size=(20, 3)) * [1.0, 5.0, 0.0] + 2.0
    kernel = features.KernelMap.learn(rows, 8, np.random.default_rng(0))
    every = features.KernelMap.learn(rows, 50, np.random.default_rng(0))
    return {
        "some": tree(tuple(kernel)),
        "mapped": kernel.similarities(rows[:4] + 0.3),
        "every": every.similarities(rows[:2]),
        "gaps": features.rows_without_cells(np.array([[np.nan, np.nan], [1.0, np.nan]])),
    }


@SCENARIOS
def levels() -> dict[str, Any]:
    counts = np.array([5, 1, 9, 2, 2, 7])
    values = PlainValues.from_values(["a", "b", "c", "d", "e", "f"])
    found: dict[str, Any] = {}
    for name, merging in {
        "none": Merging(),
        "most": Merging(max_categories=3),
        "one": Merging(max_categories=1),
        "least": Merging(min_frequency=3),
        "edge": Merging(min_frequency=2),
        "share": Merging(min_frequency=0.2),
        "both": Merging(max_categories=4, min_frequency=6),
    }.items():
        made = Levels.of(values).merge(counts, merging)
        found[name] = {
            "rare": merging.rare(counts),
            "asked": merging.is_asked_for,
            "n_codes": made.n_codes,
            "plain": made.is_plain,
            "categories": made.categories,
            "merged": made.merged,
            "codes": made.find(["f", "a", "x", "b", "d"]),
            "taken": made.take(np.array([0.0, 1.2, 0.6, 9.0]), between=False),
        }
    found["between"] = Levels.of(PlainValues.from_values([2, 5])).take(np.array([0.0, 0.25, 1.0]), between=True)
    found["joined"] = str(join_distinct([(["a", "b"], np.array([1, 2])), (["b", "c"], np.array([3, 4]))], False))
    parts = [digest_labels(np.array([3, -1, 5, 3])), digest_labels(np.array([5, 9]))]
    found["classes"] = read_classes(parts, -1)
    found["classes_all"] = read_classes(parts, None)
    found["kinds"] = refusal(read_classes, [digest_labels(np.array(["a"])), digest_labels(np.array([1]))], None)
    return found


@SCENARIOS
def records() -> dict[str, Any]:
    """What solvers keep of restarts and steps."""
    record = RestartHistory(4)
    params = (np.arange(8.0).reshape(4, 2),)
    record.add(np.array([1.0, 2.0, 3.0, 4.0]))
    record.finish(np.array([1]), params, Outcome.CONVERGED)
    rest = (params[0][[0, 2, 3]],)
    record.add(np.array([1.5, 3.5, 4.5]))
    record.finish(np.array([0, 2]), rest, Outcome.AT_ROUNDING)
    record.add(np.array([5.0]))
    record.finish(np.array([0]), (rest[0][[1]],), Outcome.MAX_ITER)
    solution = record.solution()
    step = best_step("EM", 3, np.array([1.0, 7.0, 2.0]), lambda k: k)
    history = LBFGSHistory(2, 3) if _takes_two(LBFGSHistory) else None
    return {
        "value": solution.value,
        "params": tree(solution.params),
        "n_iter": solution.n_iter,
        "outcomes": " | ".join(o.name for o in solution.outcomes),
        "curves": [c.tolist() for c in solution.curves],
        "second": tree(solution.take_restarts([3, 0]).params),
        "step": f"{step.solver} {step.iteration} {step.value} {step.n_running} {step.params()}",
        "history": type(history).__name__,
    }


def _takes_two(cls: type) -> bool:
    try:
        cls(2, 3)
    except TypeError:
        return False
    return True


@SCENARIOS
def report_pieces() -> dict[str, Any]:
    from latentia.apps.report import elements, svg

    values = [0.0, 1.0, -1.5, 1234567.0, 1e-7, 0.00012345, 99999.5, float("nan"), float("inf"), 12.0, 123456789.0]
    found: dict[str, Any] = {
        "numbers": " | ".join(elements.number(v) for v in values),
        "short": " | ".join(elements.number(v, 2) for v in values),
        "percents": " | ".join(elements.percent(v) for v in (0.0, 0.1234, 0.9996, 1.0, 0.00004)),
        "plain": " | ".join(
            elements.plain(v) for v in (1, 2.5, "a<b", None, True, np.float64(3.25), np.int64(4), float("nan"), [1, 2])
        ),
        "slugs": " | ".join(elements.slug(t) for t in ("What matters", "A & B <c>", "Déjà vu 2")),
        "colors": " ".join(svg.color(k) for k in range(-1, 14)),
        "legend": svg.legend(["a", "b<c"], True) + svg.legend(["a"], False),
    }
    for low, high in ((0.0, 1.0), (-3.0, 7.2), (1e-6, 5e-6), (1000.0, 98765.0), (-0.1, 0.1), (0.0, 1e7)):
        found[f"ticks {low} {high}"] = svg.ticks(low, high)
        found[f"few {low} {high}"] = svg.ticks(low, high, 3)
        found[f"words {low} {high}"] = " ".join(f"{v:g}={t}" for v, t in svg.labeled_ticks(low, high))
    return found
