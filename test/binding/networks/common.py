"""What the networks of this folder are made with: a table row for each, data, losses."""
from typing import Any, Callable, List, NamedTuple, Optional

import torch
from torch import nn
from torch.nn import functional as F

WORDS, PLACES, CLASSES = 40, 6, 5


class Network(NamedTuple):
    """A row of the table of networks."""

    name: str
    make: Callable[[], nn.Module]
    batch: Callable[[int], Any]  # of so many samples
    loss: Optional[Callable] = None  # None: the module gives it itself
    whole: bool = False  # BatchNormalization: a batch is one micro-batch
    rate: float = 0.01  # of SGD; AdamW has a tenth
    samples: int = 8
    refused: str = ""  # words of the sentence
    targets: Optional[List[str]] = None


def tokens(n, places=PLACES):
    return torch.randint(3, WORDS, (n, places))


def classes(n):
    return torch.randint(0, CLASSES, (n,))


def vectors(n, width=16):
    return torch.randn(n, width), classes(n)


def images(side=8, channels=3):
    return lambda n: (torch.randn(n, channels, side, side), classes(n))


def sentences(n):
    return tokens(n), classes(n)


def language(n):
    return tokens(n), tokens(n)


def words_loss(scores, labels):
    return F.cross_entropy(scores.flatten(0, 1), labels.flatten())


classify = F.cross_entropy


def without_dropout(net):
    """Dropout of zero: the two programs draw other random numbers."""
    for part in net.modules():
        for name in ("p", "dropout", "drop_prob", "attention_dropout", "activation_dropout", "hidden_dropout", "layerdrop",
                     "attn_drop_p", "dropout_rate", "hidden_dropout_prob", "dropout_p", "drop_rate"):
            if isinstance(getattr(part, name, None), float):
                setattr(part, name, 0.0)
    return net
