"""Figures of chapters on pages: the picture, its caption, and where its numbers come from."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from docutils import nodes
from myst_parser.parsers.sphinx_ import MystParser
from sphinx.application import Sphinx
from sphinx.transforms import SphinxTransform
from sphinx.util.docutils import SphinxDirective, new_document
from sumexp_book import quoted, raw

SVG = "image/svg+xml"


class Figures(SphinxTransform):
    """Puts a figure in the place of each picture that `claimbook.authoring.figures.show` has shown.

    Its label ``fig-NAME`` is for references, which print its number; ``cell-NAME`` is the cell that draws it.
    """

    default_priority = 210  # before Sphinx collects pictures and sets quotes

    def apply(self, **_: Any) -> None:
        """Go through the page's cells."""
        containers = list(self.document.findall(nodes.container))
        code = [cell for cell in containers if cell.get("nb_element") == "cell_code"]
        places = [(cell, one) for cell in code for one in cell.findall(nodes.container) if one.get("mime_type") == SVG]
        if not places:
            return
        cells = json.loads(Path(self.env.doc2path(self.env.docname)).read_text("utf-8"))["cells"]
        shown = [output for cell in cells for output in cell.get("outputs", ()) if SVG in output.get("data", {})]
        number = 0
        for (cell, place), output in zip(places, shown, strict=True):
            about = output["metadata"].get("sumexp", {})
            if "figure" in about:
                number, page, name = number + 1, self.env.docname, about["figure"]
                place[:] = self.figure(pictures(output), about)
                self.env.metadata[page]["provenance"] = about["provenance"]  # at the page's foot
                cell["ids"].append(f"cell-{name}")
                self.env.get_domain("std").note_hyperlink_target(f"fig-{name}", page, f"fig-{name}", f"Figure {number}")

    def figure(self, picture: str, about: Mapping[str, str]) -> list[nodes.Node]:
        """The figure, with its caption read as the page is."""
        name = about["figure"]
        page = new_document(self.document["source"], self.document.settings)
        MystParser().parse(about["caption"], page)
        page[-1] += raw(f' <a class="headerlink" href="#fig-{name}" title="Link to this figure">#</a>')
        return figure(picture, page.children, name, source(about))


class QuotedFigure(SphinxDirective):
    """The picture of a chapter's figure, with a caption of its own: ``synthesis one-step``."""

    required_arguments = 2
    has_content = True

    def run(self) -> list[nodes.Node]:
        """The figure; its caption alone where the chapter has not drawn it yet."""
        chapter, name = self.arguments
        output, caption = quoted(self.env, chapter, "figure", name), self.parse_content_to_nodes()
        return caption if output is None else figure(pictures(output), caption)


def pictures(output: Mapping[str, Any]) -> str:
    """The picture for a desk and, if any, that for a phone; the style sheet shows one of the two."""
    narrow: str = output["metadata"]["sumexp"].get("narrow", "")
    return "".join(output["data"][SVG]) + narrow.replace("<svg ", '<svg class="narrow" ', 1)


def figure(picture: str, caption: Sequence[nodes.Node], name: str = "", source: str = "") -> list[nodes.Node]:
    """A figure as all pages have it; a link can lead to one with a name."""
    identity = f' id="fig-{name}"' if name else ""
    held = f'<div class="figure-picture" tabindex="0">{picture}</div>'
    return [
        raw(f'<figure{identity} class="sumexp-figure">\n{held}\n<figcaption>'),
        *caption,
        raw(f"{source}</figcaption>\n</figure>"),
    ]


def source(about: Mapping[str, str]) -> str:
    """The line below a caption: the cell, the function and the numbers."""
    name, (module, _, function) = about["figure"], about["source"].partition(":")
    code = f"../_modules/{module.replace('.', '/')}.html#{function}"
    public = ".".join(part for part in module.split(".") if not part.startswith("_"))
    return (
        f'<p class="figure-source">Drawn <span class="in-cell">in <a href="#cell-{name}">this cell</a> </span>from '
        f'<a href="{code}"><code>{public}.{function}</code></a>. '
        f'<a href="../_figures/{name}.csv" download>Data (CSV).</a></p>'
    )


def setup(app: Sphinx) -> None:
    app.add_transform(Figures)
    app.add_directive("quoted-figure", QuotedFigure)
