"""Networks that were written to be tried once: of transformers outside the families that Renga builds itself, parts of torch.nn
that others leave out, and code with operators that are rare."""

import contextlib
import math

import torch
from common import CLASSES, PLACES, WORDS, F, Network, classes, classify, images, nn, tokens, vectors, words_loss
from libraries import GROUPED, IDS, PLAIN, SEQUENCES, VISION, causal, hugging_face, masked, pictures

W = 16
EXPERTS = {**GROUPED, "num_experts_per_tok": 2, "moe_intermediate_size": 12}
STATES = {"hidden_size": 16, "num_hidden_layers": 2, "state_size": 4, "conv_kernel": 3, "expand": 2, **IDS}
LATENT = {
    **PLAIN,
    "num_key_value_heads": 2,
    "kv_lora_rank": 8,
    "q_lora_rank": 8,
    "qk_rope_head_dim": 4,
    "qk_nope_head_dim": 4,
    "v_head_dim": 4,
    "first_k_dense_replace": 1,
    "n_routed_experts": 4,
    "n_shared_experts": 1,
    "n_group": 1,
    "topk_group": 1,
    **{key: EXPERTS[key] for key in ("num_experts_per_tok", "moe_intermediate_size")},
}
SOUND = {
    "hidden_size": 16,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "intermediate_size": 24,
    "vocab_size": 12,
    "conv_dim": (8, 8),
    "conv_stride": (4, 2),
    "conv_kernel": (8, 4),
    "num_feat_extract_layers": 2,
    "pad_token_id": 0,
    "num_conv_pos_embeddings": 4,
    "num_conv_pos_embedding_groups": 2,
    "mask_time_prob": 0.0,
    "ctc_loss_reduction": "mean",
}
LANGUAGE = [
    ("Cohere", {**GROUPED, "num_key_value_heads": 2}, "ForCausalLM"),
    ("Cohere2", {**GROUPED, "sliding_window": 4}, "ForCausalLM"),
    ("Nemotron", GROUPED, "ForCausalLM"),
    ("Glm4", GROUPED, "ForCausalLM"),
    ("Exaone4", {**GROUPED, "sliding_window": 4}, "ForCausalLM"),
    ("SmolLM3", {**GROUPED, "no_rope_layers": [1, 0]}, "ForCausalLM"),
    ("DiffLlama", {**PLAIN, "num_key_value_heads": 2}, "ForCausalLM"),
    ("Mamba", STATES, "ForCausalLM"),
    ("Mamba2", {**STATES, "num_heads": 4, "head_dim": 8, "n_groups": 1, "chunk_size": 4}, "ForCausalLM"),
    ("RecurrentGemma", {**GROUPED, "lru_width": 16, "attention_window_size": 4, "block_types": ["recurrent", "attention"]}, "ForCausalLM"),
    ("Rwkv", {"hidden_size": 16, "num_hidden_layers": 2, "attention_hidden_size": 16, "intermediate_size": 24, "context_length": 16, **IDS}, "ForCausalLM"),
    ("Lfm2", {**GROUPED, "layer_types": ["conv", "full_attention"]}, "ForCausalLM"),
    ("Mpt", {"d_model": 16, "n_heads": 2, "n_layers": 2, "max_seq_len": 16, "expansion_ratio": 2, **IDS}, "ForCausalLM"),
    ("XGLM", {"d_model": 16, "ffn_dim": 24, "num_layers": 2, "attention_heads": 2, "max_position_embeddings": 16, **IDS}, "ForCausalLM"),
    ("DeepseekV3", LATENT, "ForCausalLM"),
    ("Mixtral", {**EXPERTS, "num_local_experts": 4}, "ForCausalLM"),
    ("Qwen3Moe", {**EXPERTS, "num_experts": 4, "decoder_sparse_step": 1}, "ForCausalLM"),
    ("GptOss", {**EXPERTS, "num_local_experts": 4, "sliding_window": 4, "layer_types": ["sliding_attention", "full_attention"]}, "ForCausalLM"),
    ("Olmoe", {**EXPERTS, "num_experts": 4}, "ForCausalLM"),
    (
        "Qwen3Next",
        {
            **EXPERTS,
            "num_experts": 4,
            "shared_expert_intermediate_size": 12,
            "linear_num_value_heads": 2,
            "linear_num_key_heads": 2,
            "linear_key_head_dim": 8,
            "linear_value_head_dim": 8,
            "layer_types": ["linear_attention", "full_attention"],
        },
        "ForCausalLM",
    ),
]
MASKED = [
    ("Nystromformer", {**PLAIN, "num_landmarks": PLACES, "segment_means_seq_len": PLACES}, "ForMaskedLM"),
    ("Esm", {**PLAIN, "position_embedding_type": "rotary", "mask_token_id": 4}, "ForMaskedLM"),
    ("ConvBert", {**PLAIN, "embedding_size": 16, "head_ratio": 2, "conv_kernel_size": 3}, "ForMaskedLM"),
    ("Funnel", {"block_sizes": [1, 1], "num_decoder_layers": 1, "d_model": 16, "n_head": 2, "d_head": 8, "d_inner": 24, **IDS}, "ForMaskedLM"),
    ("MobileBert", {**PLAIN, "embedding_size": 16, "intra_bottleneck_size": 8, "true_hidden_size": 8}, "ForMaskedLM"),
]
PAIRS = [
    ("MBart", SEQUENCES, "ForConditionalGeneration"),
    ("M2M100", SEQUENCES, "ForConditionalGeneration"),
    (
        "LongT5",
        {"d_model": 16, "d_kv": 8, "d_ff": 24, "num_layers": 2, "num_heads": 2, "decoder_start_token_id": 0, "local_radius": 3, **IDS},
        "ForConditionalGeneration",
    ),
    (
        "ProphetNet",
        {
            "hidden_size": 16,
            "encoder_ffn_dim": 24,
            "num_encoder_layers": 1,
            "num_encoder_attention_heads": 2,
            "decoder_ffn_dim": 24,
            "num_decoder_layers": 1,
            "num_decoder_attention_heads": 2,
            "ngram": 2,
            "max_position_embeddings": 16,
            "decoder_start_token_id": 1,
            **IDS,
        },
        "ForConditionalGeneration",
    ),
]
PICTURES = [
    (
        "Segformer",
        {
            "hidden_sizes": [8, 16],
            "depths": [1, 1],
            "num_encoder_blocks": 2,
            "num_attention_heads": [1, 2],
            "sr_ratios": [2, 1],
            "patch_sizes": [3, 3],
            "strides": [2, 2],
            "mlp_ratios": [2, 2],
            "decoder_hidden_size": 16,
        },
        "ForImageClassification",
    ),
    ("Swinv2", {"image_size": 16, "patch_size": 2, "embed_dim": 8, "depths": [1, 1], "num_heads": [1, 2], "window_size": 4}, "ForImageClassification"),
    ("ConvNextV2", {"hidden_sizes": [8, 16], "depths": [1, 1], "num_stages": 2, "image_size": 16}, "ForImageClassification"),
    (
        "FocalNet",
        {"image_size": 16, "patch_size": 2, "embed_dim": 8, "depths": [1, 1], "focal_levels": [2, 2], "focal_windows": [3, 3], "hidden_sizes": [8, 16]},
        "ForImageClassification",
    ),
    ("Siglip", {"vision_config": VISION}, "ForImageClassification"),
]


REFUSED = {"LongT5": "torch could not export", "RecurrentGemma": "the autograd.Function SqrtBoundDerivative"}


def sounds(n):
    return {"input_values": torch.randn(n, 160), "labels": torch.randint(1, 12, (n, 4))}


def transformers_rows():
    groups = (LANGUAGE, causal), (MASKED, masked), (PAIRS, masked), (PICTURES, pictures(16))
    rows = [
        Network(f"aside {word}", hugging_face(word, settings, ending), batch, refused=REFUSED.get(word, ""))
        for group, batch in groups
        for word, settings, ending in group
    ]
    return rows + [Network("aside Wav2Vec2", hugging_face("Wav2Vec2", SOUND, "ForCTC"), sounds, refused="torch could not export")]


class Of(nn.Module):
    """Layers, and the function that a forward is."""

    def __init__(self, forward, **parts):
        super().__init__()
        self.call = forward
        for name, part in parts.items():
            setattr(self, name, part)

    def forward(self, *inputs):
        return self.call(self, *inputs)


def table(*shape):
    return nn.Parameter(torch.randn(*shape) / math.sqrt(shape[-1]))


def sequences(n):
    return torch.randn(n, PLACES, W), classes(n)


def graphs(n):
    """Vertices and the edges between them."""
    return torch.randn(n, 5, W), torch.randint(0, 5, (n, 2, 9)), classes(n)


def volumes(n):
    return torch.randn(n, 2, 6, 6, 6), classes(n)


def pixels(n):
    return torch.randn(n, 3, 8, 8), torch.randint(0, 4, (n, 8, 8))


def real(n):
    return torch.randn(n, W), torch.randn(n, 3)


def attention(m, x):
    hidden = torch.arange(PLACES) > 3
    h, _ = m.mha(x, x, x, key_padding_mask=hidden.expand(x.shape[0], -1), attn_mask=torch.ones(PLACES, PLACES).triu(2).bool())
    return m.out(h.mean(1))


def passing(m, x, edges):
    """Messages along edges, by their mean and their largest, as graph networks have them."""
    source, target = edges.unbind(1)
    h = m.into(x)
    sent = h.gather(1, source.unsqueeze(-1).expand(-1, -1, W))
    at = target.unsqueeze(-1).expand(-1, -1, W)
    total = torch.zeros_like(h).scatter_add(1, at, torch.relu(m.message(sent)))
    count = torch.zeros_like(h).scatter_add(1, at, torch.ones_like(sent)).clamp(min=1)
    most = h.scatter_reduce(1, at, sent, "amax", include_self=True)
    least = torch.zeros_like(h).scatter_reduce(1, at, sent, "amin", include_self=False)
    mean = h.scatter_reduce(1, at, sent.sin(), "mean", include_self=False)
    return m.out((total / count + most + mean + least).sum(1))


def hyper(m, x):
    weights = m.make(x).view(-1, W, 4)
    return m.out(torch.bmm(x.unsqueeze(1), weights).squeeze(1).sin())


def splines(m, x):
    """B-splines of degree 2 by their recursion (KAN)."""
    x, grid = x.tanh().unsqueeze(-1), torch.linspace(-1.8, 1.8, 10)
    bases = ((x >= grid[:-1]) & (x < grid[1:])).float()
    for k in (1, 2):
        left = (x - grid[: -(k + 1)]) / (grid[k:-1] - grid[: -(k + 1)])
        right = (grid[k + 1 :] - x) / (grid[k + 1 :] - grid[1:-k])
        bases = left * bases[..., :-1] + right * bases[..., 1:]
    return torch.einsum("nik,oik->no", bases, m.weight) + m.base(F.silu(x.squeeze(-1)))


def fourier(m, x):
    """Mixing by a Fourier transform, long filters and phases."""
    spectrum = torch.fft.rfft(x, dim=1)
    kernel = torch.fft.rfft(m.kernel, dim=0)
    y = torch.fft.irfft(spectrum * kernel, n=PLACES, dim=1)
    return m.out((y * F.silu(m.gate(x))).mean(1)) + m.loud(spectrum.abs().mean(1))


def rotated(m, x):
    """Rotary positions by complex numbers, as Meta's Llama has them."""
    angles = torch.outer(torch.arange(PLACES).float(), 10 ** -torch.arange(4).float())
    turn = torch.polar(torch.ones_like(angles), angles)
    q, k, v = (f(x).view(-1, PLACES, 2, 8).transpose(1, 2) for f in (m.q, m.k, m.v))
    q, k = (torch.view_as_real(torch.view_as_complex(t.reshape(*t.shape[:-1], 4, 2)) * turn).flatten(-2) for t in (q, k))
    return m.out(F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).flatten(2).mean(1))


def routed(m, x):
    """Experts of the two best scores, densely evaluated."""
    score, which = m.router(x).softmax(-1).topk(2, -1)
    share = torch.zeros(x.shape[0], 4).scatter(1, which, score / score.sum(-1, keepdim=True))
    each = torch.einsum("ni,eio->neo", x, m.up).relu()
    return m.out(torch.einsum("neo,ne->no", each, share))


def sampled(m, x):
    """A spatial transformer."""
    theta = m.where(x.flatten(1)).view(-1, 2, 3) * 0.1 + torch.eye(2, 3)
    grid = F.affine_grid(theta, list(x.shape), align_corners=False)
    seen = F.grid_sample(x, grid, padding_mode="border", align_corners=False)
    return m.out(F.relu(m.conv(seen)).mean((2, 3)))


def unfolded(m, x):
    patches = F.unfold(x, 3, padding=1, stride=1)
    y = F.fold(m.mix(patches.transpose(1, 2)).transpose(1, 2), (8, 8), 3, padding=1)
    return m.out(y.flatten(1))


def scan(m, x):
    """A state of decays, by a loop, as selective state spaces have."""
    state, rows = torch.zeros(x.shape[0], W), []
    decay = torch.exp(-F.softplus(m.decay(x)))
    for place in range(PLACES):
        state = state * decay[:, place] + m.into(x[:, place])
        rows.append(state * torch.sigmoid(x[:, place]))
    return m.out(torch.stack(rows, 1).cumsum(1).amax(1))


def field(m, x):
    """Runge and Kutta's fourth order of a small vector field."""
    h = 0.25
    for _ in range(2):
        a = m.f(x)
        b = m.f(x + h / 2 * a)
        c = m.f(x + h / 2 * b)
        x = x + h / 6 * (a + 2 * b + 2 * c + m.f(x + h * c))
    return m.out(x)


def crf(m, words, labels):
    """The likelihood of a path, by a forward loop."""
    scores = m.out(m.table(words))
    path = scores.gather(2, labels.unsqueeze(-1)).sum((1, 2)) + m.step[labels[:, :-1], labels[:, 1:]].sum(1)
    alpha = scores[:, 0]
    for place in range(1, PLACES):
        alpha = torch.logsumexp(alpha.unsqueeze(2) + m.step, 1) + scores[:, place]
    return (torch.logsumexp(alpha, 1) - path).mean()


def crf_batch(n):
    return {"words": tokens(n), "labels": torch.randint(0, CLASSES, (n, PLACES))}


class Tagger(nn.Module):
    def __init__(self):
        super().__init__()
        self.table, self.out, self.step = nn.Embedding(WORDS, W), nn.Linear(W, CLASSES), table(CLASSES, CLASSES)

    def forward(self, words, labels):
        return crf(self, words, labels)


class Codes(nn.Module):
    """VQ-VAE: the nearest code, straight through, and its two losses."""

    def __init__(self):
        super().__init__()
        self.into, self.codes, self.back = nn.Linear(W, 4), table(8, 4), nn.Linear(4, W)

    def forward(self, x):
        z = self.into(x)
        code = self.codes[torch.cdist(z, self.codes).argmin(1)]
        kept = z + (code - z).detach()
        return F.mse_loss(self.back(kept), x) + F.mse_loss(code, z.detach()) + 0.25 * F.mse_loss(code.detach(), z)


def codes_batch(n):
    return {"x": torch.randn(n, W)}


def seq2seq(m, x):
    """A bidirectional encoder, and a decoder of cells that attends to it."""
    memory, (h, c) = m.encoder(x)
    h, c = h.mean(0), c.mean(0)
    for _ in range(3):
        weight = (memory @ m.query(h).unsqueeze(-1)).softmax(1)
        h, c = m.cell((memory * weight).sum(1), (h, c))
    return m.out(h)


def unet(m, x):
    a = F.elu(m.down(x))
    b = F.elu(m.bottom(F.avg_pool2d(a, 2)))
    up = m.up(b)
    return m.out(torch.cat((F.interpolate(b, scale_factor=2, mode="bilinear"), up, a), 1))


def dice(scores, target):
    p = scores.softmax(1)
    wanted = F.one_hot(target, 4).permute(0, 3, 1, 2).float()
    overlap = (p * wanted).sum((2, 3))
    return 1 - (2 * overlap / (p.pow(2) + wanted).sum((2, 3)).clamp(min=1e-6)).mean()


def quantiles(found, wanted):
    off = wanted - found
    q = torch.tensor([0.1, 0.5, 0.9])
    return torch.maximum(q * off, (q - 1) * off).mean()


def gaussian(found, wanted):
    return F.gaussian_nll_loss(found, wanted, F.softplus(found.roll(1, 1)) + 0.1)


def triplet(found, labels):
    return F.triplet_margin_loss(found, found.flip(1).tanh(), found.roll(2, 1)) + 0 * labels.sum()


def connected(found, labels):
    """With frames and labels of several lengths, some equal."""
    given, wanted = 9 - labels[:, 0] % 2, labels[:, 1] % 5
    return F.ctc_loss(found[0].log_softmax(-1).transpose(0, 1), labels % 3 + 1, given, wanted, zero_infinity=True)


def focal(scores, labels):
    logp = F.log_softmax(scores, -1).gather(1, labels.unsqueeze(1)).squeeze(1)
    return -((1 - logp.exp()) ** 2 * logp).mean()


def arc(m, x):
    cosine = F.linear(F.normalize(m.into(x)), F.normalize(m.classes)).clamp(-0.999, 0.999)
    return 8 * torch.cos(torch.acos(cosine) + 0.1)


def clip(found, labels):
    scores = F.normalize(found) @ F.normalize(found.tanh()).T * 5
    at = torch.arange(scores.shape[0])
    return (F.cross_entropy(scores, at) + F.cross_entropy(scores.T, at)) / 2 + 0 * labels.sum()


def deep_set(m, x):
    h = F.gelu(m.phi(x))
    order = h.sort(1, descending=True)[0][:, :3].flatten(1)
    return m.out(torch.cat((h.std(1), h.logsumexp(1), h.prod(1).tanh(), h.norm(dim=1), order), -1))


def kernels(m, x):
    """Linear attention by features of elu, causal by sums, and a gate of heads."""
    q, k, v = F.elu(m.q(x)) + 1, F.elu(m.k(x)) + 1, m.v(x)
    state = torch.einsum("npi,npj->npij", k, v).cumsum(1)
    y = torch.einsum("npi,npij->npj", q, state) / (q * k.cumsum(1)).sum(-1, keepdim=True)
    return m.out(torch.tril(torch.ones(PLACES, PLACES)).matmul(y)[:, -1])


def capsules(m, x):
    votes = torch.einsum("npi,pcio->npco", x, m.vote)
    logits = torch.zeros(x.shape[0], PLACES, CLASSES)
    for _ in range(3):
        s = (logits.softmax(2).unsqueeze(-1) * votes).sum(1)
        square = s.pow(2).sum(-1, keepdim=True)
        v = square / (1 + square) * s / (square + 1e-8).sqrt()
        logits = logits + (votes * v.unsqueeze(1)).sum(-1)
    return v.norm(dim=-1) * 5


def windows(m, x):
    """Shifted windows by roll, strides and ranges backwards."""
    x = torch.roll(x, (2, -1), (2, 3))[:, :, ::2].flip(3)
    x = F.pad(x, (1, 1, 1, 1), mode="reflect").unfold(2, 3, 1).unfold(3, 3, 2)
    return m.out(x.flatten(2).mean(1).flatten(1)[:, :36])


def memory(m, x):
    """A memory that is written and read by content (NTM)."""
    store = m.store.expand(x.shape[0], -1, -1)
    for place in range(3):
        key = m.key(x[:, place])
        weight = (F.cosine_similarity(store, key.unsqueeze(1), dim=-1) * F.softplus(m.sharp)).softmax(-1).unsqueeze(-1)
        store = store * (1 - weight * torch.sigmoid(m.erase(x[:, place])).unsqueeze(1)) + weight * key.unsqueeze(1)
    return m.out((store * weight).sum(1))


def weighted():
    return nn.Sequential(nn.utils.parametrizations.weight_norm(nn.Linear(W, W)), nn.Mish(), nn.utils.parametrizations.weight_norm(nn.Linear(W, CLASSES), dim=1))


def orthogonal():
    return nn.Sequential(nn.utils.parametrizations.orthogonal(nn.Linear(W, W), orthogonal_map="cayley"), nn.Tanh(), nn.Linear(W, CLASSES))


def activations():
    kinds = [
        nn.CELU(),
        nn.SELU(),
        nn.Hardswish(),
        nn.Hardsigmoid(),
        nn.LogSigmoid(),
        nn.Softsign(),
        nn.Tanhshrink(),
        nn.Softshrink(),
        nn.Hardshrink(0.1),
        nn.PReLU(W),
        nn.ReLU6(),
        nn.Softplus(2),
        nn.Threshold(-0.2, 0.1),
        nn.LeakyReLU(0.2),
        nn.GELU("tanh"),
        nn.Hardtanh(-2, 2),
        nn.Softmin(-1),
        nn.Softmax2d(),
    ]
    parts = [layer for kind in kinds[:-1] for layer in (nn.Linear(W, W), kind, nn.LayerNorm(W))]
    return nn.Sequential(*parts, nn.Linear(W, 2 * W), nn.GLU(), nn.Linear(W, CLASSES))


def picture_layers():
    return nn.Sequential(
        nn.Conv2d(3, 8, 3, padding=1, padding_mode="circular"),
        nn.LocalResponseNorm(3),
        nn.ReLU(),
        nn.Conv2d(8, 8, 3, groups=8, dilation=2, padding="same"),
        nn.InstanceNorm2d(8, affine=True),
        nn.LPPool2d(2, 2),
        nn.PixelShuffle(2),
        nn.ReflectionPad2d(1),
        nn.ConvTranspose2d(2, 6, 3, stride=2, output_padding=1),
        nn.ChannelShuffle(2),
        nn.AdaptiveMaxPool2d(2),
        nn.Upsample(scale_factor=2, mode="nearest"),
        nn.ReplicationPad2d(1),
        nn.PixelUnshuffle(2),
        nn.Flatten(),
        nn.Linear(216, CLASSES),
    )


def volume_layers():
    return nn.Sequential(nn.Conv3d(2, 4, 3), nn.GroupNorm(2, 4), nn.SiLU(), nn.MaxPool3d(2), nn.Flatten(), nn.Linear(4 * 8, CLASSES))


def sentence_pair(n):
    return tokens(n), tokens(n, 4), tokens(n, 4)


def translated(m, source, target):
    mask = nn.Transformer.generate_square_subsequent_mask(4)
    return m.out(m.net(m.table(source), m.table(target), tgt_mask=mask, tgt_is_causal=True))


def own_rows():
    def row(name, make, batch=vectors, loss=classify, **more):
        return Network("aside " + name, make, batch, loss, **more)

    line, heads = nn.Linear, lambda: {k: nn.Linear(W, W) for k in "qkv"}
    return [
        row("attention-masks", lambda: Of(attention, mha=nn.MultiheadAttention(W, 2, batch_first=True, add_bias_kv=True), out=line(W, CLASSES)), sequences),
        row(
            "transformer",
            lambda: Of(translated, table=nn.Embedding(WORDS, W), net=nn.Transformer(W, 2, 1, 1, 24, 0.0, batch_first=True, norm_first=True), out=line(W, WORDS)),
            sentence_pair,
            words_loss,
        ),
        row("message-passing", lambda: Of(passing, into=line(W, W), message=line(W, W), out=line(W, CLASSES)), graphs),
        row("hypernetwork", lambda: Of(hyper, make=line(W, 4 * W), out=line(4, CLASSES))),
        row("splines", lambda: Of(splines, weight=table(CLASSES, W, 7), base=line(W, CLASSES))),
        row("fourier", lambda: Of(fourier, kernel=table(PLACES, W), gate=line(W, W), out=line(W, CLASSES), loud=line(W, CLASSES)), sequences),
        row("complex-rotary", lambda: Of(rotated, **heads(), out=line(W, CLASSES)), sequences),
        row("top-2-experts", lambda: Of(routed, router=line(W, 4), up=table(4, W, W), out=line(W, CLASSES))),
        row("spatial-transformer", lambda: Of(sampled, where=line(192, 6), conv=nn.Conv2d(3, 8, 3), out=line(8, CLASSES)), images()),
        row("fold", lambda: Of(unfolded, mix=line(27, 18), out=line(128, CLASSES)), images()),
        row("state-space", lambda: Of(scan, decay=line(W, W), into=line(W, W), out=line(W, CLASSES)), sequences),
        row("ode", lambda: Of(field, f=nn.Sequential(line(W, W), nn.Tanh(), line(W, W)), out=line(W, CLASSES))),
        row("crf", Tagger, crf_batch, None),
        row("codes", Codes, codes_batch, None),
        row(
            "seq2seq",
            lambda: Of(seq2seq, encoder=nn.LSTM(W, W, batch_first=True, bidirectional=True), query=line(W, 2 * W), cell=nn.LSTMCell(2 * W, W), out=line(W, CLASSES)),
            sequences,
        ),
        row("projected-lstm", lambda: Of(lambda m, x: m.out(m.rnn(x)[0][:, -1]), rnn=nn.LSTM(W, W, proj_size=5, batch_first=True), out=line(5, CLASSES)), sequences),
        row("ctc", lambda: nn.GRU(W, 7, batch_first=True), lambda n: (torch.randn(n, 9, W), torch.randint(1, 7, (n, 4))), connected),
        row(
            "rnn-relu",
            lambda: Of(
                lambda m, x: m.out(m.rnn(x)[0].mean(1)), rnn=nn.RNN(W, W, nonlinearity="relu", batch_first=True, bidirectional=True), out=line(2 * W, CLASSES)
            ),
            sequences,
        ),
        row(
            "unet-dice",
            lambda: Of(unet, down=nn.Conv2d(3, 6, 3, padding=1), bottom=nn.Conv2d(6, 8, 3, padding=1), up=nn.ConvTranspose2d(8, 4, 2, 2), out=nn.Conv2d(18, 4, 1)),
            pixels,
            dice,
        ),
        row("quantiles", lambda: nn.Sequential(line(W, W), nn.SiLU(), line(W, 3)), real, quantiles),
        row("gaussian", lambda: nn.Sequential(line(W, W), nn.SiLU(), line(W, 3)), real, gaussian),
        row("huber", lambda: nn.Sequential(line(W, W), nn.SiLU(), line(W, 3)), real, nn.HuberLoss(delta=0.5)),
        row(
            "kl",
            lambda: nn.Sequential(line(W, W), nn.SiLU(), line(W, 3), nn.LogSoftmax(-1)),
            real,
            lambda p, t: F.kl_div(p, t.log_softmax(-1), reduction="batchmean", log_target=True),
        ),
        row("poisson", lambda: nn.Sequential(line(W, W), nn.SiLU(), line(W, 3)), real, lambda p, t: F.poisson_nll_loss(p, t.abs())),
        row("triplet", lambda: nn.Sequential(line(W, W), nn.Tanh(), line(W, 6)), vectors, triplet),
        row("multi-margin", lambda: nn.Sequential(line(W, W), nn.Tanh(), line(W, CLASSES)), vectors, nn.MultiMarginLoss()),
        row("focal", lambda: nn.Sequential(line(W, W), nn.Tanh(), line(W, CLASSES)), vectors, focal),
        row("arcface", lambda: Of(arc, into=line(W, 8), classes=table(CLASSES, 8))),
        row("clip", lambda: nn.Sequential(line(W, W), nn.GELU(), line(W, 6)), vectors, clip, whole=True),
        row("deep-set", lambda: Of(deep_set, phi=line(W, 8), out=line(8 * 7, CLASSES)), sequences),
        row("linear-attention", lambda: Of(kernels, **heads(), out=line(W, CLASSES)), sequences),
        row("capsules", lambda: Of(capsules, vote=table(PLACES, CLASSES, W, 4)), sequences),
        row("windows", lambda: Of(windows, out=line(36, CLASSES)), images()),
        row(
            "memory", lambda: Of(memory, store=table(4, W), key=line(W, W), erase=line(W, W), sharp=nn.Parameter(torch.tensor(0.5)), out=line(W, CLASSES)), sequences
        ),
        row("weight-norm", weighted),
        row("orthogonal", orthogonal, refused="linalg_solve"),
        row("activations", activations, rate=1e-3),
        row("picture-layers", picture_layers, images()),
        row("volumes", volume_layers, volumes),
        row("bilinear", lambda: Of(lambda m, x: m.two(m.one(x, x.tanh()), x), one=nn.Bilinear(W, W, 6), two=nn.Bilinear(6, W, CLASSES))),
        row(
            "batch-norm-3d",
            lambda: nn.Sequential(nn.Conv3d(2, 4, 3, stride=2), nn.BatchNorm3d(4), nn.ReLU(), nn.Flatten(), nn.Linear(32, CLASSES)),
            volumes,
            whole=True,
        ),
        row(
            "renorm",
            lambda: Of(lambda m, x: m.out(m.table(x).mean(1)), table=nn.Embedding(WORDS, W, max_norm=1.0), out=line(W, CLASSES)),
            lambda n: (tokens(n), classes(n)),
            refused='changes "table.weight"',
        ),
        row(
            "adaptive-softmax",
            lambda: Of(lambda m, x: m.out.log_prob(m.into(x)), into=line(W, W), out=nn.AdaptiveLogSoftmaxWithLoss(W, 9, [3, 6])),
            lambda n: (torch.randn(n, W), torch.randint(0, 9, (n,))),
            nn.NLLLoss(),
        ),
    ]


def find():
    rows = own_rows()
    with contextlib.suppress(ImportError):
        import transformers  # noqa: F401

        rows += transformers_rows()
    return rows
