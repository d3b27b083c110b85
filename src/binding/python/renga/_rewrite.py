"""Functions of torch that its exporter has no operator for, or a form that joins samples, by others. Each
gives None where it leaves the call as it is."""
from __future__ import annotations

import contextlib
import math
import sys
from typing import Any, Callable, Dict, Iterator

_NEVER = -1e30  # the logarithm of no probability
MANY = 25  # rows from which torch itself finds distances by a product of matrices


def _bag(words: Any, table: Any, offsets: Any = None, max_norm: Any = None, norm_type: Any = 2.0,
         scale_grad_by_freq: bool = False, mode: str = "mean", sparse: bool = False,
         per_sample_weights: Any = None, include_last_offset: bool = False,
         padding_idx: Any = None) -> Any:
    """F.embedding_bag of a bag for each row of words."""
    import torch
    if words.dim() != 2 or max_norm is not None or scale_grad_by_freq:
        return None
    rows = torch.nn.functional.embedding(words, table, padding_idx)
    if per_sample_weights is not None:
        rows = rows * per_sample_weights.unsqueeze(-1)
    if padding_idx is None:
        return rows.max(1)[0] if mode == "max" else rows.sum(1) if mode == "sum" else rows.mean(1)
    real = (words != padding_idx % table.shape[0]).unsqueeze(-1)
    if mode == "max":
        largest = rows.masked_fill(~real, -math.inf).max(1)[0]
        return largest.masked_fill(~real.any(1), 0.0)
    total = (rows * real).sum(1)
    return total if mode == "sum" else total / real.sum(1).clamp(min=1)


def _cdist(a: Any, b: Any, p: float = 2.0, compute_mode: Any = None) -> Any:
    """Of many rows, whose number is known, no difference of all pairs is made."""
    import torch
    if p == 2 and isinstance(b.shape[-2], int) and b.shape[-2] > MANY:
        squares = (a * a).sum(-1, keepdim=True) + (b * b).sum(-1).unsqueeze(-2)
        return (squares - 2 * a @ b.transpose(-1, -2)).clamp(min=1e-30).sqrt()
    return torch.linalg.vector_norm(a.unsqueeze(-2) - b.unsqueeze(-3), p, dim=-1)


def _cumprod(x: Any, dim: int, *, dtype: Any = None) -> Any:
    """By products of parts that double in length."""
    import torch
    size, length = x.shape[dim], 1
    if not isinstance(size, int) or dtype is not None:
        return None
    while length < size:
        ones = torch.ones_like(x.narrow(dim, 0, length))
        x = x * torch.cat((ones, x.narrow(dim, 0, size - length)), dim)
        length *= 2
    return x


def _cummax(x: Any, dim: int) -> Any:
    """Where the largest so far is, the last of equal ones, of parts that double in length."""
    import torch
    size, length = x.shape[dim], 1
    if not isinstance(size, int):
        return None
    shape = [1] * x.dim()
    shape[dim] = size
    largest, place = x.detach(), torch.arange(size).view(shape).expand_as(x)
    while length < size:
        head, at = largest.narrow(dim, 0, length), place.narrow(dim, 0, length)
        before = torch.cat((head, largest.narrow(dim, 0, size - length)), dim)
        there = torch.cat((at, place.narrow(dim, 0, size - length)), dim)
        stays = largest >= before
        largest, place = torch.where(stays, largest, before), torch.where(stays, place, there)
        length *= 2
    return torch.return_types.cummax((x.gather(dim, place), place))  # type: ignore[attr-defined]


def _cummin(x: Any, dim: int) -> Any:
    import torch
    found = _cummax(-x, dim)
    return found and torch.return_types.cummin((-found[0], found[1]))  # type: ignore[attr-defined]


def _slogdet(x: Any) -> Any:
    import torch
    det = torch.linalg.det(x)
    return torch.return_types.linalg_slogdet((det.sign(), det.abs().log()))  # type: ignore


def _kthvalue(x: Any, k: int, dim: int = -1, keepdim: bool = False) -> Any:
    import torch
    found = (part.narrow(dim, k - 1, 1) for part in x.sort(dim))
    kind: Any = torch.return_types
    return kind.kthvalue(part if keepdim else part.squeeze(dim) for part in found)


def _median(x: Any, dim: Any = None, keepdim: bool = False) -> Any:
    """The lower one of two."""
    if dim is None or not isinstance(x.shape[dim], int):
        return None
    return _kthvalue(x, (x.shape[dim] + 1) // 2, dim, keepdim)


def _searchsorted(rows: Any, values: Any, *, out_int32: bool = False, right: bool = False,
                  side: Any = None, sorter: Any = None, **more: Any) -> Any:
    """How many of a row are smaller."""
    import torch
    if sorter is not None or not isinstance(values, torch.Tensor):
        return None
    rows, values = rows if rows.dim() == 1 else rows.unsqueeze(-2), values.unsqueeze(-1)
    smaller = rows <= values if right or side == "right" else rows < values
    return smaller.sum(-1, dtype=torch.int32 if out_int32 else torch.int64)


def _hann(length: int, periodic: bool = True, **more: Any) -> Any:
    return _hamming(length, periodic, 0.5, 0.5)


def _hamming(length: int, periodic: bool = True, alpha: float = 0.54, beta: float = 0.46,
             **more: Any) -> Any:
    import torch
    if length < 2:
        return None
    turns = torch.arange(length, dtype=torch.float32) / (length if periodic else length - 1)
    return alpha - beta * torch.cos(2 * math.pi * turns)


def _attention(query: Any, key: Any, value: Any, attn_mask: Any = None, *rest: Any,
               **more: Any) -> Any:
    """Without heads."""
    import torch
    if query.dim() != 3:
        return None
    mask = attn_mask
    if mask is not None and mask.dim() == 3:
        mask = mask.unsqueeze(1)
    heads = (tensor.unsqueeze(1) for tensor in (query, key, value))
    attend = torch.nn.functional.scaled_dot_product_attention
    return attend(*heads, mask, *rest, **more).squeeze(1)


def _largest(rank: int) -> Callable[..., Any]:
    """adaptive_max_pool1d, 2d and 3d where parts are equal."""
    def pool(input: Any, output_size: Any, return_indices: bool = False) -> Any:
        import torch
        sizes = [output_size] * rank if isinstance(output_size, int) else list(output_size)
        pairs = [(n, n if m is None else m) for n, m in zip(input.shape[-rank:], sizes)]
        if not all(isinstance(n, int) and n % m == 0 for n, m in pairs):
            return None
        named = torch.nn.functional
        most: Any = (named.max_pool1d, named.max_pool2d, named.max_pool3d)[rank - 1]
        return most(input, [n // m for n, m in pairs], return_indices=return_indices)
    return pool


def _gaussian(input: Any, target: Any, var: Any, full: bool = False, eps: float = 1e-6,
              reduction: str = "mean") -> Any:
    """Without a look at the variances. Those below eps keep their gradient, as in torch."""
    import torch
    if not isinstance(var, torch.Tensor):
        return None
    if var.dim() == input.dim() - 1:
        var = var.unsqueeze(-1)
    var = var + (var.clamp(min=eps) - var).detach()
    each = 0.5 * (var.log() + (input - target) ** 2 / var)
    each = each + 0.5 * math.log(2 * math.pi) if full else each
    return each if reduction == "none" else each.sum() if reduction == "sum" else each.mean()


def _projected_lstm(x: Any, state: Any, weights: Any, biases: bool, layers: int, dropout: float,
                    training: bool, both: bool, batch_first: bool) -> Any:
    """An LSTM whose outputs are projected, step by step; others have an operator."""
    import torch
    each, ways = 5 if biases else 3, 2 if both else 1
    if len(weights) != each * layers * ways or isinstance(state, torch.Tensor) or \
            (dropout > 0 and training) or not isinstance(x.shape[int(batch_first)], int):
        return None
    x, last = x.transpose(0, 1) if batch_first else x, []
    for layer in range(layers):
        outputs = []
        for way in range(ways):
            place = layer * ways + way
            own = weights[place * each:(place + 1) * each]
            h, c, steps = state[0][place], state[1][place], []
            for step in range(len(x)) if way == 0 else reversed(range(len(x))):
                gates = x[step] @ own[0].t() + h @ own[1].t()
                gates = gates + own[2] + own[3] if biases else gates
                i, f, g, o = gates.chunk(4, 1)
                c = f.sigmoid() * c + i.sigmoid() * g.tanh()
                h = (o.sigmoid() * c.tanh()) @ own[-1].t()
                steps.append(h)
            outputs.append(torch.stack(steps if way == 0 else steps[::-1]))
            last.append((h, c))
        x = torch.cat(outputs, -1)
    states = (torch.stack([pair[part] for pair in last]) for part in (0, 1))
    return x.transpose(0, 1) if batch_first else x, *states


def _ctc(log_probs: Any, targets: Any, input_lengths: Any, target_lengths: Any, blank: int = 0,
         reduction: str = "mean", zero_infinity: bool = False) -> Any:
    """Of targets with a row for each sample: probabilities of all paths, a frame at a time."""
    import torch
    frames, pad = log_probs.shape[0], torch.nn.functional.pad
    if log_probs.dim() != 3 or targets.dim() != 2 or not isinstance(frames, int):
        return None
    given, wanted = (torch.as_tensor(n).to(torch.int64) for n in (input_lengths, target_lengths))
    row = pad(pad(targets.clamp(min=0).unsqueeze(-1), (1, 0), value=blank).flatten(1), (0, 1),
              value=blank)
    other = (row[:, 2:] != blank) & (row[:, 2:] != row[:, :-2])
    over = torch.where(pad(other, (2, 0)), 0.0, _NEVER)
    least = torch.full_like(over[:, :2], _NEVER)
    emitted = log_probs.gather(2, row.expand(frames, -1, -1))
    path = torch.cat((emitted[0, :, :2], torch.full_like(over[:, 2:], _NEVER)), 1)
    for frame in range(1, frames):
        steps = path, torch.cat((least[:, :1], path[:, :-1]), 1), \
            torch.cat((least, path[:, :-2]), 1) + over
        path = torch.where((frame < given).unsqueeze(-1),
                           torch.logsumexp(torch.stack(steps), 0) + emitted[frame], path)
    ends = path.gather(1, torch.stack((2 * wanted, (2 * wanted - 1).clamp(min=0)), 1))
    none = pad((wanted == 0).unsqueeze(1), (1, 0))  # these have one end
    loss = -torch.logsumexp(torch.where(none, _NEVER, ends), 1)
    loss = torch.where(loss > -0.1 * _NEVER, 0.0 if zero_infinity else math.inf, loss)
    if reduction == "mean":
        return (loss / wanted.clamp(min=1)).mean()
    return loss.sum() if reduction == "sum" else loss


def _scatter_mean(input: Any, dim: int, index: Any, src: Any, reduce: str = "", *,
                  include_self: bool = True) -> Any:
    """The sum by the number of what is added."""
    import torch
    if reduce != "mean":
        return None
    count = (torch.ones_like if include_self else torch.zeros_like)(input)
    count = count.scatter_add(dim, index, torch.ones_like(src))
    total = input if include_self else torch.where(count > 0, 0.0, input)
    return total.scatter_add(dim, index, src) / count.clamp(min=1)


def _table() -> Dict[Any, Callable[..., Any]]:
    import torch
    named = torch.nn.functional
    return {named.embedding_bag: _bag, torch.cdist: _cdist, torch.cumprod: _cumprod,
            torch.Tensor.cumprod: _cumprod, torch.cummax: _cummax, torch.Tensor.cummax: _cummax,
            torch.cummin: _cummin, torch.Tensor.cummin: _cummin, torch.slogdet: _slogdet,
            torch.linalg.slogdet: _slogdet, torch.Tensor.slogdet: _slogdet,
            torch.median: _median, torch.Tensor.median: _median, torch.kthvalue: _kthvalue,
            torch.Tensor.kthvalue: _kthvalue, torch.searchsorted: _searchsorted,
            named.gaussian_nll_loss: _gaussian, named.ctc_loss: _ctc,
            torch.scatter_reduce: _scatter_mean, torch.Tensor.scatter_reduce: _scatter_mean,
            named.adaptive_max_pool1d: _largest(1), named.adaptive_max_pool2d: _largest(2),
            named.adaptive_max_pool3d: _largest(3), torch._VF.lstm: _projected_lstm, torch.hann_window: _hann,
            torch.hamming_window: _hamming, named.scaled_dot_product_attention: _attention}


def rewrite(function: Any, args: Any, kwargs: Any) -> Any:
    """What the call gives, by others; None: it is none of these."""
    other = _table().get(function)
    return None if other is None else other(*args, **kwargs)


# ---- experts of transformers ----
_NAME = "renga_dense"


def _all_experts(self: Any, hidden_states: Any, top_k_index: Any, top_k_weights: Any) -> Any:
    """Each token goes through all experts, and counts where it is sent: a file has no choice of rows
    whose number is known only as it runs. Experts come first, so that they can be lanes."""
    import torch
    kind = "gate_up" if self.has_gate else "up"
    up, down = getattr(self, f"{kind}_proj"), self.down_proj
    share = torch.zeros(hidden_states.shape[0], up.shape[0]).scatter(1, top_k_index, top_k_weights)
    if not self.is_transposed:
        up, down = up.transpose(1, 2), down.transpose(1, 2)
    each = hidden_states.unsqueeze(0) @ up
    if self.has_bias:
        each = each + getattr(self, f"{kind}_proj_bias").unsqueeze(1)
    each = (self._apply_gate(each) if self.has_gate else self.act_fn(each)) @ down
    if self.has_bias:
        each = each + self.down_proj_bias.unsqueeze(1)
    if self.has_post_expert_norm:
        each = self.post_expert_norm(each)
    return (share.t().unsqueeze(-1) * each).sum(0)


@contextlib.contextmanager
def dense_experts(module: Any) -> Iterator[None]:
    """Modules of experts of transformers compute all of them, unless "batched_mm" is chosen."""
    experts: Any = sys.modules.get("transformers.integrations.moe")
    registry = getattr(experts, "ALL_EXPERTS_FUNCTIONS", None)
    configs = {id(part.config): part.config for part in module.modules()
               if hasattr(part, "_apply_gate") and hasattr(part, "config")}
    before = [(config, getattr(config, "_experts_implementation", None))
              for config in configs.values()]
    if registry is not None and before:
        registry.register(_NAME, _all_experts)
    try:
        for config, kind in before:
            if registry is not None and kind != "batched_mm":
                config._experts_implementation = _NAME
        yield
    finally:
        for config, kind in before:
            config._experts_implementation = kind
