from collections.abc import Iterator
from typing import Any, Literal, NamedTuple

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray

from . import Dataset, Features, Layer, Sampler, _Direction, _Fanout, _Kind, _Path, _Size

class Batch(NamedTuple):
    epoch: int
    number: int
    nodes: torch.Tensor
    seeds: torch.Tensor
    features: torch.Tensor | None
    labels: torch.Tensor | None
    layers: list[Layer]

def tensor_of(array: NDArray[Any]) -> torch.Tensor: ...

class Loader(torch.utils.data.IterableDataset[Batch]):
    dataset: Dataset
    seeds: NDArray[np.uint32]
    batch_size: int
    device: torch.device | None
    sampler: Sampler
    features: Features | None
    def __init__(self, dataset: Dataset | _Path, fanout: _Fanout, batch_size: int, *,
                 split: Literal["train", "valid", "test"] = "train", seeds: ArrayLike | None = None,
                 kind: _Kind = "dense", direction: _Direction = "in", replace: bool = False, seed: int = 0,
                 shuffle: bool = True, cache: Literal["belady", "lru", "static", "none"] = "belady",
                 memory: _Size | None = None, superbatch: int = 32, ahead: int = 2,
                 device: str | torch.device | None = None, threads: int | None = None) -> None: ...
    def __len__(self) -> int: ...
    def __iter__(self) -> Iterator[Batch]: ...
    def state_dict(self) -> dict[str, int]: ...
    def load_state_dict(self, state: dict[str, int]) -> None: ...
    def batches(self, epoch: int) -> list[NDArray[np.uint32]]: ...
