"""PPO in a package: config, nets, collector, algorithm, trainer."""
