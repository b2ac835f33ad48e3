"""A training script as anybody writes it: plain PyTorch, DistributedDataParallel, one process per device.

It imports nothing of trainwright. torchrun starts it, on a laptop as on a cluster, and sets RANK, LOCAL_RANK and
WORLD_SIZE. Two habits make it a good citizen of any scheduler: it saves to a temporary name and renames, and on
SIGTERM it finishes the step, saves and leaves with exit code 75, which asks to be started again.
"""

import argparse
import os
import signal
import sys
from pathlib import Path

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

stop_requested = False


def request_stop(signum, frame):
    global stop_requested
    stop_requested = True


def batch(step, rank, size, length=32):
    """Counting sequences modulo 17, each with its own start and stride: a pattern that a small model can learn."""
    generator = torch.Generator().manual_seed(1_000_003 * step + rank)
    start, stride = torch.randint(0, 17, (2, size, 1), generator=generator)
    return (start + stride * torch.arange(length + 1)) % 17


class Counter(torch.nn.Module):
    """Predicts the next number from the two before it."""

    def __init__(self, width):
        super().__init__()
        self.embedding = torch.nn.Embedding(17, width)
        self.layers = torch.nn.Sequential(
            torch.nn.Linear(2 * width, 4 * width), torch.nn.GELU(), torch.nn.Linear(4 * width, 17)
        )

    def forward(self, numbers):
        vectors = self.embedding(numbers)
        return self.layers(torch.cat([vectors[:, :-1], vectors[:, 1:]], dim=-1))


def save(path, model, optimizer, step):
    temporary = path.with_suffix(".tmp")
    torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict(), "step": step}, temporary)
    os.replace(temporary, path)


def anybody_must_stop(device):
    """All ranks leave at the same step, or the others wait for ever in the next all-reduce."""
    flag = torch.tensor(int(stop_requested), device=device)
    dist.all_reduce(flag, op=dist.ReduceOp.MAX)
    return bool(flag)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=300)
    parser.add_argument("--batch", type=int, default=32, help="sequences per process")
    parser.add_argument("--width", type=int, default=64)
    parser.add_argument("--lr", type=float, default=3e-3)
    parser.add_argument("--save-every", type=int, default=100)
    parser.add_argument("--fail-at", type=int, help="raise at this step, to see what a failed run looks like")
    args = parser.parse_args()

    signal.signal(signal.SIGTERM, request_stop)
    cuda = torch.cuda.is_available()
    device = torch.device("cuda", int(os.environ["LOCAL_RANK"])) if cuda else torch.device("cpu")
    dist.init_process_group("nccl" if cuda else "gloo")
    rank = dist.get_rank()

    torch.manual_seed(0)
    model = Counter(args.width).to(device)
    ddp = DistributedDataParallel(model)
    optimizer = torch.optim.AdamW(model.parameters(), lr=args.lr)

    folder = Path(os.environ.get("TRAINWRIGHT_RUN_DIR", "."))
    checkpoint = folder / "own-checkpoint.pt"
    step = 0
    if checkpoint.exists():
        state = torch.load(checkpoint, map_location=device, weights_only=True)
        model.load_state_dict(state["model"])
        optimizer.load_state_dict(state["optimizer"])
        step = state["step"]
        print(f"resumed at step {step}")

    while step < args.steps:
        numbers = batch(step, rank, args.batch).to(device)
        logits = ddp(numbers[:, :-1])
        loss = torch.nn.functional.cross_entropy(logits.flatten(0, 1), numbers[:, 2:].flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        step += 1
        if step == args.fail_at and rank == dist.get_world_size() - 1:
            raise ValueError(f"asked to fail at step {step}")
        if rank == 0 and step % 20 == 0:
            print(f"step {step}: loss {loss.item():.4f}")
        stopping = anybody_must_stop(device)
        if rank == 0 and (stopping or step % args.save_every == 0 or step == args.steps):
            save(checkpoint, model, optimizer, step)
        if stopping and step < args.steps:
            dist.barrier()  # rank 0 has saved
            dist.destroy_process_group()
            print(f"saved at step {step}, leaving")
            sys.exit(75)
    dist.destroy_process_group()
    print("done")


if __name__ == "__main__":
    main()
