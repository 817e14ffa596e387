"""Pictures in a folder, and published lists of which of them are in a data set: ImageNet-LT and iNaturalist 2018.

A line of a list is a picture's path below the folder, a blank, and its class: ``train/n01440764/n01440764_190.JPEG 0``.
The lists are in the catalogue; the pictures are under terms of their own, and lie where the user has them.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sumexp.datasets._declarations import DataError

MEAN = np.array([0.485, 0.456, 0.406], dtype=np.float32)
"""What is subtracted from each colour of an image in [0, 1], as is usual for ImageNet."""

DEVIATION = np.array([0.229, 0.224, 0.225], dtype=np.float32)
"""What each colour is then divided by."""


@dataclass(frozen=True, eq=False)
class Listed:
    """Which pictures are in a part of a data set.

    Attributes:
        paths: below the folder of pictures.
        labels: each picture's class [N], int64.
    """

    paths: tuple[str, ...]
    labels: NDArray[np.int64]

    @property
    def counts(self) -> NDArray[np.int64]:
        """How many pictures of each class there are, up to the largest class that occurs."""
        return np.bincount(self.labels)


def read_lists(*lists: Path) -> tuple[Listed, ...]:
    """Read the lists of a data set's parts, the training list first.

    Raises:
        DataError: if a list is not of this form, or a class of another list has no training picture.
    """
    train, *others = (read_list(path) for path in lists)
    for path, other in zip(lists[1:], others, strict=True):
        if unknown := sorted(set(other.labels.tolist()) - set(train.labels.tolist())):
            raise DataError(f"{path} has class {unknown[0]}, of which {lists[0]} has no picture")
    return train, *others


def read_list(path: Path) -> Listed:
    """Read one list.

    Raises:
        DataError: if it is empty, is not UTF-8 or a line is not of the form; the message names file and line.
    """
    try:
        text = path.read_text("utf-8-sig")  # a BOM is no part of a path
    except UnicodeDecodeError as error:
        place = path.read_bytes()[: error.start].count(b"\n") + 1
        raise DataError(f"{path}, line {place}: expected UTF-8, got byte {error.object[error.start]:#04x}") from error
    paths, labels = [], []
    for number, line in enumerate(text.splitlines(), 1):
        name, _, label = line.strip().rpartition(" ")
        if not name or not label.isascii() or not label.isdigit():
            raise DataError(f"{path}, line {number}: expected a path, a blank and a class, got {line[:60]!r}")
        if Path(name).is_absolute() or ".." in Path(name).parts:
            raise DataError(f"{path}, line {number}: {name!r} leads out of the folder of pictures")
        if len(label) > 9:  # counts have a place for each class up to the largest
            raise DataError(
                f"{path}, line {number}: the class is {label[:20]}, more than any data set has; give 0, 1, ..."
            )
        paths.append(name)
        labels.append(int(label))
    if not paths:
        raise DataError(f"{path} lists no picture")
    return Listed(tuple(paths), np.array(labels, dtype=np.int64))


def read_picture(
    folder: Path, name: str, side: int = 224, generator: np.random.Generator | None = None
) -> NDArray[np.float32]:
    """One picture as a network takes it, [3, side, side], each colour without its mean and over its deviation.

    To be judged: the shorter side is scaled to 8/7 of ``side`` and the middle is cut out. To train, with a generator:
    a rectangle of 8 to 100 % of the area and a ratio of 3:4 to 4:3 is scaled to the square, every other one mirrored.

    Args:
        folder: of the pictures.
        name: below the folder.
        side: of the result.
        generator: of the training picture; none to judge.

    Raises:
        DataError: if the picture is absent or cannot be read, or Pillow, which reads it, is not installed.

    Source: Goyal et al. (2017) for ImageNet's augmentation.
    """
    image: Any = _pillow()
    path = folder / name
    try:
        with image.open(path) as file:
            picture = file.convert("RGB")
    except FileNotFoundError as error:
        raise DataError(f"the picture {path} is not there; name the folder that holds {name!r}") from error
    except (OSError, SyntaxError, ValueError) as error:
        raise DataError(f"{path} is not a picture that can be read: {error}") from error
    box = _middle(picture.size) if generator is None else _rectangle(picture.size, generator)
    scaled = picture.resize((side, side), image.Resampling.BILINEAR, box=box)
    values = np.asarray(scaled, dtype=np.float32) / 255
    if generator is not None and generator.random() < 0.5:
        values = values[:, ::-1]
    return np.ascontiguousarray(((values - MEAN) / DEVIATION).transpose(2, 0, 1))


def _pillow() -> Any:
    try:
        from PIL import Image
    except ImportError as error:
        raise DataError(
            "pictures in a folder are read by Pillow, which is not here; run: pip install pillow"
        ) from error
    return Image


def _middle(size: tuple[int, int]) -> tuple[float, float, float, float]:
    """The square of 7/8 of the shorter side in the middle."""
    width, height = size
    side = min(size) * 7 / 8
    return ((width - side) / 2, (height - side) / 2, (width + side) / 2, (height + side) / 2)


def _rectangle(size: tuple[int, int], generator: np.random.Generator) -> tuple[float, float, float, float]:
    """A rectangle drawn as Inception's augmentation has it; the middle one, if ten draws do not fit."""
    width, height = size
    for _ in range(10):
        area = width * height * generator.uniform(0.08, 1)
        ratio = np.exp(generator.uniform(np.log(3 / 4), np.log(4 / 3)))
        w, h = float(np.sqrt(area * ratio)), float(np.sqrt(area / ratio))
        if w <= width and h <= height:
            left, upper = generator.uniform(0, width - w), generator.uniform(0, height - h)
            return (left, upper, left + w, upper + h)
    return _middle(size)
