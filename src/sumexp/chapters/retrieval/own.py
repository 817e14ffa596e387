"""Training a plan's methods on any data set in the text format of the extreme-classification repository.

The runs of the book's grid are of data sets that it fetches, and are cached; these are of files that a user has.
"""

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
    """Train methods with each seed of a plan on a data set of two files, and sum up what they find.

    A step touches the rows that it needs, so that training takes no longer with more labels; to judge takes scores of
    all labels for each test example, of some examples at a time: `sumexp.chapters.retrieval.judging`.

    Args:
        train: the training examples, see `sumexp.datasets.extreme` for the form.
        test: the test examples.
        plan: how many seeds, negatives, epochs, and which rates.
        methods: which; all of the factorial if none are given.
        constants: A and B of the propensities; of the data sets in `grids.PROPENSITIES` those that it has.
        device: where to train.
        progress: wraps the runs that are to be done.

    Returns:
        of each method its numbers; of head, torso and tail those that have a test pair.

    Raises:
        DataError: if a file is not of that form.
        ValueError: before anything is trained, if a method is none that is trained here, there are fewer training pairs
            than a batch, the constants are not positive, or no test example has a label that occurs in training.
        FloatingPointError: if a loss is not finite.
    """
    data = read_extreme(train, test)
    check(data, constants)
    configs = grids.configs("shakespeare", plan, methods)
    results = [
        judge(tune(configs[i], data, device=device).learner, data, constants) for i in progress(range(len(configs)))
    ]
    return summaries((config.method, arrays) for config, arrays in zip(configs, results, strict=True))
