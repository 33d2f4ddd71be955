import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor


def token_logprobs(
    logits: Float[Tensor, "N L V"], labels: Int[Tensor, "N L"]
) -> Float[Tensor, "N L-1"]:
    logp = F.log_softmax(logits[:, :-1], dim=-1)
    return logp.gather(2, labels.unsqueeze(-1)).squeeze(-1)  # WRONG: log-probs of L-1, labels of L

def main() -> None:
    print(token_logprobs(torch.zeros(2, 5, 7), torch.zeros(2, 5, dtype=torch.long)).shape)


if __name__ == "__main__":
    main()
