#!/usr/bin/env python3
"""The training step of `dlrm bench step` in PyTorch, as fast as plain PyTorch makes it, beside dlrm's in one run.

One joint table, a compiled dense part, on a GPU autocast to bf16, SGD on the rows by index_add_ (atomic on a GPU and so,
unlike dlrm's, not repeatable). Ids, shapes and batch are those of `dlrm bench step`. Needs PyTorch; dlrm does not.

    tests/bench/torch_dlrm.py --dlrm build/dlrm
    tests/bench/torch_dlrm.py --dlrm build/dlrm --device cpu --batch 2048 --max-rows 100000
"""
import argparse
import json
import math
import subprocess
import tempfile
import time

import torch
import torch.nn as nn
import torch.nn.functional as F

# Criteo Terabyte, with row 0 for missing values.
ROWS = [227605433, 39061, 17296, 7425, 20266, 4, 7123, 1544, 64, 130229468, 3067957, 405283, 11, 2210, 11939, 156, 5, 977,
        15, 292775615, 40790949, 187188511, 590153, 12974, 109, 37]
DIM = 128
DEVICE = "cuda"  # or "cpu", by option


def power_law_ids(count, rows, power, generator):
    """The ids of draw_id() in dlrm/commands/bench.cpp."""
    u = torch.rand(count, device=DEVICE, generator=generator, dtype=torch.float64)
    if power == 0:
        x = 1 + u * rows
    else:
        x = (((rows + 1) ** (1 - power) - 1) * u + 1) ** (1 / (1 - power))
    rank = (x.long() - 1).clamp_(0, rows - 1)
    return rank * 2654435761 % rows if rows > 1000 else rank


def mlp(widths, last_relu):
    layers = []
    for i in range(len(widths) - 1):
        layers.append(nn.Linear(widths[i], widths[i + 1], device=DEVICE))
        if i + 2 < len(widths) or last_relu:
            layers.append(nn.ReLU())
    return nn.Sequential(*layers)


class Dense(nn.Module):
    def __init__(self):
        super().__init__()
        vectors = 1 + len(ROWS)
        self.bottom = mlp([13, 512, 256, DIM], True)
        self.top = mlp([480, 1024, 1024, 512, 256, 1], False)
        i, j = torch.tril_indices(vectors, vectors, -1, device=DEVICE)
        self.register_buffer("pairs", i * vectors + j)

    def forward(self, numerical, rows, labels):
        bottom = self.bottom(numerical)
        vectors = torch.cat([bottom.unsqueeze(1), rows.to(bottom.dtype)], 1)
        products = torch.bmm(vectors, vectors.transpose(1, 2)).flatten(1)[:, self.pairs]
        padding = torch.zeros(bottom.shape[0], 1, device=DEVICE, dtype=bottom.dtype)
        logits = self.top(torch.cat([bottom, products, padding], 1)).squeeze(1)
        return F.binary_cross_entropy_with_logits(logits.float(), labels)


def synchronize():
    if DEVICE == "cuda":
        torch.cuda.synchronize()


def torch_samples_per_second(options, compiled, bf16):
    torch.set_float32_matmul_precision("high")  # tf32
    rows = [min(r, options.max_rows) for r in ROWS]
    table = torch.empty(sum(rows), DIM, device=DEVICE)
    first = 0
    for r in rows:
        table[first:first + r].uniform_(-1 / math.sqrt(r), 1 / math.sqrt(r))
        first += r
    offsets = torch.tensor([0] + rows[:-1], device=DEVICE).cumsum(0)
    generator = torch.Generator(device=DEVICE).manual_seed(1)
    batches = []
    for _ in range(4):
        ids = torch.stack([power_law_ids(options.batch, r, options.power, generator) for r in rows], 1) + offsets
        batches.append((torch.rand(options.batch, 13, device=DEVICE), ids.flatten(),
                        torch.randint(0, 2, (options.batch,), device=DEVICE).float()))
    dense = Dense()
    optimizer = torch.optim.SGD(dense.parameters(), lr=0.01, fused=True)
    forward = torch.compile(dense) if compiled else dense

    def step(numerical, ids, labels):
        looked_up = F.embedding(ids, table).view(options.batch, len(rows), DIM)
        if bf16:
            looked_up = looked_up.to(torch.bfloat16)
        looked_up.requires_grad_(True)
        with torch.autocast(DEVICE, dtype=torch.bfloat16, enabled=bf16):
            loss = forward(numerical, looked_up, labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        table.index_add_(0, ids, looked_up.grad.view(-1, DIM).float(), alpha=-0.01)

    for i in range(6):
        step(*batches[i % 4])
    synchronize()
    start = time.perf_counter()
    for i in range(options.steps):
        step(*batches[i % 4])
    synchronize()
    return options.batch * options.steps / (time.perf_counter() - start)


def dlrm_samples_per_second(options, precision):
    with tempfile.NamedTemporaryFile(suffix=".json") as file:
        subprocess.run([options.dlrm, "bench", "step", "--device", DEVICE, "--precision", precision, "--batch", str(options.batch), "--max-rows",
                        str(options.max_rows), "--power", str(options.power), "--steps", str(options.steps), "--json",
                        file.name], check=True, stdout=subprocess.DEVNULL)
        return {row["name"]: row["items_per_second"] for row in json.load(file)["rows"]}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--dlrm", default="build/dlrm", help="the program")
    parser.add_argument("--batch", type=int, default=65536)
    parser.add_argument("--max-rows", type=int, default=10000000, help="cap of the tables")
    parser.add_argument("--power", type=float, default=1.05, help="exponent of the ids' power law")
    parser.add_argument("--steps", type=int, default=30)
    parser.add_argument("--device", choices=["cuda", "cpu"], default="cuda")
    options = parser.parse_args()
    global DEVICE
    DEVICE = options.device

    results = {}
    for precision in ["bf16", "tf32"] if DEVICE == "cuda" else ["fp32"]:
        bf16 = precision == "bf16"
        for compiled in (False, True):
            name = f"PyTorch {torch.__version__}, {precision}, {'compiled' if compiled else 'eager'}"
            results[name] = torch_samples_per_second(options, compiled, bf16)
            if DEVICE == "cuda":
                torch.cuda.empty_cache()
        for codec, rate in dlrm_samples_per_second(options, precision).items():
            results[f"dlrm, {precision}, {codec}"] = rate
    best = max(rate for name, rate in results.items() if name.startswith("PyTorch"))
    machine = torch.cuda.get_device_name() if DEVICE == "cuda" else f"CPU, {torch.get_num_threads()} threads"
    print(f"{machine}, batch {options.batch}, tables of at most {options.max_rows} rows, power law "
          f"{options.power}")
    for name, rate in results.items():
        print(f"{name:40} {rate / 1e3:9.1f} k samples/s {rate / best:6.2f} x the fastest PyTorch")


if __name__ == "__main__":
    main()
