"""What a product name says: people, drivers, clouds and labels spell the same card in a dozen ways.

A name is read as *core* words (``4090``; ``a100``; ``pro 6000 server``), a memory size and a form (SXM, PCIe, NVL). Brand
words say nothing and are dropped. Two names mean the same card when these three agree, see ``catalog.candidates``.
"""

from __future__ import annotations

import re

from planner.record import NamedTuple

#: Longer names are cut: a Kubernetes label value has at most 63 characters.
MAX_LENGTH = 160

# fmt: off
_BRAND = frozenset(
    (
        "nvidia", "amd", "intel", "google", "aws", "amazon", "huawei", "habana", "tesla", "geforce", "instinct", "radeon",
        "rtx", "rx", "arc", "jetson", "agx", "ascend", "atlas", "ai", "dgx", "hgx", "data", "center", "datacenter", "gpu",
        "gpus", "npu", "graphics", "accelerator", "accelerators", "tensor", "core", "card", "series", "generation", "gen",
        "edition", "corporation", "superchip", "oam", "ac", "vf", "mega", "blackwell", "lovelace", "hopper", "ampere",
        "turing", "volta",
    )
)
# fmt: on
#: Words in a catalog name that a shorter name may leave out.
_IMPLIED = frozenset(("server", "workstation", "max", "q", "gcd", "tpu"))
_FORMS = {"nvlink": "sxm", "pcie": "pcie", "pci": "pcie", "nvl": "nvl"}
#: Spellings without or with too many blanks, in the order of their application.
_SPACING = (
    (r"(rtx|gtx|rx|pro|ascend|quadro|tesla|radeon|geforce|nvidia|amd|arc|tpu|jetson)(?=[a-z]{0,8}\d)", r"\1 "),
    (r"\b(\d{4})(ti|super|xtx|xt|gre)(super)?\b", r"\1 \2 \3"),
    (r"\b([a-z]{1,2}\d{2,3}[a-z]?)(sxm\d?|pcie|nvl)\b", r"\1 \2"),
    (r"\b(mi|gaudi|inferentia|trainium|gh|gb) (\d+[a-z]?)\b", r"\1\2"),
    (r"\b(\d{4}) d\b", r"\1d"),
    (r"\b(\d{1,4}) (gb|gib|g)\b", r"\1gb"),
)
#: Other names of the same thing.
_SAME = {
    "dgx spark": "gb10",
    "spark": "gb10",
    "grace hopper": "gh200",
    "thor": "thor 128gb",
    "strix halo": "8060s",
    "v100s": "v100 32gb",
    "mi60": "mi50 32gb",
    "h20 3e": "h20 141gb",
    "v5 lite podslice": "v5e",
    "v5 lite device": "v5e",
    "v5litepod": "v5e",
    "v5 lite": "v5e",
    "v5p slice": "v5p",
    "v4 podslice": "v4",
    "v6e slice": "v6e",
    "trillium": "v6e",
    "ironwood": "v7x",
    "tpu 7x": "tpu v7x",
    "inf1": "inferentia1",
    "inf2": "inferentia2",
    "trn1": "trainium1",
    "trn2": "trainium2",
    "inferentia": "inferentia1",
    "trainium": "trainium1",
    "910b1": "910b 64gb",
    "910b2": "910b 64gb",
    "910b2c": "910b 64gb",
    "910b3": "910b 64gb",
    "910b4 1": "910b 64gb",
    "ascend a3": "910c",
    "atlas a3": "910c",
    "310p": "310p3",
    "pro server 6000": "pro 6000 server",
    "6000 blackwell": "pro 6000",
    "gh200 480gb": "gh200 96gb",  # the driver's name states the memory of the CPU
    "gh200 120gb": "gh200 96gb",
}
#: Products whose names people write with and without ``Pro``, which means nothing there.
_WITH_OR_WITHOUT_PRO = frozenset(("b50", "b60", "b70", "v520", "v620", "v710", "w7800", "w7900", "r9700"))


class Name(NamedTuple):
    """A name in parts. ``memory`` is in the vendor's GB (0: not said), ``form`` is sxm, pcie, nvl or empty."""

    core: frozenset[str]
    memory: int
    form: str

    def may_mean(self, other: Name) -> bool:
        """Whether a card whose full name is ``other`` may be called by this, possibly shorter, name."""
        return self.core == other.core or (self.core < other.core and other.core - self.core <= _IMPLIED)


def parse(text: str) -> Name:
    """The parts of a product name, a driver's device name, a label value or a catalog file's name. Never raises."""
    words = text[:MAX_LENGTH].lower()
    if "(" in words:
        words = re.sub(r"\([^()]*\)", " ", words)
    words = re.sub(r"[^a-z0-9]+", " ", words).strip()
    for pattern, replacement in _SPACING:
        words = re.sub(pattern, replacement, words)
    words = f" {words} "
    for spelling, meaning in _SAME.items():
        if spelling in words:
            words = words.replace(f" {spelling} ", f" {meaning} ")
    core: set[str] = set()
    memory, form, stacked = 0, "", False
    for word in words.split():
        size = word.rstrip("gib")
        if size != word and size.isdecimal() and word[len(size) :] in ("g", "gb", "gib") and len(size) < 5:
            memory = int(size)
        elif word[:3] == "sxm" and word[3:] in ("", "2", "3", "4", "5", "6"):
            form = "sxm"
        elif word in _FORMS:
            form = form or _FORMS[word]
        elif word == "hbm3":
            stacked = True
        elif word not in _BRAND and not (word[:3] in ("hbm", "nvl") or word[:4] == "gddr" or _is_times(word)):
            core.add(word)
    if core & _WITH_OR_WITHOUT_PRO:
        core.discard("pro")
    if stacked and "h100" in core:
        form = form or "sxm"  # of the H100s only the SXM card has HBM3 in its driver's name
    return Name(frozenset(core), memory, form)


def _is_times(word: str) -> bool:
    """``x8``: a number of cards, or the lanes of a slot."""
    return word[0] == "x" and word[1:].isdecimal() and len(word) < 4
