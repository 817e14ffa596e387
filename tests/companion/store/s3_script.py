"""Run by test_s3.py where moto and s3fs are: a store whose remote is a bucket, and what goes wrong with it."""

import logging
import os
import sys
from pathlib import Path

import fsspec
from moto.server import ThreadedMotoServer

from sumexp.companion import CompanionError
from sumexp.companion.store import Computation, Store
from sumexp.companion.store.provenance import Provenance
from sumexp.companion.store.remote import Remote

ADDRESS = "s3://shelf/sumexp"
MADE = Provenance("2026-01-01T00:00:00+00:00", 1.0, 1.0, 1, "cpu", "a machine", {"python": "3"})


def asked(number: int) -> Computation:
    return Computation("run", "some.task", {"number": str(number)})


def keep(store: Store, number: int, content: bytes) -> None:
    with store.locked(asked(number)), store.writing(asked(number)) as (folder, seal):
        (folder / "file.bin").write_bytes(content)
        seal(MADE)


def main(folder: Path) -> None:
    server = ThreadedMotoServer(port=0)
    server.start()
    os.environ |= {"AWS_ACCESS_KEY_ID": "key", "AWS_SECRET_ACCESS_KEY": "secret", "AWS_DEFAULT_REGION": "us-east-1"}
    os.environ["AWS_MAX_ATTEMPTS"] = "1"  # a server that is gone would be asked again for ten seconds and more
    endpoint = "http://{}:{}".format(*server.get_host_and_port())
    fsspec.config.conf["s3"] = {"endpoint_url": endpoint}
    files = fsspec.filesystem("s3")
    files.mkdir("shelf")
    here = Store(folder / "here")
    large = os.urandom(30 << 20)  # more than one part of a transfer
    for number, content in enumerate((b"small", large, b"to be spoilt", b"to be cut off", b"to be moved")):
        keep(here, number, content)
        assert Remote(ADDRESS).push(here.find(asked(number)))
        assert not Remote(ADDRESS).push(here.find(asked(number)))

    there = Store(folder / "there", Remote(ADDRESS).fetch)
    for number, content in ((0, b"small"), (1, large)):
        assert (there.find(asked(number)).path / "file.bin").read_bytes() == content
    assert there.find(asked(99)) is None

    def address(number: int) -> str:
        return f"shelf/sumexp/run/some.task/{asked(number).key}.tar"

    archive = files.cat_file(address(2))
    files.pipe_file(address(2), archive.replace(b"to be spoilt", b"to be SPOILT"))
    files.pipe_file(address(3), files.cat_file(address(3))[:700])
    files.pipe_file(address(5), files.cat_file(address(4)))
    said: list[str] = []
    handler = logging.Handler()
    handler.emit = lambda record: said.append(record.getMessage())  # type: ignore[method-assign]
    logging.getLogger("sumexp.companion.store.remote").addHandler(handler)
    for number in (2, 3, 5):
        assert there.find(asked(number)) is None
        assert not there.has(asked(number))
    assert len(said) == 3, said
    assert all("refused" in one for one in said), said

    server.stop()
    keep(here, 6, b"late")
    said.clear()
    try:
        Remote(ADDRESS).push(here.find(asked(6)))
    except CompanionError as error:
        said.append(str(error))
    assert len(said) == 1, said
    assert said[0].startswith("cannot write shelf/sumexp/run/some.task/"), said
    print("all is well")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
