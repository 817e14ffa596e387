"""Fetching one file: into a part beside its place that the next call continues, then checked and renamed."""

from pathlib import Path

from sumexp.datasets.declarations import DataFile, fault


def download(file: DataFile, target: Path) -> None:
    """Fetch ``file`` to ``target``, with a progress bar; nothing appears there before it is whole and verified.

    Raises:
        OSError: if the transfer breaks off or the folder cannot be written; what has come stays in the part.
        ValueError: if the server sent another file; nothing is kept.
    """
    import pooch
    import requests
    from filelock import FileLock
    from tqdm import tqdm

    part = target.with_name(target.name + ".part")

    def resume(url: str, output_file: str, _: object) -> None:
        with part.open("ab") as stream:
            have = stream.tell()
            begun = have > 0 and (have < file.size or not file.size)
            headers = {"Accept-Encoding": "identity"} | ({"Range": f"bytes={have}-"} if begun else {})
            with (
                requests.get(url, headers=headers, stream=True, timeout=30) as response,
                tqdm(desc=target.name, total=file.size or None, initial=have, unit="B", unit_scale=True) as bar,
            ):
                if response.status_code != requests.codes.partial_content:
                    stream.truncate(0)
                response.raise_for_status()
                for chunk in response.iter_content(1 << 16):
                    bar.update(stream.write(chunk))
        part.replace(output_file)
        if file.blob and (wrong := fault(Path(output_file), file)):  # pooch knows no git ids
            raise ValueError(wrong)

    target.parent.mkdir(parents=True, exist_ok=True)
    with FileLock(target.with_name(target.name + ".lock")):
        if not target.exists():
            pooch.retrieve(
                file.url,
                known_hash=f"sha256:{file.sha256}" if file.sha256 else None,
                fname=target.name,
                path=target.parent,
                downloader=resume,
            )
