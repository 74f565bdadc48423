"""The tool that makes the tables: what it reads out of source that it never runs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from planner.catalog.engines import update
from planner.catalog.engines.definition import NoArguments
from planner.catalog.engines.distribution import Folder
from planner.catalog.engines.sglang_arguments import read_arguments as read_sglang
from planner.catalog.engines.source import Source, Unresolved
from planner.catalog.engines.vllm_arguments import read_arguments, read_variables
from planner.catalog.engines.vllm_quantization import read_methods

#: A release in small: every way in which an argument is defined. Importing it would fail; reading it must not.
RELEASE = {
    "vllm/engine/arg_utils.py": '''
import no_such_package
from vllm.config import CacheConfig, ParallelConfig, Formats, EngineMode
raise SystemExit("this must never run")

def get_kwargs(cls):
    for field in fields(cls):
        if is_dataclass(field): pass
        elif kinds == {bool, str}: kwargs["nargs"] = "?"
        elif name == "max_len":
            kwargs[name]["type"] = human_readable_int_or_auto
        elif name in {"batch"}:
            kwargs[name]["type"] = human_readable_int
    return kwargs

class EngineArgs:
    model: str = "m"
    @staticmethod
    def add_cli_args(parser):
        parser.add_argument("--model", type=str, default=EngineArgs.model)
        cache = get_kwargs(CacheConfig)
        group = parser.add_argument_group(title="x")
        cache["dtype"]["choices"].remove("secret")
        cache["pair"]["help"] += "x"
        for name in ():
            pass
        group.add_argument("--kv-cache-dtype", **cache["dtype"])
        group.add_argument("--max-len", **cache["max_len"])
        group.add_argument("--batch", **cache["batch"])
        group.add_argument("--fraction", **cache["fraction"])
        group.add_argument("--prefix", "-p", **{**cache["prefix"], "default": None})
        group.add_argument("--sizes", **cache["sizes"])
        group.add_argument("--pair", **cache["pair"])
        group.add_argument("--mode", **cache["mode"])
        group.add_argument("--inner", **cache["inner"])
        group.add_argument("--either", **cache["either"])
        group.add_argument("--format", choices=[f.value for f in Formats], default="a")
        group.add_argument("--old", action="store_true", deprecated=True, help="gone")
        group.add_argument("--older", type=int, help="[DEPRECATED] It will be removed in v0.12.0.")
        for option, kind in [("--first", str), ("--second", int)]:
            group.add_argument(option, type=kind)
        if "serve" in sys.argv:
            group.add_argument("--conditional", nargs="+", type=int)
        return parser
''',
    "vllm/config/__init__.py": '''
from typing import TYPE_CHECKING, Annotated, Literal
from .cache import CacheConfig
from .modes import *
class Formats(str, Enum):
    A = "a"
    B = "b"
class ParallelConfig: ...
''',
    "vllm/config/modes.py": 'EngineMode = Literal["fast", "slow"]\n',
    "vllm/config/cache.py": '''
from typing import TYPE_CHECKING, Literal
from pydantic import Field, PositiveInt
from vllm.config.modes import EngineMode
if TYPE_CHECKING:
    from vllm.config.unseen import DType
else:
    DType = Literal["auto", "fp8", "secret"]
SIZE = 4 * 1024

@config
class Inner:
    x: int = 1

@config
class Base:
    dtype: DType = "auto"

@config
class CacheConfig(Base):
    max_len: int | None = None
    batch: int = SIZE
    fraction: float = Field(default=0.9, gt=0, le=1)
    prefix: bool | None = None
    sizes: list[int] = Field(default_factory=list)
    pair: tuple[float, float] = (1.0, 2.0)
    mode: EngineMode = "fast"
    inner: Inner = Field(default_factory=Inner)
    either: dict[str, str] | str | None = None
''',
    "vllm/entrypoints/openai/cli_args.py": '''
@dataclass
class FrontendArgs:
    host: str | None = None
    port: PositiveInt = 8000
    """This flag is deprecated: use the other."""
    allowed: list[str] = field(default_factory=lambda: ["*"])
    middleware: list[str] = field(default_factory=list)
    quiet: bool = False
    @staticmethod
    def add_cli_args(parser):
        frontend_kwargs["allowed"]["type"] = json.loads
        del frontend_kwargs["allowed"]["nargs"]
        frontend_kwargs["middleware"]["action"] = "append"
        del frontend_kwargs["middleware"]["nargs"]

def make_arg_parser(parser):
    parser.add_argument("model_tag", nargs="?")
    parser.add_argument("--headless", action="store_true")
''',
    "vllm/envs.py": '''
environment_variables = {
    "VLLM_A": lambda: os.getenv("VLLM_A"),
    "B_C": lambda: os.environ.get("VLLM_OLD_B_C"),
}
''',
    "vllm/model_executor/layers/quantization/__init__.py": '''
QuantizationMethods = Literal["fp8", "old"]
QUANTIZATION_METHODS: list[str] = list(get_args(QuantizationMethods))
DEPRECATED_QUANTIZATION_METHODS = ["old"]
def get_quantization_config(name):
    from .fp8 import Fp8Config, OldConfig
    table: dict[str, type] = {"fp8": Fp8Config, "old": OldConfig}
''',
    "vllm/model_executor/layers/quantization/fp8.py": '''
class Fp8Config:
    @classmethod
    def get_min_capability(cls) -> int:
        return 75
class OldConfig(Fp8Config):
    pass
''',
}  # fmt: skip


@pytest.fixture
def release(tmp_path: Path) -> Path:
    """An unpacked distribution; padded, since a reader that finds next to nothing must not believe it."""
    root = tmp_path / "release"
    for name, text in RELEASE.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    more = "\n".join(f'    parser.add_argument("--more-{number}", type=int, default=0)' for number in range(40))
    with (root / "vllm/entrypoints/openai/cli_args.py").open("a") as file:
        file.write(more + "\n")
    return root


def test_every_way_of_defining_an_argument_is_read(release: Path) -> None:
    found = read_arguments(Folder(release))
    shown = {name: entry for name, entry in found.items() if not name.startswith("more-")}
    assert shown == {
        "model": {"kind": "str", "default": "m"},
        "kv-cache-dtype": {"kind": "str", "choices": ["auto", "fp8"], "default": "auto"},
        "max-len": {"kind": "human-int-auto"},
        "batch": {"kind": "human-int", "default": 4096},
        "fraction": {"kind": "float", "range": {"gt": 0, "le": 1}, "default": 0.9},
        "prefix": {"kind": "switch", "aliases": ["-p"], "default": None},
        "sizes": {"kind": "list", "element": "int", "default": []},
        "pair": {"kind": "list", "element": "float", "count": 2, "default": [1.0, 2.0]},
        "mode": {"kind": "str", "choices": ["fast", "slow"], "default": "fast"},
        "inner": {"kind": "json", "computed": True},
        "either": {"kind": "json-or-str"},
        "format": {"kind": "str", "choices": ["a", "b"], "default": "a"},
        "old": {"kind": "true", "deprecated": True},
        "older": {"kind": "int", "deprecated": True, "removal": "0.12.0"},
        "first": {"kind": "str"},
        "second": {"kind": "int"},
        "conditional": {"kind": "list", "element": "int"},
        "host": {"kind": "str"},
        "port": {"kind": "int", "deprecated": True, "range": {"gt": 0}, "default": 8000},
        "allowed": {"kind": "json", "default": ["*"]},
        "middleware": {"kind": "str", "append": True, "default": []},
        "quiet": {"kind": "switch"},
        "headless": {"kind": "true"},
    }


def test_variables_and_methods_are_read(release: Path) -> None:
    assert read_variables(Folder(release)) == ("B_C", "VLLM_A", "VLLM_OLD_B_C")
    assert read_methods(Folder(release)) == {"fp8": {"capability": 75}, "old": {"capability": 75, "deprecated": True}}


def test_methods_that_a_loop_adds_and_one_by_platform(tmp_path: Path) -> None:
    """Online methods have one class; of a class by platform CUDA's counts, whose branch comes first."""
    folder = tmp_path / "vllm" / "model_executor" / "layers" / "quantization"
    folder.mkdir(parents=True)
    (folder / "__init__.py").write_text(
        """
from .base import Cuda, Online, Other, Stored
QUANTIZATION_METHODS = ["stored", "short", "chosen"]
def get_quantization_config(quantization):
    if platform.is_cuda():
        picked: type = Cuda
    else:
        picked = Other
    methods = {"stored": Stored, "chosen": picked}
    for shorthand in SHORTHANDS:
        methods.setdefault(shorthand, Online)
    return methods[quantization]
"""
    )
    classes = {"Cuda": 90, "Online": 75, "Other": 60, "Stored": 80}
    (folder / "base.py").write_text(
        "\n".join(f"class {name}:\n    def get_min_capability(cls):\n        return {n}" for name, n in classes.items())
    )
    for package in (tmp_path / "vllm", tmp_path / "vllm" / "model_executor", folder.parent):
        (package / "__init__.py").write_text("")
    found = read_methods(Folder(tmp_path))
    assert found == {"chosen": {"capability": 90}, "short": {"capability": 75}, "stored": {"capability": 80}}


def test_source_that_is_laid_out_anew_is_refused(release: Path) -> None:
    (release / "vllm/entrypoints/openai/cli_args.py").unlink()
    with pytest.raises(NoArguments, match="arguments found"):
        read_arguments(Folder(release))
    (release / "vllm/engine/arg_utils.py").unlink()
    with pytest.raises(NoArguments, match="not in the release"):
        read_arguments(Folder(release))


@pytest.mark.parametrize(
    "expression", ["1 << 10**9", "9**9**9", "open('x').read()", "[x for x in y if z]", "a.b.c", "f()", "{**a}", "-'x'"]
)
def test_what_would_have_to_run_is_not_resolved(expression: str, tmp_path: Path) -> None:
    (tmp_path / "m.py").write_text(f"x = {expression}\ny = y\n")
    source = Source(Folder(tmp_path))
    module = source.module("m")
    assert module is not None
    with pytest.raises(Unresolved):
        source.value(module, module.names["x"])
    with pytest.raises(Unresolved):
        source.value(module, module.names["y"])  # names itself


def test_sglang_annotations_and_calls_are_read(tmp_path: Path) -> None:
    path = tmp_path / "sglang/srt/server_args.py"
    path.parent.mkdir(parents=True)
    calls = "\n".join(f'        parser.add_argument("--more-{number}", type=int)' for number in range(50))
    path.write_text(f"""
class ServerArgs:
    host: A[str, "The host."] = "127.0.0.1"
    sizes: A[Optional[list[int]], Arg(help="x", aliases=["--alias"])] = None
    mode: A[Literal["a", "b"], Arg(help="x")] = "a"
    hidden: A[int, Arg(no_cli=True)] = 1
    flag: A[bool, "x"] = False

    @staticmethod
    def add_cli_args(parser):
        parser.add_argument("--tensor-parallel-size", "--tp-size", type=int, default=1)
        parser.add_argument("--enable-old", action=DeprecatedAction, new_flag="--new", help="NOTE: --enable-old is deprecated.")
{calls}
ServerArgs = rebuilt(ServerArgs)
""")
    found = {name: entry for name, entry in read_sglang(Folder(tmp_path)).items() if not name.startswith("more-")}
    assert found == {
        "host": {"kind": "str", "default": "127.0.0.1"},
        "sizes": {"kind": "list", "element": "int", "aliases": ["--alias"]},
        "mode": {"kind": "str", "choices": ["a", "b"], "default": "a"},
        "flag": {"kind": "true"},
        "tensor-parallel-size": {"kind": "int", "aliases": ["--tp-size"], "default": 1},
        "enable-old": {"kind": "true", "deprecated": True},
    }


def test_the_command_adds_a_release_and_says_what_changed(
    release: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(update, "_FOLDER", tmp_path)
    assert update.main(["vllm", "0.1.0", "--from", str(release)]) == 0
    assert "vllm 0.1.0: 63 flags, 3 variables, 2 methods, 68 changes" in capsys.readouterr().out
    (release / "vllm/config/modes.py").write_text('EngineMode = Literal["fast", "medium"]\n')
    assert update.main(["vllm", "0.2.0", "--from", str(release), "--check"]) == 1
    assert update.main(["vllm", "0.2.0", "--from", str(release)]) == 0
    document: dict[str, Any] = json.loads((tmp_path / "vllm_flags.json").read_text())
    assert document["releases"] == ["0.1.0", "0.2.0"]
    assert document["flags"]["mode"] == [
        {"kind": "str", "choices": ["fast", "slow"], "default": "fast", "until": "0.2.0"},
        {"since": "0.2.0", "kind": "str", "choices": ["fast", "medium"], "default": "fast"},
    ]
    assert update.main(["vllm", "all", "--from", str(release), "--check"]) == 1  # 0.1.0 was another source
    assert update.main(["vllm", "0.2.0", "--from", str(release), "--check"]) == 0
    assert update.main(["vllm", "0.3.0", "--from", str(tmp_path / "release/vllm")]) == 2
    with pytest.raises(SystemExit):
        update.main(["vllm", "latest"])
