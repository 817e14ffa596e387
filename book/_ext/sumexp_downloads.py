"""What a reader takes away of a page: the executed notebook, its source, the data behind its figures, its entry for a
list of references; and where the notebook runs in a browser, if the book says where its repository is."""

import json
from pathlib import Path
from shutil import copytree
from typing import Any
from urllib.parse import quote, urlsplit

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.environment import BuildEnvironment

from sumexp.companion.pipeline import notebook_export
from sumexp.companion.register import read_json

DATA = Path("book/_data")
CHAPTERS = "notebooks/"


def names(app: Sphinx) -> notebook_export.Names:
    """What chapters may refer to, once all pages are read."""
    env = app.env
    titles = {page: title.astext() for page, title in env.titles.items()}
    verdicts = {entry.claim.id: entry.verdict for entry in read_json(Path(app.srcdir, DATA, "register.json"))}
    repository = app.config.html_context.get("repository", "")
    return notebook_export.Names(
        places=sections(env) | counted(env),
        pages=titles,
        cited=cited(env),
        verdicts=verdicts,
        macros=app.config.mathjax3_config["tex"]["macros"],
        root=f"{app.config.html_baseurl.rstrip('/')}/" if app.config.html_baseurl else "../",
        package=f"git+{repository}" if repository else "",
    )


def sections(env: BuildEnvironment) -> dict[str, notebook_export.Place]:
    """Sections and figures, which have a title of their own."""
    labels = env.get_domain("std").labels
    return {
        label: notebook_export.Place(title, page, anchor) for label, (page, anchor, title) in labels.items() if title
    }


def counted(env: BuildEnvironment) -> dict[str, notebook_export.Place]:
    """Theorems, exercises and formulas, which Sphinx counts by chapter."""
    theorems = [(label, one["docname"], one["countertype"], one["realtype"]) for label, one in env.proof_list.items()]
    exercises = [
        (label, one["docname"], one["type"], one["type"]) for label, one in env.sphinx_exercise_registry.items()
    ]
    equations = env.get_domain("math").equations.items()
    formulas = [(nodes.make_id(f"equation-{label}"), page, "displaymath", "") for label, (page, _) in equations]
    found = {}
    for anchor, page, counter, kind in theorems + exercises + formulas:
        number = ".".join(map(str, env.toc_fignumbers.get(page, {}).get(counter, {}).get(anchor, ())))
        label = anchor if kind else anchor.removeprefix("equation-")
        found[label] = notebook_export.Place(f"{kind.title()} {number}".strip(), page, anchor)
    return found


def cited(env: BuildEnvironment) -> dict[str, tuple[str, str, notebook_export.Place]]:
    """The bibliography by key: authors as a sentence names them, year, place."""
    found = {}
    for one in env.get_domain("cite").citations:
        last = [" ".join(map(str, person.rich_last_names)) for person in one.entry.persons.get("author", ())]
        who = authors(last) or f"*{one.entry.fields['title']}*"  # as the book's own style has it
        place = notebook_export.Place("", one.bibliography_key.docname, one.citation_id)
        found[one.key] = (who, one.entry.fields.get("year", "n.d."), place)
    return found


def authors(last: list[str]) -> str:
    """Authors as a sentence names them, by their last names."""
    return f"{last[0]} et al." if len(last) > 2 else " and ".join(last)


def write(app: Sphinx, error: Exception | None) -> None:
    """Lay the notebooks beside their pages, the chapters' sources with the others', the data of figures in a folder."""
    source, out = Path(app.srcdir), Path(app.outdir)
    if error or app.builder.format != "html" or not (source / DATA).exists():
        return
    known = names(app)
    for file in sorted((source / CHAPTERS).glob("*.ipynb")):
        page = notebook_export.notebook(file.stem, json.loads(file.read_text("utf-8")), known)
        text = json.dumps(page, indent=1, ensure_ascii=False)
        (out / CHAPTERS / file.name).write_text(f"{text}\n", "utf-8")
        (out / "_sources" / CHAPTERS / file.name).unlink(missing_ok=True)
    for folder, target in (("written", f"_sources/{CHAPTERS}"), ("figures", "_figures")):
        if (source / DATA / folder).exists():
            copytree(source / DATA / folder, out / target, dirs_exist_ok=True)


def offer(app: Sphinx, page: str, template: str, context: dict[str, Any], doctree: nodes.document | None) -> None:
    """Let the menu of downloads and, if there is a repository, that of places to run name what `write` lays there."""
    buttons = context.get("header_buttons", [])
    if not page.startswith(CHAPTERS) or doctree is None:
        return
    for menu in (menu for menu in buttons if menu["label"] == "download-buttons"):
        printed = [one for one in menu["buttons"] if one["type"] == "javascript"]
        menu["buttons"] = [
            link(f"{page.removeprefix(CHAPTERS)}.ipynb", ".ipynb", "Download the executed notebook", "notebook"),
            link(f"{context['pathto']('_sources', 1)}/{page}.md", ".md", "Download the source", "source"),
            *printed,
        ]
    places = launches(app.config.html_context.get("repository", ""), page.removeprefix(CHAPTERS))
    if places:
        links = [link(address, name, f"Open in {name}", name.lower()) for name, address in places.items()]
        menu = {"type": "group", "tooltip": "Run this chapter", "icon": "fas fa-rocket", "label": "launch-buttons"}
        buttons.insert(0, {**menu, "buttons": links})


def link(address: str, text: str, tooltip: str, label: str) -> dict[str, str]:
    icon = "fas fa-file"
    return {
        "type": "link",
        "url": address,
        "text": text,
        "tooltip": tooltip,
        "icon": icon,
        "label": f"download-{label}-button",
    }


def launches(repository: str, chapter: str) -> dict[str, str]:
    """Where a chapter's notebook runs in a browser, by the name of the place; Colab and Binder know GitHub.

    The notebooks lie on a branch of their own (`notebook_export.BRANCH`), which continuous integration pushes: the
    main branch has chapters as text.
    """
    address = urlsplit(repository)
    if address.netloc != "github.com":
        return {}
    path, file = address.path.strip("/"), f"ipynb/{quote(chapter)}.ipynb"
    return {
        "Colab": f"https://colab.research.google.com/github/{path}/blob/{notebook_export.BRANCH}/{file}",
        "Binder": f"https://mybinder.org/v2/gh/{path}/{notebook_export.BRANCH}?urlpath=lab/tree/{file}",
    }


def setup(app: Sphinx) -> dict[str, object]:
    app.connect("build-finished", write)
    app.connect("html-page-context", offer, priority=900)  # the theme makes its menus at 501
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
