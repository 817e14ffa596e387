"""The categorical VAE with perturbed argmax: published and corrected protocol, many models trained as one."""

from sumexp.vae import stack
from sumexp.vae.config import Member, Stack, Temperature, fixed
from sumexp.vae.grids import PUBLISHED, data, grid, work

__all__ = ["PUBLISHED", "Member", "Stack", "Temperature", "data", "fixed", "grid", "stack", "work"]
