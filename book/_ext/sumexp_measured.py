"""Tables of what was measured: files of ``benchmarks/results``, and what executions cost."""

import json
from typing import ClassVar

from docutils import nodes
from docutils.parsers.rst import directives
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective
from sumexp_book import found

from sumexp.companion.pipeline import measured


class Measured(SphinxDirective):
    """``{measured} NAME ...`` shows what it holds and all tables of these files; nothing where none is there.

    Option ``table`` picks one by its title, ``slower`` the rows in which something else is faster.
    """

    required_arguments = 1
    optional_arguments = 100
    has_content = True
    option_spec: ClassVar = {"table": directives.unchanged, "slower": directives.flag}

    def run(self) -> list[nodes.Node]:
        paths = [found(self.env, f"{name}.json") for name in self.arguments]
        files = [json.loads(path.read_text("utf-8")) for path in paths if path.exists()]
        if not files:
            return []
        slower = "slower" in self.options
        text = measured.slower(files) if slower else measured.text(files, self.options.get("table"))
        return [*self.parse_content_to_nodes(), *self.parse_text_to_nodes(text)]


def setup(app: Sphinx) -> None:
    app.add_directive("measured", Measured)
