"""Where this user's store is, and its remote."""

import os
from pathlib import Path

from sumexp.companion.store.entries import Store


def default() -> Store:
    """The store of this user: ``SUMEXP_STORE``, else the folder ``store`` in the user's cache folder."""
    chosen = os.environ.get("SUMEXP_STORE")
    if chosen:
        root = Path(chosen).expanduser().absolute()
    else:
        from platformdirs import user_cache_path

        root = user_cache_path("sumexp") / "store"
    remote = os.environ.get("SUMEXP_REMOTE")
    if not remote:
        return Store(root)
    from sumexp.companion.store.remote import Remote

    return Store(root, Remote(remote).fetch)
