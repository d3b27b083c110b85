#!/usr/bin/env python3
"""A GPT on two ranks or more with PyTorch's own means, over gloo, one thread each; rank 0 prints seconds per training step,
and those of user time of the processor, of all ranks together.

    torchrun --nproc-per-node 2 peer_parallel.py 1f1b|interleaved|zbv|ddp|fsdp --batch 8 --microbatches 8 --steps 4

Pipelines are those of torch.distributed.pipelining, whose stages do not share the embedding with the scores. ddp and fsdp
(fully_shard of each block: parameters, gradients and Adam's moments) give each rank its part of the batch in one pass.
"""
import argparse
import math
import os
import resource
import time

parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument("mode", choices=["1f1b", "interleaved", "zbv", "ddp", "fsdp"])
parser.add_argument("--batch", type=int, default=8)
parser.add_argument("--microbatches", type=int, default=8, help="of a pipeline")
parser.add_argument("--steps", type=int, default=4)
parser.add_argument("--compile", action="store_true", help="each rank's part with torch.compile")
parser.add_argument("--layers", type=int, default=12)
parser.add_argument("--width", type=int, default=768)
parser.add_argument("--heads", type=int, default=12)
parser.add_argument("--sequence", type=int, default=128)
parser.add_argument("--vocabulary", type=int, default=8192)
arguments = parser.parse_args()
os.environ["OMP_NUM_THREADS"] = "1"
os.environ.pop("OPENBLAS_CORETYPE", None)

import torch
import torch.distributed as dist
import torch.nn as nn
import torch.nn.functional as F

torch.set_num_threads(1)


class Block(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.ln1, self.ln2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.proj = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.fc, self.out = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x):
        b, t, d = x.shape
        q, k, v = self.qkv(self.ln1(x)).view(b, t, 3, self.heads, d // self.heads).permute(2, 0, 3, 1, 4)
        x = x + self.proj(F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).reshape(b, t, d))
        return x + self.out(F.gelu(self.fc(self.ln2(x)), approximate="tanh"))


class Part(nn.Module):
    """Layers of the network; the first part embeds, the last one makes the scores."""

    def __init__(self, layers, first, last):
        super().__init__()
        width = arguments.width
        self.wte = nn.Embedding(arguments.vocabulary, width) if first else None
        self.wpe = nn.Embedding(arguments.sequence, width) if first else None
        self.blocks = nn.ModuleList(Block(width, arguments.heads) for _ in range(layers))
        self.norm = nn.LayerNorm(width) if last else None
        self.head = nn.Linear(width, arguments.vocabulary, bias=False) if last else None
        if first and last:
            self.head.weight = self.wte.weight

    def forward(self, x):
        if self.wte is not None:
            x = self.wte(x) + self.wpe.weight[: x.size(1)]
        for block in self.blocks:
            x = block(x)
        return x if self.head is None else self.head(self.norm(x))


def compiled(module):
    if arguments.compile:
        module.compile()
    return module


def loss_of(scores, labels):
    return F.cross_entropy(scores.reshape(-1, arguments.vocabulary), labels.reshape(-1))


def layers_of(parts, part):
    """The scores cost about as much as one layer: the last part has one less where it can."""
    ends = [round((arguments.layers + 1) * p / parts) for p in range(parts)] + [arguments.layers]
    return ends[part + 1] - ends[part]


def make_pipeline(tokens, labels):
    from torch.distributed import pipelining as pp

    chunks = {"1f1b": 1}.get(arguments.mode, 2)
    parts = chunks * ranks
    own = [rank] if chunks == 1 else [rank, parts - 1 - rank] if arguments.mode == "zbv" else [rank, rank + ranks]
    modules = [compiled(Part(layers_of(parts, p), p == 0, p == parts - 1)) for p in own]
    stages = [pp.PipelineStage(m, p, parts, torch.device("cpu")) for m, p in zip(modules, own)]
    kind = {"1f1b": pp.Schedule1F1B, "interleaved": pp.ScheduleInterleaved1F1B, "zbv": pp.ScheduleZBVZeroBubble}[arguments.mode]
    schedule = kind(stages[0] if chunks == 1 else stages, arguments.microbatches, loss_fn=loss_of)
    optimizer = torch.optim.Adam([p for m in modules for p in m.parameters()], 1e-4, fused=True)

    def step():
        optimizer.zero_grad(set_to_none=True)
        inputs = (tokens,) if 0 in own else ()
        targets = {"target": labels} if parts - 1 in own else {}
        schedule.step(*inputs, **targets)
        optimizer.step()

    return step


def make_replicas(tokens, labels):
    model = Part(arguments.layers, True, True)
    if arguments.mode == "ddp":
        model = compiled(nn.parallel.DistributedDataParallel(model))
    else:
        from torch.distributed.device_mesh import init_device_mesh
        from torch.distributed.fsdp import fully_shard

        mesh = init_device_mesh("cpu", (ranks,))
        for block in model.blocks:
            fully_shard(compiled(block), mesh=mesh)
        fully_shard(model, mesh=mesh)
    optimizer = torch.optim.Adam(model.parameters(), 1e-4, fused=True)
    own = arguments.batch // ranks
    tokens, labels = tokens[rank * own : (rank + 1) * own], labels[rank * own : (rank + 1) * own]

    def step():
        optimizer.zero_grad(set_to_none=True)
        loss_of(model(tokens), labels).backward()
        optimizer.step()

    return step


dist.init_process_group("gloo")
rank, ranks = dist.get_rank(), dist.get_world_size()
torch.manual_seed(0)
samples = [torch.randint(arguments.vocabulary, (arguments.batch, arguments.sequence)) for _ in range(2)]
step = (make_replicas if arguments.mode in ("ddp", "fsdp") else make_pipeline)(*samples)
for number in range(arguments.steps + 1):
    dist.barrier()
    start, before = time.perf_counter(), resource.getrusage(resource.RUSAGE_SELF).ru_utime
    step()
    dist.barrier()
    seconds = time.perf_counter() - start
    processor = torch.tensor(resource.getrusage(resource.RUSAGE_SELF).ru_utime - before)
    dist.all_reduce(processor)
    if rank == 0 and number > 0:
        print("%.6f %.6f" % (seconds, processor), flush=True)
dist.destroy_process_group()
