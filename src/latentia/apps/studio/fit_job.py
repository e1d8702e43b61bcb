"""A fit under way: it tells of every candidate, can be stopped, and keeps what it has."""

from __future__ import annotations

import threading
import time
import warnings
from collections.abc import Callable

from sklearn.exceptions import ConvergenceWarning

from latentia.apps import JsonObject
from latentia.apps.studio.choices import Choices
from latentia.apps.studio.limits import FIT_SECONDS
from latentia.apps.studio.problems import sentence
from latentia.estimators.latent_classifier import LatentClassifier
from latentia.estimators.latent_classifier.search import Trial
from latentia.solvers.em import Step


class FitJob:
    """A fit in a thread of its own. `finished` gets the model, and makes what the page shows."""

    def __init__(self, choices: Choices, finished: Callable[[FitJob, LatentClassifier], None]):
        self.choices, self._finished = choices, finished
        self.trials: list[JsonObject] = []
        self.curve: list[float] = []  # of the weights
        self.notes: list[str] = []
        self.phase = "trying models"  # then "weighing", "drawing the map", "done" or "failed"
        self.message = ""
        self.result: JsonObject = {}  # what is known of the model, once there is one
        self.was_stopped = False
        self._stop = threading.Event()
        self._started, self._ended = time.monotonic(), 0.0
        self._thread = threading.Thread(target=self._run, name="studio-fit", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """End with what has been tried; at least one candidate will have been."""
        self._stop.set()

    def wait(self, seconds: float | None = None) -> None:
        self._thread.join(seconds)

    @property
    def is_running(self) -> bool:
        return self.phase not in ("done", "failed")

    @property
    def seconds(self) -> float:
        return (self._ended or time.monotonic()) - self._started

    def describe(self) -> JsonObject:
        """Progress, as the page shows it: the least log loss first."""
        return {
            "phase": self.phase,
            "running": self.is_running,
            "stopped": self.was_stopped,
            "seconds": round(self.seconds, 2),
            "trials": list(self.trials),
            "curve": list(self.curve),
            "message": self.message,
            "notes": list(self.notes),
            "target": self.choices.target,
            "effort": self.choices.effort,
        }

    def _run(self) -> None:
        try:
            model = self.choices.classifier().set_params(callback=self._hear)
            with warnings.catch_warnings(record=True) as found:
                warnings.simplefilter("always")
                warnings.simplefilter("ignore", ConvergenceWarning)
                model.fit(self.choices.frame, self.choices.labels)
                self.notes = sorted({str(w.message) for w in found if issubclass(w.category, UserWarning)})
                model.set_params(callback=None)
                model.target_name_ = self.choices.target
                model.number_forms_ = {name: tuple(form) for name, form in self.choices.forms.items()}
                self.phase = "drawing the map"
                self._finished(self, model)
            self._end("done")
        except (ValueError, TypeError) as error:
            self._end("failed", f"{sentence(str(error))} Change the kind of that column, or leave it out.")
        except MemoryError:
            self._end("failed", "There is not enough memory for this table. Leave columns out, or open fewer rows.")
        except Exception as error:
            self._end("failed", f"The fit ended with an error ({type(error).__name__}: {error}). Leave columns out.")

    def _end(self, phase: str, message: str = "") -> None:
        self.message, self._ended = " ".join(message.split()), time.monotonic()
        self.phase = phase

    def _hear(self, event: Step | Trial) -> bool:
        """A callback of the fit: a candidate, or a step of the weights."""
        if isinstance(event, Trial):
            self.trials.append(
                {
                    "candidate": event.candidate,
                    "log_loss": round(event.log_loss, 5),
                    "accuracy": round(event.accuracy, 5),
                    "seconds": round(event.seconds, 3),
                }
            )
            self.was_stopped = self._stop.is_set() or self.seconds > FIT_SECONDS
            return self.was_stopped
        self.phase = "weighing"
        self.curve.append(float(event.value))
        return False
