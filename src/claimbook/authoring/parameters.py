"""The parameters of a notebook, checked and resolved by the notebook itself, so that any way of running it works."""

import torch

from claimbook import BookError
from claimbook.store.settings import DEVICES, PROFILES, choice, resolve_device


def check(profile: str, device: str = "cpu", seed: int = 0) -> str:
    """The device that training runs on: ``auto`` is ``cuda`` where torch can use it, otherwise ``cpu``.

    Raises `BookError` for an unknown profile, seed or device, or ``cuda`` without a GPU; seeds are below 2^32.
    """
    choice("profile", profile, PROFILES)
    if type(seed) is not int or not 0 <= seed < 2**32:
        raise BookError(f"seed is {seed!r}; it must be a whole number from 0 to {2**32 - 1}")
    if device in DEVICES:
        return resolve_device(device)
    try:
        return torch.device(device).type
    except RuntimeError as error:
        raise BookError(f"device is {device!r}; expected {', '.join(DEVICES)} or a device of torch") from error
