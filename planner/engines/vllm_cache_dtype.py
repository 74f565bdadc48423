"""What releases of vLLM ask of ``--kv-cache-dtype`` beyond its choices."""

from __future__ import annotations

#: Releases, by major compute capability, in which DeepSeek-V4's cache is refused unless it is asked to be FP8
#: (``models/deepseek_v4/attention.py``). On Blackwell kernels with another layout may be chosen from 0.25 on.
_FP8_ALONE = {9: ((0, 20), (0, 30)), 10: ((0, 20), (0, 25))}


def compressed_takes_fp8_alone(version: tuple[int, ...], capability: tuple[int, int] | None) -> bool:
    """Whether the release asserts that the cache of DeepSeek-V4 (compressed latents) was asked to be FP8."""
    since, until = _FP8_ALONE.get(capability[0] if capability is not None else 0, ((), ()))
    return since <= version < until
