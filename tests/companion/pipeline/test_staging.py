"""What a chapter's page shows of its cells."""

from typing import Any

import pytest

from sumexp.companion.pipeline import staging


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
def test_the_code_of_a_cell_that_only_keeps_books_is_folded(
    outputs: list[dict[str, Any]], tags: list[str], folded: bool
) -> None:
    cell = {"cell_type": "code", "metadata": {"tags": tags}, "outputs": outputs}
    kept = staging._clean(cell, None)["metadata"]["tags"]
    assert kept.count("hide-input") == folded
