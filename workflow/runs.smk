# Fills the store with the training runs of a grid; `make runs GRID=vae` drives it (companion/grids/filling.py), on this
# machine or with an executor plugin.
import sys

from sumexp.companion.grids.filling import Rules

GRID, PROFILE, DEVICE = (config[name] for name in ("grid", "profile", "device"))
PYTHON = sys.executable

runs = Rules(GRID, PROFILE, DEVICE)


rule all:
    input:
        runs.outputs(),
    localrule: True


rule run:
    output:
        # Another driver may have finished it meanwhile: Snakemake removes what it is to make, but not to update.
        update("run/{task}/{key}/SHA256SUMS"),
    wildcard_constraints:
        key="[0-9a-f]{64}",
    threads: lambda wildcards: runs.job(wildcards.key).threads
    resources:
        # As the plugins for Slurm and Kubernetes ask for them; a run that was cut short goes on from its checkpoint.
        runtime=lambda wildcards, attempt: attempt * runs.minutes(wildcards.key),
        mem_mb=lambda wildcards, attempt: attempt * 8000,
        **({"gpu": 1, "gpu_manufacturer": "nvidia"} if DEVICE == "cuda" else {}),
    shell:
        "{PYTHON:q} -m sumexp.companion.cli runs run"
        " --grid {GRID} --profile {PROFILE} --device {DEVICE} --only {wildcards.key}"
