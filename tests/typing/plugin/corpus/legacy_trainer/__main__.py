"""Train."""

from legacy_trainer.agent import Sarsa
from legacy_trainer.envs import Corridor
from legacy_trainer.options import opts, override
from typedbatch import Batch


def train(episodes):
    env, agent = Corridor(), Sarsa(Corridor.size)
    results = []
    for i in range(episodes):
        state, over = env.reset(), False
        while not over:
            action = agent.act(state)
            after, reward, goal, late = env.step(action)
            agent.observe(state, action, reward, after, goal)
            state, over = after, goal or late
        results.append(agent.finish())
        if i % opts.log.every == 0:
            print(f"{opts.log.prefix} {i}: {results[-1].reward} in {results[-1].length}")
            #! misspelt-nested: print(f"{opts.log.name} {i}: {results[-1].reward} in {results[-1].length}")
    return Batch.stack(results)


def main():
    override(["lr=0.5"])
    table = train(8)
    print(table.reward.sum(), table.length.sum(), round(float(opts.explore.eps), 4))


if __name__ == "__main__":
    main()
