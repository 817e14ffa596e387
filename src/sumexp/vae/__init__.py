"""The categorical VAE with perturbed argmax: published and corrected protocol, many models trained as one."""

from sumexp.vae import stack
from sumexp.vae.config import Member, Stack, Temperature, fixed

__all__ = ["Member", "Stack", "Temperature", "fixed", "stack"]
