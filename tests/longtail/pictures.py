"""Pictures that small networks learn."""

import numpy as np

from sumexp.datasets.labelled import Labelled


def patterns() -> Labelled:
    """Rows, columns, a chessboard and nothing, 8 x 8, each under noise."""
    generator = np.random.default_rng(0)
    row, column = np.indices((8, 8))
    kinds = [row % 2, column % 2, (row + column) % 2, 0 * row]

    def part(counts: list[int]) -> tuple[np.ndarray, np.ndarray]:  # type: ignore[type-arg]
        labels = np.repeat(np.arange(4), counts)
        pictures = generator.integers(0, 120, (len(labels), 8, 8, 1))
        for picture, label in zip(pictures, labels, strict=True):
            picture[..., 0] += 120 * kinds[label]
        return pictures.astype(np.uint8), labels

    return Labelled(*part([40, 20, 10, 5]), *part([10] * 4), 4)
