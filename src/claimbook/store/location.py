"""Where this user's store is."""

import os
from pathlib import Path

from claimbook import BookError
from claimbook.store.entries import Store, is_full


def default() -> Store:
    """The store of this user: ``SUMEXP_STORE``, else the folder ``store`` in the user's cache folder."""
    if chosen := os.environ.get("SUMEXP_STORE"):
        return Store(Path(chosen).expanduser().absolute())
    from platformdirs import user_cache_path

    return Store(user_cache_path("sumexp") / "store")


def in_words(error: BaseException) -> str:
    """The message of a `BookError`, or of a full disk with the fix; empty for any other error."""
    if isinstance(error, BookError) or not is_full(error):
        return str(error) * isinstance(error, BookError)
    return f"{error}; free space (claimbook clean), or name another store than {default().root} by SUMEXP_STORE"
