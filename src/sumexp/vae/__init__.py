"""The categorical VAE with perturbed argmax: published and corrected protocol, many models trained as one."""
