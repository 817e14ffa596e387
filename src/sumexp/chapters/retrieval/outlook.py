"""The task that predicts the order of methods from label frequencies, before training."""

from dataclasses import dataclass, replace

from sumexp._runtime import NO_CHECKPOINT, Checkpoint, Progress, Result
from sumexp.chapters.models.sampled import prediction
from sumexp.chapters.models.sampled.methods import Method
from sumexp.chapters.retrieval.training import Source, load


@dataclass(frozen=True)
class Outlook:
    """The methods of a prediction, and the data set; labels that do not occur in training do not count."""

    source: Source
    methods: tuple[Method, ...]


def predict(
    config: Outlook, /, *, device: str = "cpu", progress: Progress = iter, checkpoint: Checkpoint = NO_CHECKPOINT
) -> Result:
    """The arrays of `sumexp.chapters.models.sampled.prediction.predict`, and the number of training ``examples``."""
    data = load(config.source)
    forecast = prediction.Forecast(tuple(data.counts[data.counts > 0].tolist()), config.methods, "quantiles")
    result = prediction.predict(forecast, device=device, progress=progress, checkpoint=checkpoint)
    return replace(result, metrics={"examples": data.train.features.shape[0]})
