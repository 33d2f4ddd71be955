"""Both ways of extracting a policy, with and without reweighting."""

import torch

from offline_iql.dataset import Dataset
from offline_iql.learner import IQL
from offline_iql.settings import Extract, Settings
from typedbatch import Batch


def train(cfg: Settings) -> Batch:
    torch.manual_seed(0)
    dataset = Dataset(120, seed=0, reweight=cfg.reweight)
    learner = IQL(cfg)
    results = [learner.learn(batch) for batch in dataset.batches(cfg.steps, cfg.batch_size)]
    return Batch.stack(results).to_numpy()


def main() -> None:
    for cfg in (Settings(), Settings(extract=Extract.CLONE), Settings(reweight=True)):
        table = train(cfg)
        shown = float(table["awr"][-1]) if cfg.extract is Extract.AWR else float("nan")
        print(cfg.extract.name, cfg.reweight, f"{table['loss'][-1]:.4f} {shown:.4f}")


if __name__ == "__main__":
    main()
