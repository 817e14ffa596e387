"""The modules for trainers that the page on libraries prints, trained as they stand."""

import re
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F

from sumexp import functional

pytestmark = [pytest.mark.peers, pytest.mark.filterwarnings("ignore")]

PAGE = (Path(__file__).parents[2] / "book/libraries.md").read_text("utf-8")


def printed(name: str) -> Any:
    """A class of the page."""
    [block] = [code for code in re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL) if f"class {name}(" in code]
    names: dict[str, Any] = {}
    exec(block, names)
    return names[name]


def test_towers_of_lightning_beat_popularity() -> None:
    """20 users of two kinds; each kind takes half of the 20 items, by Zipf's law: log 2 is to be gained."""
    lightning = pytest.importorskip("lightning")
    generator = torch.Generator().manual_seed(0)
    weight = 1 / torch.arange(1, 11, dtype=torch.float64)
    user = torch.randint(20, (4096,), generator=generator)
    item = 2 * torch.multinomial(weight, 4096, replacement=True, generator=generator) + user % 2
    log_q = ((torch.bincount(item, minlength=20) + 1.0) / (4096 + 20)).log()
    torch.manual_seed(0)
    towers = printed("Towers")(20, log_q)
    pairs = torch.utils.data.TensorDataset(user, item)
    named = ("logger", "enable_checkpointing", "enable_progress_bar", "enable_model_summary")
    quiet: Any = dict.fromkeys(named, False)
    batches = torch.utils.data.DataLoader(pairs, batch_size=128, shuffle=True)
    lightning.Trainer(max_epochs=5, accelerator="cpu", **quiet).fit(towers, batches)
    with torch.no_grad():
        loss = F.cross_entropy(towers.scores(user, torch.arange(20)), item).item()
    popularity = F.cross_entropy(log_q.expand(4096, -1), item).item()
    assert loss < popularity - 0.5


def test_the_trainer_of_sentence_transformers_takes_the_corrected_loss(tmp_path: Path) -> None:
    """Eight documents, one of them in half of the pairs; the queries name the document."""
    peer = pytest.importorskip("sentence_transformers")
    datasets = pytest.importorskip("datasets")
    tokenizers = pytest.importorskip("tokenizers")
    modules = pytest.importorskip("sentence_transformers.sentence_transformer.modules")

    number = torch.cat([torch.zeros(64, dtype=torch.long), torch.arange(64) % 8]).tolist()
    words = [f"{kind}{i}" for kind in ("query", "document") for i in range(8)]
    vocabulary = {word: i for i, word in enumerate(["[UNK]", *words])}
    tokenizer = tokenizers.Tokenizer(tokenizers.models.WordLevel(vocabulary, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.Whitespace()
    torch.manual_seed(0)
    model = peer.SentenceTransformer(modules=[modules.StaticEmbedding(tokenizer, embedding_dim=8)], device="cpu")
    pairs = datasets.Dataset.from_dict(
        {"query": [f"query{i}" for i in number], "document": [f"document{i}" for i in number], "label": number}
    )
    log_q = (torch.bincount(torch.tensor(number)) / len(number)).log()
    loss = printed("CorrectedRanking")(model, log_q)

    def scores() -> torch.Tensor:
        left, right = (model.encode([f"{kind}{i}" for i in range(8)]) for kind in ("query", "document"))
        return F.normalize(torch.as_tensor(left)) @ F.normalize(torch.as_tensor(right)).T

    before = functional.in_batch(scores(), range(8), log_q=log_q, temperature=0.05).item()  # type: ignore[arg-type]
    options = peer.SentenceTransformerTrainingArguments(
        output_dir=str(tmp_path), num_train_epochs=10, per_device_train_batch_size=16, learning_rate=0.05,
        report_to=[], save_strategy="no", use_cpu=True, disable_tqdm=True,
    )  # fmt: skip
    peer.SentenceTransformerTrainer(model=model, args=options, train_dataset=pairs, loss=loss).train()
    after = functional.in_batch(scores(), range(8), log_q=log_q, temperature=0.05).item()  # type: ignore[arg-type]
    assert after < before / 2
    assert (scores().argmax(1) == torch.arange(8)).all()
