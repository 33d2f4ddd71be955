"""APPO with V-trace in RLlib's names: workers whose weights lag the learner, and a target policy for the surrogate."""
import copy
import gymnasium as gym
import numpy as np
import torch
from gymnasium.vector import AutoresetMode, SyncVectorEnv
from torch import nn
from torch.distributions import Categorical, kl_divergence
from typedbatch import Batch

GAMMA, CLIP, KL_COEFF, ENTROPY, VF_COEFF, FRAGMENT, WORKERS = 0.99, 0.3, 0.2, 0.01, 0.5, 20, 6

class RLModule(nn.Module):
    def __init__(self):
        super().__init__()
        self.encoder = nn.Sequential(nn.Linear(4, 64), nn.Tanh())
        self.heads = nn.ModuleDict({"pi": nn.Linear(64, 2), "vf": nn.Linear(64, 1)})

    def forward(self, obs):
        z = self.encoder(obs)
        return {"action_dist_inputs": self.heads["pi"](z), "vf_preds": self.heads["vf"](z).squeeze(-1)}

@torch.no_grad()
def vtrace(log_rhos, rewards, values, next_values, terminateds, cut, rho_bar=1.0, c_bar=1.0):
    """Time-major V-trace targets and advantages. ``cut`` marks rows whose successor is not the next row of the fragment."""
    rhos = log_rhos.exp()
    discounts = GAMMA * (~terminateds).float()
    deltas = rhos.clamp(max=rho_bar) * (rewards + discounts * next_values - values)
    acc, vs_minus_v = torch.zeros_like(values[0]), []
    for t in reversed(range(len(rewards))):
        acc = deltas[t] + torch.where(cut[t], 0.0, discounts[t] * rhos[t].clamp(max=c_bar) * acc)
        vs_minus_v.insert(0, acc)
    vs = values + torch.stack(vs_minus_v)
    vs_next = torch.where(cut, next_values, torch.cat([vs[1:], next_values[-1:]]))
    return vs, rhos.clamp(max=rho_bar) * (rewards + discounts * vs_next - values)

def setup(seed: int = 0):
    torch.manual_seed(seed)
    module = RLModule()
    target_module, worker = copy.deepcopy(module), copy.deepcopy(module)
    optimizer = torch.optim.RMSprop(module.parameters(), lr=5e-4, alpha=0.99, eps=0.1)
    envs = SyncVectorEnv([lambda: gym.make("CartPole-v1", max_episode_steps=60)] * WORKERS, autoreset_mode=AutoresetMode.SAME_STEP)
    state = {"obs": envs.reset(seed=seed)[0], "draws": 0, "updates": 0}

    @torch.no_grad()
    def draw():
        if state["draws"] % 4 == 0:  # broadcast_interval
            worker.load_state_dict(module.state_dict())
        state["draws"] += 1
        steps = []
        for _ in range(FRAGMENT):
            obs = state["obs"]
            logits = worker(torch.as_tensor(obs))["action_dist_inputs"]
            actions = Categorical(logits=logits).sample()
            state["obs"], rewards, terminateds, truncateds, infos = envs.step(actions.numpy())
            new_obs = state["obs"].copy()
            for i in np.flatnonzero(terminateds | truncateds):
                new_obs[i] = infos["final_obs"][i]
            steps.append(Batch(obs=obs, new_obs=new_obs, actions=actions.numpy(), rewards=rewards.astype(np.float32), terminateds=terminateds,
                               truncateds=truncateds, action_dist_inputs=logits.numpy(), action_logp=Categorical(logits=logits).log_prob(actions).numpy()))
        return (Batch.stack(steps, axis=1),)  # (workers, fragment, ...)

    def update(batch):
        b = {k: torch.as_tensor(v).transpose(0, 1) for k, v in batch.items()}
        cut = b["terminateds"] | b["truncateds"]
        cut[-1] = True
        out = module(b["obs"])
        curr_dist = Categorical(logits=out["action_dist_inputs"])
        with torch.no_grad():
            old_dist = Categorical(logits=target_module(b["obs"])["action_dist_inputs"])
            next_values = module(b["new_obs"])["vf_preds"]
        old_logp = old_dist.log_prob(b["actions"])
        vs, pg_advantages = vtrace(old_logp - b["action_logp"], b["rewards"], out["vf_preds"].detach(), next_values, b["terminateds"], cut)
        is_ratio = (b["action_logp"] - old_logp).exp().clamp(0, 2)
        logp_ratio = is_ratio * (curr_dist.log_prob(b["actions"]) - b["action_logp"]).exp()
        surrogate = torch.min(pg_advantages * logp_ratio, pg_advantages * logp_ratio.clamp(1 - CLIP, 1 + CLIP))
        vf_loss = 0.5 * (vs - out["vf_preds"]).pow(2).mean()
        loss = -surrogate.mean() + VF_COEFF * vf_loss - ENTROPY * curr_dist.entropy().mean() + KL_COEFF * kl_divergence(old_dist, curr_dist).mean()
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(module.parameters(), 40.0)
        optimizer.step()
        state["updates"] += 1
        if state["updates"] % 2 == 0:
            target_module.load_state_dict(module.state_dict())
        return {"total_loss": loss.item(), "vf_loss": vf_loss.item()}

    return update, draw
