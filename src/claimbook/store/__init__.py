"""The store: everything computed, under a key of everything that it depends on.

An executed notebook, a test module's evidence, a training run, a whole grid of runs and the rendered pages are
`Computation`s: a kind, a name and named parts (code by module, parameters, versions, data), which make the key. The
result is an `Entry`: a folder ``<root>/<kind>/<name>/<key>`` of files, with parts, provenance and checksums, which
appears whole or not at all. The root is ``SUMEXP_STORE``, else the folder ``store`` in the user's cache folder.
``build/`` is a view of it.
"""

from claimbook.store.computation import Computation
from claimbook.store.entries import Entry, Store, default

__all__ = ["Computation", "Entry", "Store", "default"]
