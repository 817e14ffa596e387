"""What a reader chooses of a build: its profile and its device."""

from collections.abc import Iterable
from importlib.metadata import version

from claimbook import BookError

PROFILES = ("smoke", "cpu", "paper")
DEVICES = ("auto", "cpu", "cuda")


def choice(name: str, value: str, allowed: Iterable[str]) -> str:
    """``value``, if it is one of ``allowed``."""
    if value not in allowed:
        raise BookError(f"{name} is {value!r}; expected one of {', '.join(allowed)}")
    return value


def resolve_device(device: str, *, needed: bool = True) -> str:
    """``cpu`` or ``cuda``; ``auto`` is ``cuda`` where torch can use it. What is stored needs no device (``needed``)."""
    if choice("device", device, DEVICES) == "cpu" or (device == "cuda" and not needed):
        return device
    if cuda_available():
        return "cuda"
    if device == "cuda":
        raise BookError("device is 'cuda', but torch finds no CUDA device; take cpu, or a CUDA build (make TORCH=cuda)")
    return "cpu"


def cuda_available() -> bool:
    """Whether torch can use a GPU; torch, which takes seconds to import, is not asked if it is built for the CPU."""
    if version("torch").endswith("+cpu"):
        return False
    import torch

    return torch.cuda.is_available()


def gpu_shares(cores: int, each: int = 4 << 30) -> int:
    """How many chapters may train on the GPU at once: a core and ``each`` bytes of its memory for each."""
    import torch

    return max(1, min(cores, torch.cuda.get_device_properties(0).total_memory // each))
