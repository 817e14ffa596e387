"""Which pages Sphinx writes again: those read again, and all of them if anything has changed that pages show of others.

Titles, numbers, targets of links, the index and everything else that pages share lies in Sphinx's environment. Its
digest is kept with the pages; while it stays, a page that was not read again would be written as it stands.
"""

import pickle
from collections.abc import Iterable, Iterator, Mapping, Set
from hashlib import sha256
from operator import itemgetter
from pathlib import Path, PurePath
from shutil import copytree, ignore_patterns
from typing import Any

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.builders.html import StandaloneHTMLBuilder
from sphinx.environment import BuildEnvironment

BEFORE = "before"
"""The folder of the pages written last, beside the one of those to be written."""
STATE = "written.pickle"
"""Beside what was read: the digest of what pages share, and what the index for searching has of each."""
INDEX = ("titles", "filenames", "mapping", "title_mapping", "all_titles", "index_entries", "objtypes", "objnames")

# What was read when, from where and by whom; settings, which `rendering` digests; titles before the last reading.
_NOT_SHOWN = {
    *("all_docs", "app", "config", "config_status", "config_status_extra", "dependencies", "doctreedir", "domains"),
    *("events", "included", "project", "settings", "srcdir", "temp_data", "titles_old", "version"),
    *("_pickled_doctree_cache", "_write_doc_doctree_cache", *(f"_search_index_{name}" for name in INDEX)),
}


class Pages(StandaloneHTMLBuilder):
    """Sphinx's writer of pages; it keeps what was written last, and its index, where that stands."""

    shared = ""
    indexer = None
    earlier: Mapping[str, Any] | None = None
    """What was kept of the last writing; None if all pages are to be written."""

    def get_outdated_docs(self) -> Iterator[str]:
        """None, whatever the dates of files say: `choose` says."""
        return iter(())

    def load_indexer(self, docnames: Iterable[str]) -> None:
        """Take up the index as it was: Sphinx would read it from what it wrote, which has not all of it."""
        assert self.indexer is not None
        written = set(docnames)
        if self.earlier is not None:
            vars(self.indexer).update({f"_{name}": self.earlier[name] for name in INDEX})
            self.indexer.prune(self.env.found_docs - written)
            for words in (self.indexer._mapping, self.indexer._title_mapping):
                for word in [word for word, pages in words.items() if not pages]:
                    del words[word]  # a word that only these pages had

    def gen_indices(self) -> None:
        """Write the pages of indices, which show only what pages share."""
        if self.earlier is None:
            super().gen_indices()

    def gen_pages_from_extensions(self) -> None:
        """Write the pages of code, likewise."""
        if self.earlier is None:
            super().gen_pages_from_extensions()

    def gen_additional_pages(self) -> None:
        """Write the page for searching, likewise."""
        if self.earlier is None:
            super().gen_additional_pages()


def settle(app: Sphinx, env: BuildEnvironment) -> None:
    """Leave the same however many pages were read, and by how many processes.

    Pages of code that no page links to appear where all is read at once, and vanish where one page is read again;
    what sphinx-exercise counts on a page is of use while it is read, and kept by the main process only.
    """
    vars(env).pop("sphinx_exercise_gated_registry", None)
    modules: dict[str, Any] = getattr(env, "_viewcode_modules", {})
    for name in [name for name, entry in modules.items() if not entry or not entry[2]]:
        del modules[name]


def choose(app: Sphinx, env: BuildEnvironment) -> Iterable[str]:
    """The pages to write besides those read again: one, as for none Sphinx would copy no styles either, or all."""
    builder = app.builder
    assert isinstance(builder, Pages)
    builder.shared, builder.earlier = digest(env), _earlier(env)
    if builder.earlier is not None and builder.earlier["shared"] != builder.shared:
        builder.earlier = None
    if builder.earlier is None:
        return env.found_docs
    # Pages name checksums of the static files that are there already, which must not be those of the last time.
    copytree(Path(app.outdir).with_name(BEFORE), app.outdir, dirs_exist_ok=True, ignore=ignore_patterns("_static"))
    return (env.config.root_doc,)


def keep(app: Sphinx, error: Exception | None) -> None:
    """Keep what the next writing needs to know of this one."""
    builder = app.builder
    assert isinstance(builder, Pages)
    if error is None and builder.indexer is not None:  # None where there was nothing to write
        state = {name: getattr(builder.indexer, f"_{name}") for name in INDEX}
        _state(app.env).write_bytes(pickle.dumps({"shared": builder.shared, **state}))


def digest(env: BuildEnvironment) -> str:
    """A digest of what pages show of each other."""
    shared = {name: value for name, value in vars(env).items() if name not in _NOT_SHOWN}
    # The number of words is shown on the page itself, if anywhere.
    shared["metadata"] = {
        page: {key: fields[key] for key in fields if key != "wordcount"} for page, fields in env.metadata.items()
    }
    # Of a page of which nothing is noted it depends on the order of reading whether that is noted.
    shared["nb_metadata"] = {page: fields for page, fields in shared.get("nb_metadata", {}).items() if fields}
    total = sha256()
    for word in _told(shared, frozenset()):
        total.update(word.encode() + b"\0")
    return total.hexdigest()


def _told(value: Any, within: Set[int]) -> Iterator[str]:
    """What a value is, in words that are the same for the same value; where it cannot tell they are not the same."""
    inside = within | {id(value)}
    yield type(value).__name__
    if id(value) in within or isinstance(value, str | int | float | None | PurePath | type):
        yield "" if id(value) in within else repr(value)
    elif isinstance(value, nodes.Node):
        yield value.pformat()
    elif isinstance(value, Mapping):
        for key, one in sorted(((list(_told(key, inside)), one) for key, one in value.items()), key=itemgetter(0)):
            yield from (*key, *_told(one, inside))
    elif isinstance(value, Set):
        yield from (word for one in sorted(list(_told(one, inside)) for one in value) for word in one)
    elif isinstance(value, list | tuple):
        # By page, as the order of pages is that in which they were read.
        for one in sorted(value, key=lambda one: str(getattr(one, "docname", ""))):
            yield from _told(one, inside)
    elif hasattr(value, "__dict__"):
        yield from _told(vars(value), inside)
    else:
        yield repr(value)
    yield "."


def _earlier(env: BuildEnvironment) -> Mapping[str, Any] | None:
    state = _state(env)
    if not state.exists():
        return None
    found: Mapping[str, Any] = pickle.loads(state.read_bytes())  # noqa: S301 - Sphinx's own, which lie beside it, are too
    return found


def _state(env: BuildEnvironment) -> Path:
    return Path(env.doctreedir, STATE)


def setup(app: Sphinx) -> dict[str, object]:
    """Have pages written as described."""
    app.add_builder(Pages, override=True)
    app.connect("env-updated", settle)
    app.connect("env-get-updated", choose, priority=999)  # once everything is numbered
    app.connect("build-finished", keep)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
