"""Outputs of executed notebooks, and what their code notes of them."""

import re
from collections.abc import Mapping
from typing import Any

_SIGN = re.compile(r"[\\`*_{}\[\]<>|$&~]")


def literal(text: str) -> str:
    """Escape a text for MyST."""
    return _SIGN.sub(r"\\\g<0>", text)


def noted(output: Mapping[str, Any]) -> Mapping[str, Any]:
    """What the code of a notebook notes of an output: the name of a figure or number, a sentence, a guard."""
    mark: Mapping[str, Any] = output.get("metadata", {}).get("sumexp", {})
    return mark


def staged(output: Mapping[str, Any]) -> dict[str, Any]:
    """An output as MyST-NB reads it, with joined texts."""
    if output["output_type"] == "stream":
        return {"output_type": "stream", "name": output["name"], "text": "".join(output["text"])}
    data = {kind: "".join(text) for kind, text in output["data"].items()}
    return {"output_type": "display_data", "data": data, "metadata": output["metadata"]}
