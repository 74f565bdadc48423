"""Command lines of a container, read without running anything: what starts which program with which words.

``command`` and ``args`` are joined as the kubelet joins them, ``$(NAME)`` is expanded from the container's environment,
and scripts given to a shell are interpreted as far as they can be (``planner.engines.shell``).
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterator, Sequence

from planner.documents.node import Node
from planner.engines.config import CommandLine, Word
from planner.engines.pieces import KNOWN, UNKNOWN, Field, Piece, Script, text_of, to_word, unexpanded_in
from planner.engines.variables import Variables, expand_references
from planner.engines.wrappers import program_in, shell_call
from planner.record import NamedTuple
from planner.workloads.workload import Arg, Container

#: More elements than this are not looked at; Linux takes about as many arguments (ARG_MAX, 2 MiB) of real length.
_MOST_WORDS = 20_000


class Start(NamedTuple):
    """One program start. ``words[0]`` is the program, wrappers such as ``exec`` and ``env`` already taken off.

    ``certain``: no condition that cannot be told decides whether it is reached. ``environment``: variables that the
    script itself sets for it; ``removed``: those that it takes away; ``sourced``: what may set any other (a file that is read
    into the shell and not among the inputs). ``whole``: the word that held a whole command line in one element. ``entrypoint``: the
    words are arguments of the image's own entrypoint, and no program stands before them. ``background``: the script goes on
    while it runs (``&``).
    """

    words: tuple[Field, ...]
    certain: bool = True
    environment: tuple[tuple[str, Field], ...] = ()
    shell: bool = False
    whole: Field | None = None
    entrypoint: bool = False
    background: bool = False
    removed: tuple[str, ...] = ()
    sourced: str = ""

    @property
    def texts(self) -> list[str]:
        """The words as text."""
        return [text_of(field) for field in self.words]

    def command_line(self, variables: Variables, first: int = 0) -> CommandLine:
        """The words from ``first`` on with their places, and the references in them that nothing expands."""
        words: list[Word] = []
        unexpanded: list[tuple[Word, str, str]] = []
        for field in self.words[first:]:
            word = to_word(field)
            notes = dict.fromkeys(unexpanded_in(field) + variables.left_over(field, self.shell))
            if notes and word.known:
                word = word._replace(known=False, reason=next(iter(notes))[1])
            words.append(word)
            unexpanded.extend((word, variable, reason) for variable, reason in notes)
        whole = to_word(self.whole) if self.whole is not None else None
        return CommandLine(tuple(words), tuple(unexpanded), whole, self.shell)


class Starts(NamedTuple):
    """All program starts of a container, in the order in which a reader meets them.

    ``files``: texts that a script writes itself (``cat > PATH <<EOF``), by absolute path. ``complete`` is False where a
    bound cut the reading short.
    """

    starts: tuple[Start, ...]
    variables: Variables
    files: dict[str, Field]
    complete: bool = True


def command_lines(container: Container) -> tuple[CommandLine, ...]:
    """Every program start in a container, the program being the first word; only the arguments where the image's own
    entrypoint runs."""
    found = program_starts(container)
    return tuple(start.command_line(found.variables) for start in found.starts)


def program_starts(container: Container) -> Starts:
    """Every program start in a container. Never raises and never runs anything."""
    from planner.engines.image import sets_no_variables

    image = container.image.value if container.image else ""
    variables = Variables(container, image_known=sets_no_variables(image))
    command = _expanded(container.command, "command", variables)
    args = _expanded(container.args, "args", variables)
    words = command + args
    if not words:
        return Starts((Start((), entrypoint=True),), variables, {})
    files = Files(container)
    whole: Field | None = None
    if not _runs_shell(words):
        words, whole = _split_whole(words, has_program=bool(command))
    if not command:
        words = _as_script(words) or words
    texts = [text_of(field) for field in words]
    program = program_in(texts)
    name = texts[program.start] if program.start < len(texts) else ""
    if _runs_shell(words[program.start :]) or files.script(name) is not None:
        from planner.engines.shell import Interpreter

        interpreter = Interpreter(variables, files)
        interpreter.run_arguments(words)
        starts = tuple(start._replace(whole=whole) for start in interpreter.starts)
        return Starts(starts, variables, interpreter.written, interpreter.complete)
    assigned = tuple(_assignment(words[index]) for index in program.assignments)
    start = Start(tuple(words[program.start :]), environment=assigned, whole=whole, entrypoint=not command)
    return Starts((start,) if start.words or not command else (), variables, {})


def _expanded(arguments: tuple[Arg, ...] | None, source: str, variables: Variables) -> list[Field]:
    return [
        [Piece(argument.text, UNKNOWN, argument.node, 0, source, argument.unknown)]
        if argument.unknown
        else expand_references(argument.text, argument.node, source, variables)
        for argument in (arguments or ())[:_MOST_WORDS]
    ]


def _assignment(field: Field) -> tuple[str, Field]:
    """``NAME=value`` as name and value."""
    name, _, _ = text_of(field).partition("=")
    script = Script(field)
    return name, script.cut(len(name) + 1, len(script.text))


def _runs_shell(words: Sequence[Field]) -> bool:
    if not words:
        return False
    texts = [text_of(field) for field in words[:64]]
    return shell_call(texts[program_in(texts).start :]) is not None


def _as_script(words: list[Field]) -> list[Field] | None:
    """Arguments that only make sense for an entrypoint that is a shell: ``["-c", "cd /app && …"]``, ``["a && b"]``;
    None for others."""
    first = text_of(words[0]) if words else ""
    node = words[0][0].node if words and words[0] else None
    shell = [Piece("sh", KNOWN, node, 0, "args")]
    if re.fullmatch(r"-[eulx]*c", first) and len(words) > 1:
        return [shell, *words]
    if not first.startswith("-") and ("\n" in first.strip() or "&&" in first or "; " in first):
        return [shell, [Piece("-c", KNOWN, node, 0, "args")], *words]
    return None


# -- a command line in one element -------------------------------------------------------------------------------------

_FLAG_AND_VALUE = r"\s*--?[A-Za-z][\w.-]*(?:[ \t\r\n]+\S|=(?:[^\s'\"{\[$]|\$\(\w+\))\S*\s+--?[A-Za-z])"
_WORD_AND_FLAG = r"(?s)\s*[^\s'\"{\[-]\S*\s(?:.*\s)?--?[A-Za-z]"
_ENGINE_AND_WORD = r"\s*(?:vllm|serve|python3?|sglang)[ \t\r\n]+\S"
_SEVERAL_WORDS = r"\s*[\w./+-]+\s+\S"
_QUOTED_WORD = r"(?s)(?:[^\s'\"\\]|'[^']*'|\"(?:[^\"\\]|\\.)*\"|\\.)+"
_QUOTED_PART = r"(?s)[^\s'\"\\]+|'([^']*)'|\"((?:[^\"\\]|\\.)*)\"|\\(.)"


def _split_whole(words: list[Field], *, has_program: bool) -> tuple[list[Field], Field | None]:
    """Splits elements that hold several words, as somebody meant who took them for a shell's; and the first of them."""
    result: list[Field] = []
    whole: Field | None = None
    after_flag = False
    for index, field in enumerate(words):
        text = text_of(field)
        if len(text) < 100_000 and _holds_several(text, index == 0 and has_program, after_flag):
            parts = list(split_words(field))
            whole = whole if whole is not None else field
        else:
            parts = [field]
        result.extend(parts)
        last = text_of(parts[-1]) if parts else ""
        after_flag = last.startswith("-") and "=" not in last
    return result, whole


def _holds_several(text: str, program: bool, after_flag: bool) -> bool:
    if " " not in text and "\n" not in text and "\t" not in text:
        return False
    if re.match(_FLAG_AND_VALUE, text):
        return True
    if program:
        return re.match(_SEVERAL_WORDS, text) is not None
    if re.match(_ENGINE_AND_WORD, text):
        return True
    return not after_flag and len(text) < 10_000 and re.match(_WORD_AND_FLAG, text) is not None


def split_words(field: Field) -> Iterator[Field]:
    """The words of a text between blanks, quotes taken off; nothing is expanded."""
    script = Script(field)
    quoted_part = re.compile(_QUOTED_PART)
    for word in re.finditer(_QUOTED_WORD, script.text):
        pieces: Field = []
        for part in quoted_part.finditer(script.text, word.start(), word.end()):
            group = next((number for number in (1, 2, 3) if part.group(number) is not None), 0)
            pieces.extend(script.cut(*part.span(group)))
        yield pieces


# -- files in the container --------------------------------------------------------------------------------------------


class Files:
    """The texts that the input shows to be mounted in the container."""

    def __init__(self, container: Container) -> None:
        self._container = container
        self._nodes: dict[str, Node] | None = None

    def text(self, path: str) -> Field | None:
        """The text of a mounted file, None where the input does not show it."""
        if not path or len(path) > 4096:
            return None
        if self._nodes is None:
            self._nodes = {
                posixpath.normpath(name): node for mount in self._container.mounts for name, node in mount.files
            }
        node = self._nodes.get(self.absolute(path))
        return None if node is None else [Piece(node.text, KNOWN, node, 0, "script")]

    def absolute(self, path: str) -> str:
        """A path as seen from the container's working directory."""
        return posixpath.normpath(posixpath.join(self._container.working_dir or "/", path))

    def script(self, program: str) -> Field | None:
        """The text of a mounted file that is run as a program and is a shell script."""
        if "/" not in program:
            return None
        field = self.text(program)
        return field if field is not None and is_shell_script(text_of(field), program) else None


def is_shell_script(text: str, path: str) -> bool:
    """Whether a text is a script for a shell, by its first line or its name."""
    first = text[:200].split("\n", 1)[0]
    if first.startswith("#!"):
        return re.search(r"\b(?:ba|da|a|z|k)?sh\b", first) is not None
    return not path.endswith((".py", ".pl", ".rb", ".js"))
