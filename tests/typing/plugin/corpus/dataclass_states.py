"""Evolution strategies; state is in dataclasses that hold batches."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np

from typedbatch import Batch


@dataclass
class Population:
    members: Batch
    generation: int = 0
    archive: list[Batch] = field(default_factory=list)

    @classmethod
    def start(cls, size: int, dim: int, rng: np.random.Generator) -> Population:
        members = Batch(genome=rng.normal(size=(size, dim)))
        members.fitness = np.full(size, -np.inf)
        return cls(members)

    @property
    def best(self) -> Batch:
        return self.members[int(self.members["fitness"].argmax())]
        #! misspelt-item: return self.members[int(self.members["fitnes"].argmax())]


@dataclass
class Strategy:
    sigma: float
    elite: int
    history: Batch = field(default_factory=lambda: Batch(best=np.zeros(0), mean=np.zeros(0)))

    def record(self, population: Population) -> None:
        fitness = population.members["fitness"]
        self.history.best = np.append(self.history.best, fitness.max())
        #! misspelt-read: self.history.best = np.append(self.history.bests, fitness.max())
        self.history.mean = np.append(self.history.mean, fitness.mean())
        #! misspelt-read: self.history.mean = np.append(self.history.average, fitness.mean())

    def improved(self) -> bool:
        return len(self.history.best) < 2 or bool(self.history.best[-1] > self.history.best[0])
        #! misspelt-read: return len(self.history.best) < 2 or bool(self.history.top[-1] > self.history.best[0])


@dataclass(frozen=True)
class Evaluation:
    scores: Batch
    seed: int

    def summary(self) -> str:
        return f"seed {self.seed}: {float(self.scores['reward'].mean()):.3f}"


def evaluate(genomes: np.ndarray, seed: int) -> Evaluation:
    rng = np.random.default_rng(seed)
    noise = 0.01 * rng.normal(size=len(genomes))
    scores = Batch(reward=-np.square(genomes - 1.0).sum(-1) + noise)
    scores.rank = scores.reward.argsort().argsort()
    #! old-name: scores.rank = scores.rew.argsort().argsort()
    scores.utility = scores.rank / (len(genomes) - 1) - 0.5
    #! misspelt-read: scores.utility = scores.ranks / (len(genomes) - 1) - 0.5
    return Evaluation(scores, seed)


def evolve(population: Population, strategy: Strategy, rng: np.random.Generator) -> Population:
    result = evaluate(population.members["genome"], seed=population.generation)
    scored = population.members.copy()
    scored.fitness = result.scores["reward"]
    order = np.argsort(scored.fitness)[::-1]
    parents = scored[order[: strategy.elite]]
    strategy.record(replace(population, members=scored))
    pick = rng.integers(0, strategy.elite, size=len(scored))
    children = Batch(genome=parents["genome"][pick])
    #! missing-field: children = Batch(genomes=parents["genome"][pick])
    children.genome = children.genome + strategy.sigma * rng.normal(size=children.genome.shape)
    children.fitness = np.full(len(scored), -np.inf)
    return replace(
        population, members=Batch.cat([parents, children]), generation=population.generation + 1, archive=[*population.archive, parents]
    )


def main() -> None:
    rng = np.random.default_rng(0)
    population = Population.start(20, 4, rng)
    strategy = Strategy(sigma=0.2, elite=5)
    for _ in range(8):
        population = evolve(population, strategy, rng)
    print(strategy.improved(), np.round(strategy.history.best, 3).tolist())
    print(np.round(population.best["genome"], 3).tolist(), len(population.archive))
    print(evaluate(population.members["genome"], 1).summary())


if __name__ == "__main__":
    main()
