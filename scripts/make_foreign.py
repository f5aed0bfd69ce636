#!/usr/bin/env python3
"""Makes tests/golden/foreign/: one small DLRM as each program saves it, and what it predicts.

    python3 -m venv venv && venv/bin/pip install torch numpy
    venv/bin/python scripts/make_foreign.py

The PyTorch files are written by PyTorch itself. The layouts are those of NVIDIA's DeepLearningExamples and of
facebookresearch/dlrm. Probabilities are computed here in float64, from the weights in their normal form.
"""
import collections
import itertools
import json
import os
import shutil

import numpy as np
import torch

NUMERICAL, DIM, BOTTOM, TOP, TABLES = 3, 4, [6, 4], [5, 3, 1], [4, 11, 7]
ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../tests/golden/foreign")
rng = np.random.default_rng(1)


def layers(width, widths):
    made = []
    for out in widths:
        made.append((rng.normal(0, 0.8, (out, width)).astype("<f4"), rng.normal(0, 0.3, out).astype("<f4")))
        width = out
    return made


vectors = 1 + len(TABLES)
pairs = [(i, j) for i in range(vectors) for j in range(i)]
bottom, top = layers(NUMERICAL, BOTTOM), layers(DIM + len(pairs), TOP)
tables = [rng.normal(0, 0.7, (rows, DIM)).astype("<f4") for rows in TABLES]
samples = [{"numerical": [float(np.float16(x)) for x in rng.normal(0, 1, NUMERICAL)],
            "ids": [int(rng.integers(rows)) for rows in TABLES], "label": int(rng.integers(2))} for _ in range(16)]


def predict(sample):
    x = np.array(sample["numerical"], "f8")
    for weight, bias in bottom:
        x = np.maximum(weight.astype("f8") @ x + bias, 0)
    v = [x] + [table[i].astype("f8") for table, i in zip(tables, sample["ids"])]
    x = np.concatenate([x, [v[i] @ v[j] for i, j in pairs]])
    for l, (weight, bias) in enumerate(top):
        x = weight.astype("f8") @ x + bias
        x = np.maximum(x, 0) if l + 1 < len(top) else x
    return float(1 / (1 + np.exp(-x[0])))


def in_order(order):
    """The first top weight of a program that feeds table order[p - 1] as vector p."""
    stored = top[0][0].copy()
    natural = [0] + [1 + t for t in order]
    for column, (p, q) in enumerate(pairs):
        i, j = natural[p], natural[q]
        stored[:, DIM + column] = top[0][0][:, DIM + pairs.index((max(i, j), min(i, j)))]
    return stored


def by_cardinality():
    return sorted(range(len(TABLES)), key=lambda t: -TABLES[t])  # stable


def padded(matrix, width):
    """More columns, of garbage, as TensorFlow initializes them."""
    return np.concatenate([matrix, rng.normal(0, 9, (matrix.shape[0], width - matrix.shape[1])).astype("<f4")], 1)


def save_tf2_mlps(directory, order):
    for name, mlp in (("bottom", bottom), ("top", top)):
        for l, (weight, bias) in enumerate(mlp):
            if l == 0:
                weight = padded(weight if name == "bottom" else in_order(order), 8 if name == "bottom" else 16)
            np.save(f"{directory}/{name}_mlp_layer_{l}_kernel_part0.npy", np.ascontiguousarray(weight.T))
            np.save(f"{directory}/{name}_mlp_layer_{l}_bias_part0.npy", bias)


def make(name):
    os.makedirs(f"{ROOT}/{name}")
    return f"{ROOT}/{name}"


shutil.rmtree(ROOT, ignore_errors=True)

directory = make("tf2_2022_07")
save_tf2_mlps(directory, range(len(TABLES)))
for t, table in enumerate(tables):
    np.save(f"{directory}/feature_{t}_part0.npy", table)

directory = make("tf2_2022_03")
save_tf2_mlps(directory, by_cardinality())
for t, table in enumerate(tables):
    for k, piece in enumerate(np.array_split(table, 2) if TABLES[t] > 8 else [table]):
        np.save(f"{directory}/feature_{t}_{TABLES[t]}_part{k}.npy", piece)

ORDER = [2, 0, 1]  # of two GPUs
directory = make("nvidia_pytorch")
first_top = np.concatenate([in_order(ORDER), np.zeros((TOP[0], 16 - DIM - len(pairs)), "<f4")], 1)
parameter = lambda array: torch.nn.Parameter(torch.from_numpy(np.ascontiguousarray(array)))
torch.save({"weights": [parameter(w) for w, _ in bottom], "biases": [parameter(b) for _, b in bottom]},
           f"{directory}/bottom_model.mlp.pt")
torch.save({"weights": [parameter(w) for w in [first_top] + [w for w, _ in top[1:-1]]],
            "biases": [torch.from_numpy(b) for _, b in top[:-1]]}, f"{directory}/top_model.mlp.pt")
out = torch.nn.Linear(TOP[-2], 1)
out.load_state_dict({"weight": torch.from_numpy(top[-1][0]), "bias": torch.from_numpy(top[-1][1])})
torch.save(out.state_dict(), f"{directory}/top_model.out.pt")
for t, table in enumerate(tables):
    table.tofile(f"{directory}/bottom_model.embeddings.{t}.bin")
    torch.save({"shape": torch.Size(table.shape)}, f"{directory}/embeddings.{t}.meta.pt")
torch.save({"data": {"device_mapping": {"bottom_mlp": 0, "embedding": [[2, 0], [1]], "vectors_per_gpu": [3, 1]},
                     "epoch": 0, "step": 7},
            "config": {"bottom_features_ordered": False, "lr": 24.0, "amp": True, "seed": None, "dataset": "/data"}},
           f"{directory}/metadata.pt")

state = collections.OrderedDict()
for t, table in enumerate(tables):
    state[f"emb_l.{t}.weight"] = torch.from_numpy(table)
for name, mlp in (("bot_l", bottom), ("top_l", top)):
    for l, (weight, bias) in enumerate(mlp):
        state[f"{name}.{2 * l}.weight"], state[f"{name}.{2 * l}.bias"] = torch.from_numpy(weight), torch.from_numpy(bias)
state._metadata = collections.OrderedDict([("", {"version": 1})])
saved = {"epoch": 0, "iter": 7, "nepochs": 1, "state_dict": state, "train_loss": np.float64(0.5), "test_acc": 0.75,
         "total_loss": np.float32(1.5), "opt_state_dict": {"state": {}, "param_groups": [{"lr": 0.1, "params": [0, 1]}]}}
torch.save(saved, f"{ROOT}/facebook.pt")
torch.save(saved, f"{ROOT}/facebook_legacy.pt", _use_new_zipfile_serialization=False)

for sample in samples:
    sample["probability"] = predict(sample)
with open(f"{ROOT}/expected.json", "w") as file:
    json.dump({"tables": TABLES, "numerical": NUMERICAL, "dim": DIM, "bottom": BOTTOM, "top": TOP, "samples": samples,
               "first_row": [float(x) for x in tables[1][0]]}, file, indent=1)
    file.write("\n")
