"""Where this user's store is, and its remote."""

import os
from pathlib import Path
from typing import TYPE_CHECKING

from sumexp.companion import CompanionError
from sumexp.companion.store.entries import Store, is_full

if TYPE_CHECKING:
    from sumexp.companion.store.remote import Remote


def default() -> Store:
    """The store of this user: ``SUMEXP_STORE``, else the folder ``store`` in the user's cache folder."""
    if chosen := os.environ.get("SUMEXP_STORE"):
        root = Path(chosen).expanduser().absolute()
    else:
        from platformdirs import user_cache_path

        root = user_cache_path("sumexp") / "store"
    shared = remote()
    return Store(root, shared.fetch if shared else None)


def in_words(error: BaseException) -> str:
    """An error as a person reads it: one of ours, or a full disk and what to do; empty if it is another."""
    if isinstance(error, CompanionError) or not is_full(error):
        return str(error) * isinstance(error, CompanionError)
    return f"{error}; free space (sumexp clean), or name another store than {default().root} by SUMEXP_STORE"


def remote() -> "Remote | None":
    """The remote of this user's store: ``SUMEXP_REMOTE``."""
    if address := os.environ.get("SUMEXP_REMOTE"):
        from sumexp.companion.store.remote import Remote

        return Remote(address)
    return None
