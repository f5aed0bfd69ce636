#!/usr/bin/env python3
"""Trains a tiny DLRM with PyTorch, in float64 on the CPU, and writes what happened for the C++ tests to compare with.

    python3 -m venv venv && venv/bin/pip install torch numpy
    venv/bin/python scripts/make_golden.py tests/golden        # writes golden/*.json; needed only when a case changes

Inputs (weights, numerical features) are float32 numbers; everything else is float64, so that the files say what is right
and not how PyTorch rounds. Weights are [out, in], ids table-major, bag t * batch + b starts at offsets[t * batch + b].
"""
import json
import pathlib
import sys

import torch

DIM, NUMERICAL, ROWS, BOTTOM, TOP, BATCH, STEPS = 4, 3, [7, 3, 50, 11], [8, 4], [8, 6, 1], 16, 20


class Model:
    """formats: b = bottom(x); z = strict lower triangle of all dot products; logit = top([b, z])."""

    def __init__(self, generator):
        def mlp(inputs, widths):
            layers = []
            for width in widths:
                shapes = {"weight": (width, inputs), "bias": (width,)}
                layers.append({n: self.parameter(torch.randn(s, generator=generator) * 0.4) for n, s in shapes.items()})
                inputs = width
            return layers

        self.bottom = mlp(NUMERICAL, BOTTOM)
        vectors = 1 + len(ROWS)
        self.top = mlp(DIM + vectors * (vectors - 1) // 2, TOP)
        self.tables = [self.parameter(torch.randn(r, DIM, generator=generator) * 0.5) for r in ROWS]
        self.pairs = torch.tril_indices(vectors, vectors, -1)

    @staticmethod
    def parameter(values):
        return values.float().double().requires_grad_(True)

    def dense(self):
        return [p for layer in self.bottom + self.top for p in layer.values()]

    def forward(self, batch):
        x = batch["numerical"]
        for layer in self.bottom:
            x = torch.relu(x @ layer["weight"].T + layer["bias"])
        size, vectors = len(x), [x]
        for t, table in enumerate(self.tables):
            offsets = batch["offsets"][t * size : (t + 1) * size + 1]
            ids = batch["ids"][offsets[0] : offsets[-1]]
            vectors.append(torch.nn.functional.embedding_bag(ids, table, offsets[:-1] - offsets[0], mode="sum"))
        v = torch.stack(vectors, 1)
        y = torch.cat([x, (v @ v.transpose(1, 2))[:, self.pairs[0], self.pairs[1]]], 1)
        for i, layer in enumerate(self.top):
            y = y @ layer["weight"].T + layer["bias"]
            y = torch.relu(y) if i + 1 < len(self.top) else y
        return y.squeeze(1)

    def values(self):
        mlp = lambda layers: [{n: p.detach().tolist() for n, p in layer.items()} for layer in layers]
        return {"bottom": mlp(self.bottom), "top": mlp(self.top), "tables": [t.detach().tolist() for t in self.tables]}


class RowwiseAdagrad:
    """FBGEMM's EXACT_ROWWISE_ADAGRAD: one sum of mean squared gradients per row."""

    def __init__(self, tables, lr, eps):
        self.tables, self.lr, self.eps = tables, lr, eps
        self.sums = [torch.zeros(len(t), dtype=torch.float64) for t in tables]

    def step(self):
        with torch.no_grad():
            for table, total in zip(self.tables, self.sums):
                total += table.grad.square().mean(1)  # untouched rows have a zero gradient and stay
                table -= (self.lr / (total.sqrt() + self.eps)).unsqueeze(1) * table.grad

    def zero_grad(self):
        for table in self.tables:
            table.grad = None


class SparseAdam:
    """torch.optim.SparseAdam, given the rows that the batch touched."""

    def __init__(self, tables, lr, eps):
        self.tables, self.touched = tables, None
        self.optimizer = torch.optim.SparseAdam(tables, lr=lr, eps=eps)

    def step(self):
        for table, ids in zip(self.tables, self.touched):
            rows = ids.unique()
            table.grad = torch.sparse_coo_tensor(rows.unsqueeze(0), table.grad[rows], table.shape)
        self.optimizer.step()

    def zero_grad(self):
        for table in self.tables:
            table.grad = None


def make_batch(generator, multi_hot):
    bags = len(ROWS) * BATCH
    lengths = torch.randint(0, 4, (bags,), generator=generator) if multi_hot else torch.ones(bags, dtype=torch.int64)
    offsets = torch.cat([torch.zeros(1, dtype=torch.int64), lengths.cumsum(0)])
    ids = []
    for t, rows in enumerate(ROWS):
        count = int(offsets[(t + 1) * BATCH] - offsets[t * BATCH])
        # squared: small ids come often, so that rows repeat within a batch
        ids.append((torch.rand(count, generator=generator).square() * rows).long())
    return {
        "numerical": torch.randn(BATCH, NUMERICAL, generator=generator).float().double(),
        "labels": (torch.rand(BATCH, generator=generator) < 0.4).double(),
        "ids": torch.cat(ids),
        "offsets": offsets,
    }


def run(tables_by, dense_by, lr, eps, multi_hot=False):
    generator = torch.Generator().manual_seed(7)
    model = Model(generator)
    batches = [make_batch(generator, multi_hot) for _ in range(STEPS)]
    make = {
        "sgd": lambda p: torch.optim.SGD(p, lr=lr),
        "adagrad": lambda p: torch.optim.Adagrad(p, lr=lr, eps=eps),
        "rowwise_adagrad": lambda p: RowwiseAdagrad(p, lr, eps),
        "adam": lambda p: SparseAdam(p, lr, eps) if p is model.tables else torch.optim.Adam(p, lr=lr, eps=eps),
    }
    optimizers = [make[dense_by](model.dense()), make[tables_by](model.tables)]
    case = {"dim": DIM, "numerical": NUMERICAL, "rows": ROWS, "bottom": BOTTOM, "top": TOP, "batch": BATCH, "lr": lr,
            "eps": eps, "table_optimizer": tables_by, "dense_optimizer": dense_by, "initial": model.values(), "losses": []}
    for batch in batches:
        for optimizer in optimizers:
            optimizer.zero_grad()
        loss = torch.nn.functional.binary_cross_entropy_with_logits(model.forward(batch), batch["labels"])
        loss.backward()
        offsets = batch["offsets"]
        optimizers[1].touched = [batch["ids"][offsets[t * BATCH] : offsets[(t + 1) * BATCH]] for t in range(len(ROWS))]
        for optimizer in optimizers:
            optimizer.step()
        case["losses"].append(loss.item())
    case["batches"] = [{k: v.flatten().tolist() for k, v in b.items() if multi_hot or k != "offsets"} for b in batches]
    case["final"] = model.values()
    case["final_logits"] = model.forward(batches[0]).tolist()
    return case


def main():
    output = pathlib.Path(sys.argv[1])
    output.mkdir(parents=True, exist_ok=True)
    cases = {
        "sgd": run("sgd", "sgd", 0.2, 0.0),
        "adagrad": run("adagrad", "adagrad", 0.05, 1e-10),
        "rowwise_adagrad": run("rowwise_adagrad", "adagrad", 0.05, 1e-8),
        "adam": run("adam", "adam", 0.01, 1e-8),
        "sgd_multi_hot": run("sgd", "sgd", 0.2, 0.0, multi_hot=True),
    }
    for name, case in cases.items():
        (output / f"{name}.json").write_text(json.dumps(case, separators=(",", ":")) + "\n")


if __name__ == "__main__":
    main()
