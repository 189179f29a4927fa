"""Errors of the queue, the engine and the models that are loaded."""

from __future__ import annotations

from collections.abc import Sequence

from app.errors.problems import ServiceError
from model.languages import LanguagePairs, closest, english_name


class QueueFull(ServiceError, code="queue_full", status=429, title="Too many sentences are waiting", retry_after=True):
    """The sentences of a request do not fit into the queue.

    Args:
        retry_after_s: Estimated seconds until they fit.
        num_sentences: Sentences of this request.
        num_waiting: Sentences in the queue.
        bound: The size of the queue.
    """

    def __init__(self, retry_after_s: float, num_sentences: int = 0, num_waiting: int = 0, bound: int = 0) -> None:
        super().__init__(
            f"The queue is full: {num_waiting} of {bound} sentences are waiting, and the request has {num_sentences}; "
            f"try again in {retry_after_s:.0f} s, or send less at once."
        )
        self.retry_after_s = retry_after_s


class DeadlineUnreachable(
    ServiceError,
    code="deadline_unreachable",
    status=429,
    title="The request would take too long at present",
    retry_after=True,
):
    """A request would probably miss its deadline, so it is not started.

    Args:
        estimate_s: Estimated seconds until it would be finished.
        within_s: Seconds until its deadline.
        num_sentences: Its sentences.
        retry_after_s: Seconds until it would probably be finished in time; None if it is too large at any time.
    """

    def __init__(self, estimate_s: float, within_s: float, num_sentences: int, retry_after_s: float | None) -> None:
        advice = "send less at once"
        if retry_after_s is not None:
            advice = f"try again in {retry_after_s:.0f} s, or {advice}"
        super().__init__(
            f"The request has {num_sentences} sentences and would take about {estimate_s:.1f} s, but its deadline is "
            f"in {max(0.0, within_s):.1f} s; {advice}."
        )
        self.estimate_s = estimate_s
        self.retry_after_s = retry_after_s


class NotReady(ServiceError, code="not_ready", status=503, title="The service is not ready", retry_after=True):
    """The service does not accept requests.

    Args:
        retry_after_s: Seconds until a retry may succeed.
        reason: ``loading``, ``empty``, ``draining``, ``failed``, ``stopped``, ``unloaded``, ``model_loading``,
            ``load_failed``, ``no_thread`` or ``no_process``.
    """

    def __init__(self, retry_after_s: float, reason: str) -> None:
        meaning = {
            "loading": "The model is still loading",
            "empty": "No model is loaded",
            "unloaded": "The model was unloaded before the request was finished",
            "model_loading": "The model of this pair is still being loaded",
            "load_failed": "The model of this pair could not be loaded, and the log has the reason",
            "draining": "The service is shutting down and accepts no new requests",
            "failed": "The model could not be loaded or no longer works",
            "stopped": "The service has stopped",
            "no_thread": "The system refuses to start another thread",
            "no_process": "The system refuses to start a process that the request needs, or has ended it",
        }.get(reason, reason)
        super().__init__(f"{meaning}; try again in {retry_after_s:.0f} s.")
        self.retry_after_s = retry_after_s
        self.reason = reason


class DeadlineExceeded(ServiceError, code="deadline_exceeded", status=504, title="The request took too long"):
    """A request took longer than ``deadline_s`` seconds and was stopped."""

    def __init__(self, deadline_s: float) -> None:
        super().__init__(
            f"The request was not finished within {deadline_s:g} s and was stopped; send less text at once, "
            "use greedy decoding or a smaller beam, or try again when there is less load."
        )


class InferenceFailed(ServiceError, code="inference_failed", status=500, title="The model failed", show_detail=False):
    """The model raised an unexpected error; the log has it."""

    def __init__(self) -> None:
        super().__init__("The model failed on this text; the service's log has the reason.")


class BundleNotFound(ServiceError, code="bundle_not_found", status=404, title="There is no such bundle"):
    """There is no bundle ``file`` to load; ``available`` are the names of those that exist."""

    def __init__(self, file: str, available: Sequence[str]) -> None:
        super().__init__(f"There is no bundle {file[:200]!r}; available: {', '.join(available[:20]) or 'none'}.")


class BundleOutside(ServiceError, code="bundle_outside", status=422, title="The bundle is outside the allowed folders"):
    """The bundle ``file`` is outside the folders that bundles may be loaded from; a bundle is a program."""

    def __init__(self, file: str) -> None:
        super().__init__(
            f"The bundle {file[:200]!r} is outside the folders of the configured bundles (VERSO_MODELS, VERSO_MODEL); "
            "move it there, or start the service with another folder."
        )


class BundleRefused(ServiceError, code="bundle_refused", status=422, title="The bundle cannot be served"):
    """A bundle cannot be served: it is damaged or foreign, its digest differs, or it needs another device.

    The message is that of the error with which the bundle was refused.
    """


class ModelAlreadyLoaded(ServiceError, code="model_already_loaded", status=409, title="A model of this name is loaded"):
    """The bundle to load has the name of a model that is loaded."""

    def __init__(self, name: str) -> None:
        super().__init__(f"A model called {name!r} is already loaded; unload it first.")


class UnknownModel(ServiceError, code="unknown_model", status=404, title="No such model is loaded"):
    """The model ``name`` to unload is not among those ``loaded``."""

    def __init__(self, name: str, loaded: Sequence[str]) -> None:
        super().__init__(f"No model called {name[:200]!r} is loaded; loaded models: {', '.join(loaded) or 'none'}.")


class LanguageNotDetected(
    ServiceError, code="language_not_detected", status=422, title="The language could not be detected"
):
    """``source`` is ``auto``, and none of the languages of ``pairs``, the loaded ones, is detected."""

    def __init__(self, pairs: LanguagePairs) -> None:
        super().__init__(
            "The language of the text cannot be detected: no model has it, or the detector does not support it; "
            f"name it as source. Loaded pairs: {pairs.describe()}."
        )


class PairInTwoLegs(ServiceError, code="pair_in_two_legs", status=422, title="Two models translate the pair"):
    """The attention of a pair is requested that two models translate one after the other.

    Args:
        first: The language pair of the first model.
        second: The language pair of the second one.
    """

    def __init__(self, first: tuple[str, str], second: tuple[str, str]) -> None:
        super().__init__(
            f"{first[0]} is translated into {second[1]} through {first[1]}, by two models, and attention is that of "
            f"one: request {first[0]} to {first[1]}, then its translation from {second[0]} to {second[1]}."
        )


class DetectedPairNotServed(
    ServiceError, code="detected_pair_not_served", status=422, title="The detected pair is not served"
):
    """``source`` is ``auto``, and no pair, or several, have the detected language and the target.

    Args:
        language: The detected language.
        confidence: The confidence in it, 0 to 1.
        target: The target language, or None if none was named.
        pairs: The loaded pairs.
    """

    def __init__(self, language: str, confidence: float, target: str | None, pairs: LanguagePairs) -> None:
        self.language = language
        self.is_loaded = closest(language, pairs.languages) is not None
        if not self.is_loaded:
            super().__init__(
                f"The text is probably {english_name(language)} ({language!r}, confidence {confidence:.2f}), which no "
                f"loaded model translates. If it is not, name its source. Loaded pairs: {pairs.describe()}."
            )
        else:
            request = "no target is named" if target is None else f"target is {target!r}"
            super().__init__(
                f"The text seems to be {language!r} (confidence {confidence:.2f}) and {request}: no single loaded pair "
                f"matches. Name source and target; loaded pairs: {pairs.describe()}."
            )
