"""What a chapter's page shows of its cells."""

from types import SimpleNamespace
from typing import Any, cast

import pytest

from claimbook import BookError
from claimbook.pipeline import staging
from claimbook.store import Entry


def noted(**what: Any) -> dict[str, Any]:
    return {"output_type": "display_data", "data": {}, "metadata": {"sumexp": what}}


@pytest.mark.parametrize(
    "outputs, tags, folded",
    [
        ([noted(result="error", value=1.0), noted(guard="It holds.")], [], True),
        ([noted(sentence="order", text="It holds.")], ["hide-input"], True),
        ([{"output_type": "stream", "name": "stderr", "text": "50 %"}, noted(result="error", value=1.0)], [], True),
        ([], ["parameters"], True),
        ([noted(result="error", value=1.0), noted(figure="curve")], [], False),
        ([{"output_type": "stream", "name": "stdout", "text": "1"}], [], False),
        ([], [], False),
    ],
)
def test_code_that_only_keeps_books_is_folded(outputs: list[dict[str, Any]], tags: list[str], folded: bool) -> None:
    cell = {"cell_type": "code", "metadata": {"tags": tags}, "outputs": outputs}
    assert staging._clean(cell, None)["metadata"]["tags"].count("hide-input") == folded


def test_a_figure_says_what_it_was_made_from() -> None:
    entry = SimpleNamespace(
        computation=SimpleNamespace(key="0123456789abcdef"),
        provenance=SimpleNamespace(more={"parameters": {"profile": "smoke", "device": ""}}),
    )
    cell = {"cell_type": "code", "metadata": {}, "outputs": [noted(figure="curve", alt="A curve.")]}
    (output,) = staging._clean(cell, cast(Entry, entry))["outputs"]
    made = "key 0123456789ab · profile smoke · device none"
    assert output["metadata"]["sumexp"] == {"figure": "curve", "alt": "A curve.", "provenance": made}


@pytest.mark.parametrize("place", ["caption", "alt"])
def test_a_guarded_sentence_may_stand_in_a_caption_or_an_alternative_text(place: str) -> None:
    figure = noted(figure="curve", **{"caption": "A.", "alt": "B.", place: "It holds,\nalways."})
    cells = [{"cell_type": "code", "outputs": [figure, noted(guard="It holds, always.")]}]
    staging._check_guards("bias", cells)
    with pytest.raises(BookError, match=r"bias\.md guards .It holds, always\.., which it does not say"):
        staging._check_guards("bias", [{"cell_type": "code", "outputs": [noted(guard="It holds, always.")]}])
