r"""Fixed features of small images: whitened patches of the training set as filters, both signs, pooled by quadrant.

They are computed once, without labels, and are the same for all methods and seeds. With :math:`p` a patch of the image,
of mean 0 and variance 1, and :math:`W` the whitening of such patches, the filter of another patch :math:`d` responds by

.. math:: r = \frac{(W d)^\top}{\lVert W d\rVert}\,W p, \qquad \max(r-\alpha, 0),\ \max(-r-\alpha, 0),

and each of both is summed over the four quadrants: 8 features for each filter, then standardised.

Source: A. Coates, H. Lee and A. Y. Ng, An Analysis of Single-Layer Networks in Unsupervised Feature Learning, 2011.
"""

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor

PATCHES = 20_000
"""Patches of which the whitening is estimated."""

THRESHOLD = 0.5
RIDGE = 0.1
"""Added to the patches' covariance before it is inverted, and to a patch's variance."""

_CHUNK = 1000


def features(
    train: NDArray[np.uint8], test: NDArray[np.uint8], filters: int, seed: int = 0
) -> tuple[Tensor, Tensor, Tensor]:
    """The features of the training images, of their mirror images, and of the test images, [n, 8 filters] each.

    Images are [n, side, side, channels]; the seed chooses the patches. Features are float32, standardised by mean and
    deviation of the training images.
    """
    generator = torch.Generator().manual_seed(seed)
    images, judged = _scaled(train), _scaled(test)
    size = 6 if images.shape[-1] >= 16 else 4
    bank, whiten, centre = _filters(images, size, filters, generator)
    plain = _responses(images, size, bank, whiten, centre)
    mean, deviation = plain.mean(0), plain.std(0) + 1e-6
    mirrored = _responses(images.flip(-1), size, bank, whiten, centre)
    tested = _responses(judged, size, bank, whiten, centre)
    first, second, third = ((part - mean) / deviation for part in (plain, mirrored, tested))
    return first, second, third


def _scaled(pictures: NDArray[np.uint8]) -> Tensor:
    """[N, channels, side, side] in [0, 1]."""
    return torch.from_numpy(np.ascontiguousarray(pictures.transpose(0, 3, 1, 2))).float() / 255


def _normal(patches: Tensor) -> Tensor:
    """Patches [..., values, n] of mean 0 and variance 1, but for the ridge."""
    centred = patches - patches.mean(-2, keepdim=True)
    return centred / (centred.square().mean(-2, keepdim=True) + RIDGE / 10).sqrt()


def _filters(images: Tensor, size: int, filters: int, generator: torch.Generator) -> tuple[Tensor, Tensor, Tensor]:
    """Filters [filters, values], the whitening [values, values] and the patches' mean [values, 1]."""
    span = images.shape[-1] - size + 1
    which, rows, columns = (torch.randint(most, (PATCHES,), generator=generator) for most in (len(images), span, span))
    reach = torch.arange(size)
    patches = images[which[:, None, None], :, rows[:, None, None] + reach[:, None], columns[:, None, None] + reach]
    values = _normal(patches.permute(0, 3, 1, 2).reshape(PATCHES, -1).T)
    centre = values.mean(1, keepdim=True)
    covariance = (values - centre) @ (values - centre).T / PATCHES
    spectrum, basis = torch.linalg.eigh(covariance.double())
    whiten = ((basis / (spectrum + RIDGE).sqrt()) @ basis.T).float()
    bank = (whiten @ (values[:, :filters] - centre)).T
    return bank / bank.norm(dim=1, keepdim=True), whiten, centre


def _responses(images: Tensor, size: int, bank: Tensor, whiten: Tensor, centre: Tensor) -> Tensor:
    """[n, 8 filters]."""
    combined = bank @ whiten
    side = images.shape[-1] - size + 1
    responses = []
    for part in torch.split(images, _CHUNK):
        r = combined @ (_normal(F.unfold(part, size)) - centre)
        signed = torch.cat([(r - THRESHOLD).relu(), (-r - THRESHOLD).relu()], 1)
        responses.append(F.adaptive_avg_pool2d(torch.unflatten(signed, -1, (side, side)), 2).flatten(1))
    return torch.cat(responses)
