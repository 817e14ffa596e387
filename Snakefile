# The graph of the build; `sumexp book` (companion/build.py) drives it. What a rule depends on is summed up in its key,
# so the only trigger is `params`. A product that is made anew is kept until the new one is in place (`update`).
import sys

from sumexp.companion import build

PROFILE, DEVICE, ONLY = (str(config.get(name, default)) for name, default in build.DEFAULTS.items())
PYTHON = sys.executable
STEP = "{PYTHON:q} -m sumexp.companion.build {rule} {PROFILE} {DEVICE} '{ONLY}'"
PRODUCTS = ["build/executed/{name}.ipynb", "build/results/{name}.json", "build/executions/{name}.json"]

plan = build.plan(PROFILE, DEVICE, ONLY)


rule all:
    input:
        [str(target) for target in plan.targets()],


rule notebook:
    output:
        *(update(product) for product in PRODUCTS),
        update(directory("build/figures/{name}")),
    params:
        key=lambda wildcards: plan.chapters[wildcards.name],
    threads: 2
    resources:
        gpu=int(plan.device == "cuda"),
    shell:
        STEP + " {wildcards.name}"


rule evidence:
    output:
        update("build/evidence/{name}.json"),
    params:
        key=lambda wildcards: plan.evidence[wildcards.name],
    shell:
        STEP + " {wildcards.name}"


rule register:
    input:
        expand("build/evidence/{name}.json", name=plan.evidence),
    output:
        update("build/register.json"),
    params:
        key=plan.register,
    shell:
        STEP


rule html:
    input:
        expand(PRODUCTS, name=plan.selected),
        "build/register.json",
    output:
        update("build/html/index.html"),
        update("build/executions.json"),
    params:
        key=plan.html,
    shell:
        STEP
