"""Training a plan's methods on any data set in the text format of the extreme-classification repository.

The runs of the book's grid are of data sets that it fetches, and are cached; these are of files that a user has.
"""

from collections.abc import Sequence
from pathlib import Path

from sumexp.datasets.extreme import read_extreme
from sumexp.models.sampled.methods import Method
from sumexp.retrieval import grids, training
from sumexp.retrieval.summary import Summary, summaries
from sumexp.runtime import Progress


def compare(
    train: Path,
    test: Path,
    plan: grids.Plan,
    methods: Sequence[Method] = (),
    *,
    device: str = "cpu",
    progress: Progress = iter,
) -> dict[Method, Summary]:
    """Train methods with each seed of a plan on a data set of two files, and sum up what they find.

    A step touches the rows that it needs, so that training takes no longer with more labels; to judge takes scores of
    all labels for each test example, 500 examples at a time: 4 bytes x 500 x L, several times over.

    Args:
        train: the training examples, see `sumexp.datasets.extreme` for the form.
        test: the test examples.
        plan: how many seeds, negatives, epochs.
        methods: which; all of the factorial if none are given.
        device: where to train.
        progress: wraps the runs that are to be done.

    Raises:
        DataError: if a file is not of that form.
        ValueError: if a method is none that is trained here, or there are fewer training pairs than a batch.
        FloatingPointError: if a loss is not finite.
    """
    data = read_extreme(train, test)
    configs = [
        training.Config(method=method, seed=seed, width=plan.width, epochs=plan.epochs, batch=plan.batch)
        for method in methods or grids.methods(plan.negatives)
        for seed in range(plan.seeds)
    ]
    found = [training.fit(configs[i], data, device=device) for i in progress(range(len(configs)))]
    return summaries((config.method, one.arrays) for config, one in zip(configs, found, strict=True))
