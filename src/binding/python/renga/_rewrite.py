"""Functions of torch that its exporter has no operator for, or a form that joins samples, by others. Each
gives None where it leaves the call as it is."""
from __future__ import annotations

import math
from typing import Any, Callable, Dict

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


def _table() -> Dict[Any, Callable[..., Any]]:
    import torch
    named = torch.nn.functional
    return {named.embedding_bag: _bag, torch.cdist: _cdist, torch.cumprod: _cumprod,
            torch.Tensor.cumprod: _cumprod, torch.cummax: _cummax, torch.Tensor.cummax: _cummax,
            torch.cummin: _cummin, torch.Tensor.cummin: _cummin, torch.slogdet: _slogdet,
            torch.linalg.slogdet: _slogdet, torch.Tensor.slogdet: _slogdet,
            torch.median: _median, torch.Tensor.median: _median, torch.kthvalue: _kthvalue,
            torch.Tensor.kthvalue: _kthvalue, torch.searchsorted: _searchsorted,
            torch.hann_window: _hann, torch.hamming_window: _hamming, named.scaled_dot_product_attention: _attention}


def rewrite(function: Any, args: Any, kwargs: Any) -> Any:
    """What the call gives, by others; None: it is none of these."""
    other = _table().get(function)
    return None if other is None else other(*args, **kwargs)
