"""Train a plan's methods on your files in the text format of the extreme-classification repository."""

from collections.abc import Sequence
from pathlib import Path

from sumexp._runtime import Progress
from sumexp.chapters.models.sampled.methods import Method
from sumexp.chapters.retrieval import grids, metrics
from sumexp.chapters.retrieval.judging import check, judge
from sumexp.chapters.retrieval.summary import Summary, summaries
from sumexp.chapters.retrieval.training import tune
from sumexp.datasets.extreme import read_extreme


def compare(
    train: Path,
    test: Path,
    plan: grids.Plan,
    methods: Sequence[Method] = (),
    *,
    constants: tuple[float, float] = metrics.USUAL,
    device: str = "cpu",
    progress: Progress = iter,
) -> dict[Method, Summary]:
    """Train methods with each seed of a plan on two files, and summarise the runs.

    The time of a step does not depend on the number of labels. Evaluation scores all labels for each test example, in
    blocks of examples.

    Args:
        train: the training examples, in the format of `sumexp.datasets.extreme`.
        test: the test examples.
        plan: seeds, negatives, epochs and rates.
        methods: all of the factorial by default.
        constants: A and B of the propensities; `grids.PROPENSITIES` has those of published data sets.
        device: where to train.
        progress: wraps the loop over the runs.

    Returns:
        a summary for each method; head, torso and tail as far as they have a test pair.

    Raises:
        DataError: if a file has another format.
        ValueError: before training, if a method is not trained here, there are fewer training pairs than a batch, the
            constants are not positive, or no test example has a label that occurs in training.
        FloatingPointError: if a loss is not finite.
    """
    data = read_extreme(train, test)
    check(data, constants)
    configs = grids.configs("shakespeare", plan, methods)
    results = [
        judge(tune(configs[i], data, device=device).learner, data, constants) for i in progress(range(len(configs)))
    ]
    return summaries((config.method, arrays) for config, arrays in zip(configs, results, strict=True))
