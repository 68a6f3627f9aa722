from collections.abc import Sequence
from typing import Any, Literal

from torch_geometric.data import FeatureStore as PygFeatureStore
from torch_geometric.data import GraphStore as PygGraphStore
from torch_geometric.sampler import BaseSampler

from . import Dataset, _Path, _Size

EDGE_TYPE: tuple[str, str, str]

def stores(dataset: Dataset | _Path, *, cache: Literal["belady", "lru", "static", "none"] = "lru",
           memory: _Size | None = None, threads: int | None = None) -> tuple[FeatureStore, GraphStore]: ...

class FeatureStore(PygFeatureStore):
    def __init__(self, dataset: Dataset, **options: Any) -> None: ...

class GraphStore(PygGraphStore):
    def __init__(self, dataset: Dataset) -> None: ...

class Sampler(BaseSampler):
    def __init__(self, dataset: Dataset | _Path, fanout: str | Sequence[int | str], **options: Any) -> None: ...
    def set_epoch(self, epoch: int) -> None: ...
