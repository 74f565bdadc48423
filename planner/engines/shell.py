"""A static reader of shell scripts: which programs a script starts, with which words. Nothing is ever executed.

What a script computes from the container's environment (defaults, arrays, ``"$@"``, arithmetic, tests) is followed; what
only the running container could tell (the output of commands, files, Secrets) stays unknown and is carried along as
such. Where a condition cannot be told every branch is read: the programs started in it are candidates that are not
certain, and variables that differ afterwards are unknown. All work is bounded.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable, Iterator, Sequence

from planner.engines import shell_syntax as syntax
from planner.engines.command import Files, Start, is_shell_script
from planner.engines.pieces import KNOWN, UNKNOWN, Field, Piece, Script, is_known, text_of
from planner.engines.shell_arithmetic import evaluate, glob_matches
from planner.engines.shell_syntax import (
    AndOr,
    Arithmetic,
    ArithmeticCommand,
    Assignment,
    Background,
    Case,
    Command,
    Condition,
    Decoded,
    For,
    Function,
    Group,
    If,
    Literal,
    Parameter,
    Parser,
    Part,
    Pipeline,
    Redirect,
    Simple,
    Substitution,
    While,
    WordNode,
)
from planner.engines.shell_values import (
    DEPENDS,
    Array,
    Fields,
    Unknowable,
    Unset,
    Value,
    is_filled,
    join_values,
    repeat_value,
)
from planner.engines.variables import Variables
from planner.engines.wrappers import ShellCall, program_in, shell_call

# The exit status of a command. ORDINARY: of a program that is not run here; scripts are written to work, so it is taken
# to succeed in ``a && b`` and is open in ``if a``. UNSURE: of a test whose operands are not known.
FALSE, TRUE, UNSURE, ORDINARY = 0, 1, 2, 3

_MOST_WORK = 1_500_000  # abstract steps of one container
_MOST_CHARACTERS = 131_072  # of one value: Linux passes no longer string to a program
_LONGEST_SCRIPT = 1_048_576
_MOST_STARTS = 500
_MOST_TURNS = 64  # of a loop
_DEEPEST = 80  # nested commands, calls and scripts together


class _BoundReachedError(Exception):
    """The bound on work or depth is reached; what has been found until then stands."""


_INTEGER = re.compile(r"\s*[+-]?[0-9]{1,18}\s*")
_UPPER_NAME = re.compile(r"[A-Z_][A-Z0-9_]*")
_GLOB = re.compile(r"[*?\[]")
_RANGE = re.compile(r"\{(-?\d{1,6})\.\.(-?\d{1,6})\}")


class Interpreter:
    """Reads what a container starts. ``starts`` are the programs found, ``written`` the files that scripts write, and
    ``complete`` tells whether no bound was reached."""

    def __init__(self, variables: Variables, files: Files) -> None:
        self.starts: list[Start] = []
        self.written: dict[str, Field] = {}
        self.complete = True
        self._outer = variables
        self._files = files
        self._work = _MOST_WORK
        self._depth = 0
        self._uncertain = 0
        self._background = False
        self._may_have_left = False  # an ``exec`` in a branch that may be taken
        self._values: dict[str, Value] = {}
        self._positional: Value = Array([])
        self._zero: Field = []
        self._exported: dict[str, None] = {}
        self._exports_all = False  # set -a
        self._functions: dict[str, tuple[Command, Script]] = {}
        self._journals: list[dict[str, Value | None]] = []
        self._stop = ""  # exec, exit, return, break or continue
        self._sourced = ""  # a file that was read into the shell and that the input does not show

    def run_arguments(self, words: Sequence[Field]) -> None:
        """Reads an argument vector as the container runtime starts it."""
        with self._bounded():
            self._program(list(words), {}, None, [])

    def run_script(self, pieces: Field) -> None:
        """Reads a script."""
        with self._bounded():
            self._script(pieces)

    @contextlib.contextmanager
    def _bounded(self) -> Iterator[None]:
        try:
            yield
        except (_BoundReachedError, RecursionError):
            self.complete = False

    def _spend(self, amount: int) -> None:
        self._work -= amount
        if self._work < 0:
            raise _BoundReachedError

    # -- scripts and control flow --------------------------------------------------------------------------------------

    def _script(self, pieces: Field) -> int:
        """Reads a script in the current shell; ``exit`` and ``return`` end it."""
        script = Script([_as_script_text(piece) for piece in pieces])
        if len(script.text) > _LONGEST_SCRIPT:
            self.complete = False
            return ORDINARY
        self._spend(len(script.text) // 64 + 20)
        parser = Parser(script)
        commands = parser.program()
        self._spend(2 * parser.steps)
        self.complete &= parser.complete
        status = self._commands(commands, script)
        self._took("return")
        return status

    def _commands(self, commands: Sequence[Command], script: Script) -> int:
        status = TRUE
        for command in commands:
            status = self._command(command, script)
            if self._stop:
                break
        return status

    def _inner(self, pieces: Field) -> int:
        """A script within the script (eval, source)."""
        self._depth += 1
        if self._depth > _DEEPEST:
            raise _BoundReachedError
        status = self._script(pieces)
        self._depth -= 1
        return status

    def _command(self, command: Command, script: Script) -> int:
        self._spend(10)
        self._depth += 1
        if self._depth > _DEEPEST:
            raise _BoundReachedError
        try:
            return self._dispatch(command, script)
        finally:
            self._depth -= 1

    def _dispatch(self, command: Command, script: Script) -> int:
        if isinstance(command, Simple):
            return self._simple(command, script)
        if isinstance(command, AndOr):
            return self._and_or(command, script)
        if isinstance(command, If):
            return self._if(command, script)
        if isinstance(command, Pipeline):
            return self._pipeline(command, script)
        if isinstance(command, Group):
            if not command.subshell:
                return self._commands(command.body, script)
            return self._apart(lambda: self._commands(command.body, script))
        if isinstance(command, Background):
            outer, self._background = self._background, True
            self._apart(lambda: self._command(command.command, script))
            self._background = outer
            return TRUE
        if isinstance(command, For):
            return self._for(command, script)
        if isinstance(command, While):
            return self._while(command, script)
        if isinstance(command, Case):
            return self._case(command, script)
        if isinstance(command, Function):
            self._functions[command.name] = (command.body, script)
            return TRUE
        if isinstance(command, ArithmeticCommand):
            value = self._arithmetic(script, command.inner_start, command.inner_end)
            return UNSURE if value is None else TRUE if value else FALSE
        return self._condition(command, script)

    def _apart(self, run: Callable[[], int]) -> int:
        """Runs in a subshell: what it sets is gone afterwards, and it cannot end the script."""
        journal: dict[str, Value | None] = {}
        self._journals.append(journal)
        outer_stop, self._stop = self._stop, ""
        sourced = self._sourced
        status = run()
        self._stop, self._sourced = outer_stop, sourced
        self._journals.pop()
        self._restore(journal)
        return status

    def _branches(self, bodies: Sequence[Callable[[], int] | None]) -> int:
        """Reads alternatives of which it cannot be told which one runs (None: an empty one), and joins what they set."""
        results: list[dict[str, Value | None]] = []
        stops: list[str] = []
        self._uncertain += 1
        for body in bodies:
            journal: dict[str, Value | None] = {}
            self._journals.append(journal)
            before = len(self.starts)
            if body is not None:
                body()
            stop, self._stop = self._stop, ""
            self._journals.pop()
            changes = {name: self._raw(name) for name in journal}
            self._restore(journal)
            if stop in ("exec", "exit"):
                stops.append(stop)
                self._may_have_left |= len(self.starts) > before and stop == "exec"
            else:
                results.append(changes)
        self._uncertain -= 1
        if not results:
            self._stop = "exec" if "exec" in stops else "exit"
            return UNSURE
        names = dict.fromkeys(name for changes in results for name in changes)
        for name in names:
            base = self._raw(name)
            joined = self._or_outer(name, results[0].get(name, base))
            for changes in results[1:]:
                joined = join_values(joined, self._or_outer(name, changes.get(name, base)))
            self._set(name, joined)
        return UNSURE

    def _or_outer(self, name: str, value: Value | None) -> Value:
        return self._outer_value(name) if value is None else value

    def _repeat(self, run: Callable[[], int]) -> None:
        """Reads the body of a loop of which it cannot be told how often it runs, none included."""
        journal: dict[str, Value | None] = {}
        self._journals.append(journal)
        self._branches([run, None])
        self._journals.pop()
        for name, old in journal.items():
            if self._journals:
                self._journals[-1].setdefault(name, old)
            self._set(name, repeat_value(name, self._or_outer(name, old), self._or_outer(name, self._raw(name))))

    def _maybe(self, command: Command, script: Script) -> None:
        self._branches([lambda: self._command(command, script), None])

    def _and_or(self, node: AndOr, script: Script) -> int:
        status = TRUE
        for operator, command in node.items:
            if self._stop:
                break
            if not operator:
                status = self._command(command, script)
            elif operator == "&&":
                if status == UNSURE:
                    self._maybe(command, script)
                elif status != FALSE:
                    status = self._command(command, script)
            elif status == FALSE:
                status = self._command(command, script)
            elif status != TRUE:
                self._maybe(command, script)
        return status

    def _pipeline(self, node: Pipeline, script: Script) -> int:
        if len(node.commands) == 1:
            status = self._command(node.commands[0], script)
        else:
            status = ORDINARY
            for command in node.commands:
                self._apart(lambda command=command: self._command(command, script))  # type: ignore[misc]
        if node.negated:
            return {TRUE: FALSE, FALSE: TRUE}.get(status, UNSURE)
        return status

    def _if(self, node: If, script: Script) -> int:
        alternatives: list[Callable[[], int] | None] = []
        for condition, body in node.branches:
            status = self._commands(condition, script)
            if self._stop:
                return ORDINARY
            if status == FALSE:
                continue
            alternatives.append(lambda body=body: self._commands(body, script))  # type: ignore[misc]
            if status == TRUE:
                break
        else:
            alternatives.append(
                None if node.otherwise is None else lambda: self._commands(node.otherwise or (), script)
            )
        return self._choose(alternatives)

    def _choose(self, alternatives: Sequence[Callable[[], int] | None]) -> int:
        if len(alternatives) != 1:
            return self._branches(alternatives) if alternatives else TRUE
        only = alternatives[0]
        return TRUE if only is None else only()

    def _case(self, node: Case, script: Script) -> int:
        subject = self._single(node.word, script) if node.word is not None else []
        alternatives: list[Callable[[], int] | None] = []
        for patterns, body in node.items:
            matches = [self._matches(subject, pattern, script) for pattern in patterns]
            if not any(match is not False for match in matches):
                continue
            alternatives.append(lambda body=body: self._commands(body, script))  # type: ignore[misc]
            if any(match is True for match in matches):
                break
        else:
            alternatives.append(None)
        return self._choose(alternatives)

    def _matches(self, subject: Field, pattern: WordNode, script: Script) -> bool | None:
        """Whether a pattern of ``case`` or ``[[ == ]]`` fits; None if that cannot be told."""
        field = self._single(pattern, script)
        text = text_of(field)
        has_glob = any(
            isinstance(part, Literal) and not part.quoted and _GLOB.search(script.text, part.start, part.end)
            for part in pattern.parts
        )
        if has_glob and text == "*":
            return True
        if not is_known(field) or not is_known(subject):
            return None
        value = text_of(subject)
        return glob_matches(text, value) if has_glob else text == value

    def _for(self, node: For, script: Script) -> int:
        if not node.name:
            self._arithmetic(script, *node.arithmetic)
            self._repeat(lambda: self._commands(node.body, script))
            return ORDINARY
        words: list[Field] = []
        if node.words is None:
            positional = self._positional
            words = list(positional.items) if isinstance(positional, Array) else [self._unknown("$@", "", script, 0)]
        for word in node.words or ():
            words.extend(self._sequence(word, script) or self._expand(word, script))
        if len(words) <= _MOST_TURNS and all(map(is_known, words)):
            for word_value in words:
                self._set(node.name, word_value)
                self._commands(node.body, script)
                self._took("continue")
                if self._stop:
                    break
            self._took("break")
            return ORDINARY

        def once() -> int:
            self._set(node.name, Unknowable("the list of a loop cannot be told"))
            return self._commands(node.body, script)

        self._repeat(once)
        return ORDINARY

    def _took(self, stop: str) -> None:
        """Ends what ``break``, ``continue`` or ``return`` asked for."""
        if self._stop == stop:
            self._stop = ""

    def _sequence(self, word: WordNode, script: Script) -> list[Field] | None:
        """``{0..7}``."""
        match = _RANGE.fullmatch(script.text, word.start, word.end)
        if not match:
            return None
        first, last = int(match.group(1)), int(match.group(2))
        if abs(last - first) > _MOST_TURNS:
            return None
        step = 1 if last >= first else -1
        return [[self._at(str(number), script, word.start)] for number in range(first, last + step, step)]

    def _while(self, node: While, script: Script) -> int:
        endless = self._is_endless(node, script)
        journal: dict[str, Value | None] = {}
        self._journals.append(journal)
        finished = False
        for _ in range(1 if endless else _MOST_TURNS):
            status = self._commands(node.condition, script)
            if node.until:
                status = {TRUE: FALSE, FALSE: TRUE}.get(status, status)
            if self._stop:
                finished = True
                break
            if status == FALSE:
                finished = True
                break
            if status != TRUE:
                self._repeat(lambda: self._commands(node.body, script))
                finished = True
                break
            self._commands(node.body, script)
            self._took("continue")
            if self._stop:
                finished = True
                self._took("break")
                break
        self._journals.pop()
        for name, old in journal.items():
            if self._journals:
                self._journals[-1].setdefault(name, old)
            if not finished:
                self._put(name, Unknowable("a loop sets it"))
        return ORDINARY

    def _is_endless(self, node: While, script: Script) -> bool:
        """``while true`` restarts what it runs; one turn tells all."""
        if len(node.condition) != 1:
            return False
        command = node.condition[0]
        if not isinstance(command, Simple) or len(command.words) != 1 or not isinstance(command.words[0], WordNode):
            return False
        word = command.words[0]
        return script.text[word.start : word.end] in ("true", ":", "false")

    def _source(self, what: str) -> None:
        """Notes what may set variables unseen; a file that only sets paths gives way to any other."""
        if not self._sourced or _sets_paths_only(self._sourced):
            self._sourced = what

    # -- variables -----------------------------------------------------------------------------------------------------

    def _raw(self, name: str) -> Value | None:
        return self._positional if name == "@" else self._values.get(name)

    def _put(self, name: str, value: Value | None) -> None:
        if name == "@":
            self._positional = value if value is not None else Array([])
        elif value is None:
            self._values.pop(name, None)
        else:
            self._values[name] = value

    def _set(self, name: str, value: Value | None) -> None:
        """Sets a variable (``@``: the positional parameters) and notes what it was, for the branch that this is in."""
        if self._journals and name not in self._journals[-1]:
            self._journals[-1][name] = self._raw(name)
        if isinstance(value, list):
            length = sum(len(piece.text) for piece in value)
            self._spend(length // 64 + len(value))
            if length > _MOST_CHARACTERS or len(value) > 5_000:
                value = Unknowable("its value is longer than Linux passes to a program")
        elif isinstance(value, Array):
            self._spend(len(value.items))
            if len(value.items) > 20_000:
                value = Unknowable("it has more elements than are looked at")
        self._put(name, value)

    def _restore(self, journal: dict[str, Value | None]) -> None:
        for name, old in journal.items():
            self._put(name, old)

    def _lookup(self, name: str) -> Value:
        """The value of a variable; ``Unset`` where it surely has none."""
        if name == "@":
            return self._positional
        value = self._values.get(name)
        return self._outer_value(name) if value is None else value

    def _outer_value(self, name: str) -> Value:
        """The value that a variable has from outside the script."""
        variable = self._outer.get(name)
        if variable is not None:
            if variable.value is None:
                return Unknowable(f"{name[:80]} is {variable.reason}")
            return [Piece(variable.value, KNOWN, variable.node, 0, f"env:{name}")]
        if self._sourced:
            return Unknowable(f"{self._sourced} may set {name[:80]}")
        reason = self._outer.missing_for_shell(name)
        return Unknowable(reason) if reason else Unset()

    def _at(self, text: str, script: Script, offset: int) -> Piece:
        """A text that the script computes, with the place that computes it."""
        place = script.cut(offset, offset)
        return place[0]._replace(text=text, state=KNOWN) if place else Piece(text, KNOWN, None, 0, "script")

    def _unknown(self, spelling: str, reason: str, script: Script, offset: int) -> Field:
        place = script.cut(offset, offset)
        piece = place[0] if place else Piece("", KNOWN, None, 0, "script")
        return [piece._replace(text=spelling, state=UNKNOWN, reason=reason or "it cannot be told here")]

    # -- expansion -----------------------------------------------------------------------------------------------------

    def _expand(self, word: WordNode, script: Script) -> list[Field]:
        """The words that one word expands to, with word splitting."""
        fields = Fields()
        self._parts(word.parts, script, fields, split=True)
        return fields.result()

    def _single(self, word: WordNode, script: Script) -> Field:
        """A word expanded without splitting (values of assignments, operands of ``case`` and ``[[``)."""
        fields = Fields()
        self._parts(word.parts, script, fields, split=False)
        return fields.current or []

    def _parts(
        self, parts: Sequence[Part], script: Script, fields: Fields, *, split: bool, argument: bool = False
    ) -> None:
        """Expands ``parts`` into ``fields``. ``argument``: inside an unquoted ``${NAME:-…}``, literal blanks part words."""
        for part in parts:
            if isinstance(part, Literal):
                pieces = script.cut(part.start, part.end)
                self._spend(1 + len(pieces))
                if argument and split and not part.quoted:
                    fields.add_split(pieces)
                elif part.end > part.start or part.quoted:
                    fields.add(pieces)
            elif isinstance(part, Parameter):
                self._spend(4)
                self._parameter(part, script, fields, split and not part.quoted)
            elif isinstance(part, Arithmetic):
                value = self._arithmetic(script, part.inner_start, part.inner_end)
                if value is None:
                    spelling = script.spelling(part.start, part.end)
                    fields.add(
                        self._unknown(spelling, "it is computed from values that are unknown", script, part.start)
                    )
                else:
                    fields.add([self._at(str(value), script, part.start)])
            elif isinstance(part, Substitution):
                self._substitution(part, script, fields, split and not part.quoted)
            elif isinstance(part, Decoded):
                fields.add([self._at(part.text, script, part.start)])
            else:
                spelling = script.spelling(part.start, part.end)
                reason = f"{spelling[:60]} is a placeholder that something else fills in"
                fields.add(self._unknown(spelling, reason, script, part.start))

    def _add(self, value: Field, script: Script, offset: int, fields: Fields, split: bool) -> None:
        self._spend(len(value) + sum(len(piece.text) for piece in value) // 32)
        if split:
            separator = self._values.get("IFS")
            if separator is not None and (not isinstance(separator, list) or text_of(separator) != " \t\n"):
                fields.add(self._unknown(text_of(value), "the script sets IFS", script, offset))
                return
            fields.add_split(value)
        elif value:
            fields.add(value)
        else:
            fields.add(script.cut(offset, offset))  # an empty word has a place, too

    def _parameter(self, part: Parameter, script: Script, fields: Fields, split: bool) -> None:
        spelling = script.spelling(part.start, part.end)
        name = part.name
        if part.indirect:
            target = self._lookup(name)
            if part.operator or part.subscript or not isinstance(target, list) or not is_known(target):
                fields.add(self._unknown(spelling, "an indirect reference that cannot be told", script, part.start))
                return
            name = text_of(target)
            if not re.fullmatch(r"[A-Za-z_]\w{0,199}", name, re.ASCII):
                fields.add(self._unknown(spelling, "an indirect reference that cannot be told", script, part.start))
                return
        value = self._parameter_value(name, part)
        if part.length:
            self._length(value, spelling, part, script, fields)
            return
        if isinstance(value, Array):
            self._elements(value, spelling, part, script, fields, split)
            return
        operator = part.operator
        if operator and operator.lstrip(":") in ("-", "=", "+", "?"):
            self._default(value, operator, name, spelling, part, script, fields, split)
            return
        if isinstance(value, Unknowable):
            fields.add(self._unknown(spelling, value.reason, script, part.start))
            return
        text = [] if isinstance(value, Unset) else value
        if operator:
            changed = self._transformed(text, operator, part, script)
            if changed is None:
                fields.add(self._unknown(spelling, "this expansion is not followed", script, part.start))
                return
            text = changed
        if len(text) == 1 and text[0].state == UNKNOWN and not text[0].variable:
            # People look for an unknown value where it is used; the reason tells where it comes from.
            text = self._unknown(spelling, f"{text[0].text[:60]}: {text[0].reason}", script, part.start)
        self._add(text, script, part.start, fields, split)

    def _parameter_value(self, name: str, part: Parameter) -> Value:
        if name in ("@", "*"):
            return self._positional
        if name.isdecimal():
            return self._positional_at(int(name[:6]))
        if name == "#":
            positional = self._positional
            if not isinstance(positional, Array) or not all(map(is_known, positional.items)):
                return Unknowable("the number of arguments cannot be told")
            return [Piece(str(len(positional.items)), KNOWN, None, 0, "script")]
        if name in ("?", "$", "!", "-"):
            return Unknowable(f"${name} is known only in the running container")
        value = self._lookup(name)
        if part.subscript in ("@", "*"):
            if isinstance(value, Unset):
                return Array([])
            return value if isinstance(value, Array | Unknowable) else Array([value])
        if isinstance(value, Array):
            return self._element(value, part.subscript or "0")
        if part.subscript and part.subscript != "0" and not isinstance(value, Unset):
            return Unknowable("an element of something that is no array here")
        return value

    def _positional_at(self, index: int) -> Value:
        if index == 0:
            return self._zero
        positional = self._positional
        if not isinstance(positional, Array):
            return positional
        before = positional.items[:index]
        if len(before) < index:
            return Unset() if all(map(is_known, before)) else Unknowable("the number of arguments cannot be told")
        return before[-1] if all(map(is_known, before[:-1])) else Unknowable("the number of arguments cannot be told")

    def _element(self, value: Array, subscript: str) -> Value:
        if not re.fullmatch(r"-?[0-9]{1,6}", subscript):
            return Unknowable("an element whose index is computed")
        index = int(subscript)
        if -len(value.items) <= index < len(value.items):
            return value.items[index]
        return Unset()

    def _length(self, value: Value | None, spelling: str, part: Parameter, script: Script, fields: Fields) -> None:
        number = None
        if isinstance(value, Array):
            if all(map(is_known, value.items)):
                number = len(value.items)
        elif isinstance(value, list):
            number = len(text_of(value)) if is_known(value) else None
        elif isinstance(value, Unset):
            number = 0
        if number is None:
            fields.add(self._unknown(spelling, "the length of something unknown", script, part.start))
        else:
            fields.add([self._at(str(number), script, part.start)])

    def _elements(
        self, value: Array, spelling: str, part: Parameter, script: Script, fields: Fields, split: bool
    ) -> None:
        items = value.items
        star = part.name == "*" or part.subscript == "*"
        operator = part.operator
        if operator == ":":
            bounds = self._slice(part, script)
            if bounds is None or not all(map(is_known, items)):
                fields.add(self._unknown(spelling, "a slice that cannot be told", script, part.start))
                return
            start, length = bounds
            # ``${@:1}`` counts from one, since ``$0`` stands before the parameters.
            start = max(start - 1, 0) if part.name in ("@", "*") else start
            start = start if start >= 0 else max(len(items) + start, 0)
            items = items[start:] if length is None else items[start : start + max(length, 0)]
        elif operator.lstrip(":") in ("-", "=", "?", "+") and operator:
            filled = bool(items)
            if filled == operator.endswith("+"):
                self._parts(part.argument, script, fields, split=split, argument=split)
                return
            if operator.endswith("+"):
                return
        elif operator:
            fields.add(self._unknown(spelling, "this expansion is not followed", script, part.start))
            return
        self._spend(len(items) + 1)
        if star and not split and not items:
            fields.add(script.cut(part.start, part.start))
        for index, item in enumerate(items):
            if index:
                if star and not split:
                    fields.add([self._at(" ", script, part.start)])
                else:
                    fields.flush()
            self._add(item, script, part.start, fields, split)

    def _slice(self, part: Parameter, script: Script) -> tuple[int, int | None] | None:
        inner = Fields()
        self._parts(part.argument, script, inner, split=False)
        field = inner.current or []
        numbers = text_of(field).split(":")
        if not is_known(field) or len(numbers) > 2 or not all(_INTEGER.fullmatch(number) for number in numbers):
            return None
        return int(numbers[0]), int(numbers[1]) if len(numbers) == 2 else None

    def _default(
        self,
        value: Value,
        operator: str,
        name: str,
        spelling: str,
        part: Parameter,
        script: Script,
        fields: Fields,
        split: bool,
    ) -> None:
        """``${NAME:-word}`` and its relatives."""
        filled = is_filled(value, colon=operator.startswith(":"))
        if filled is None:
            reason = value.reason if isinstance(value, Unknowable) else DEPENDS
            fields.add(self._unknown(spelling, reason, script, part.start))
            return
        kind = operator[-1]
        if kind == "+":
            if filled:
                self._parts(part.argument, script, fields, split=split, argument=split)
            elif not split:
                fields.add(script.cut(part.start, part.start))
            return
        if filled or kind == "?":
            self._add(value if isinstance(value, list) else [], script, part.start, fields, split)
            return
        if kind == "=":
            inner = Fields()
            self._parts(part.argument, script, inner, split=False)
            assigned = inner.current or []
            if name.isidentifier():
                self._set(name, assigned)
            self._add(assigned, script, part.start, fields, split)
            return
        if not part.argument and not split:
            fields.add(script.cut(part.start, part.start))
        self._parts(part.argument, script, fields, split=split, argument=split)

    def _transformed(self, value: Field, operator: str, part: Parameter, script: Script) -> Field | None:
        """``${NAME#…}``, ``${NAME%…}``, ``${NAME/x/y}``, ``${NAME:1:2}``, ``${NAME^^}`` of a known value."""
        text = text_of(value)
        if not is_known(value) or len(text) > 4096:
            return None
        if operator in ("^^", ",,", "^", ","):
            upper = operator[0] == "^"
            changed = text if len(operator) == 2 else text[:1]
            changed = changed.upper() if upper else changed.lower()
            changed += "" if len(operator) == 2 else text[1:]
            return [value[0]._replace(text=changed)] if value else []
        if operator == ":":
            bounds = self._slice(part, script)
            if bounds is None:
                return None
            start, length = bounds
            start = start if start >= 0 else max(len(text) + start, 0)
            end = len(text) if length is None else start + length if length >= 0 else len(text) + length
            return Script(value).cut(min(start, len(text)), max(min(end, len(text)), 0)) if end > start else []
        inner = Fields()
        self._parts(part.argument, script, inner, split=False)
        argument = inner.current or []
        pattern = text_of(argument)
        if not is_known(argument):
            return None
        if operator in ("#", "##", "%", "%%"):
            bounds = _trimmed(text, pattern, operator)
            return None if bounds is None else Script(value).cut(*bounds) if bounds[1] > bounds[0] else []
        if operator in ("/", "//"):
            old, _, new = pattern.partition("/")
            if not old or _GLOB.search(old) or "\\" in old:
                return None
            replaced = text.replace(old, new, -1 if operator == "//" else 1)
            if len(replaced) > _MOST_CHARACTERS:
                return None
            return [value[0]._replace(text=replaced)] if value else []
        return None

    def _substitution(self, part: Substitution, script: Script, fields: Fields, split: bool) -> None:
        """``$(…)``: resolved for ``echo`` and ``printf`` of known words, unknown otherwise."""
        self._spend(6)
        spelling = script.spelling(part.start, part.end)
        name = script.text[part.inner_start : part.inner_end] if part.inner_end - part.inner_start < 200 else ""
        if script.text.startswith("$(", part.start) and _UPPER_NAME.fullmatch(name):
            reason = f"nothing defines {name} for this container, so the shell runs a command of the name {name}"
            field = self._unknown(spelling, reason, script, part.start)
            fields.add([field[0]._replace(variable=name)])
            return
        inner = script.text[part.inner_start : part.inner_end]
        head = inner.lstrip()[:7]
        if head.startswith(("echo ", "printf ")) and len(inner) <= 2_000:
            output = self._output(Script(script.cut(part.inner_start, part.inner_end)))
            if output is not None:
                self._add(output, script, part.start, fields, split)
                return
        fields.add(
            self._unknown(spelling, "the output of a command is known only in the container", script, part.start)
        )

    def _output(self, script: Script) -> Field | None:
        parser = Parser(script)
        commands = parser.program()
        self._spend(10 + 2 * parser.steps)
        if len(commands) != 1 or not isinstance(commands[0], Simple):
            return None
        command = commands[0]
        if command.redirects or command.assignments:
            return None
        self._depth += 1
        if self._depth > _DEEPEST:
            raise _BoundReachedError
        words: list[Field] = []
        for word in command.words:
            if isinstance(word, Assignment):
                return None
            words.extend(self._expand(word, script))
        self._depth -= 1
        printed = _printed(words)
        while printed and printed[-1].state == KNOWN and printed[-1].text == "\n":
            printed.pop()
        return printed

    # -- arithmetic and tests ------------------------------------------------------------------------------------------

    def _arithmetic(self, script: Script, start: int, end: int) -> int | None:
        """The value of an arithmetic expression, None where it cannot be told; assignments in it are made."""
        self._spend(10)
        if end - start > 2_000:
            return None
        text = script.text[start:end]
        if any(char in text for char in "$`\"'\\"):
            inner = Script(script.cut(start, end))
            fields = Fields()
            self._parts(Parser(inner).double_quoted(), inner, fields, split=False)
            field = fields.current or []
            text = text_of(field)
            if not is_known(field):
                for name in re.findall(r"([A-Za-z_]\w*)\s*(?:\+\+|--|[-+*/%]?=(?!=))", text, re.ASCII):
                    self._set(name, Unknowable("it is computed from values that are unknown"))
                return None
        step = re.fullmatch(r"\s*(?:(\+\+|--)\s*)?([A-Za-z_]\w*)\s*(\+\+|--)?\s*", text, re.ASCII)
        if step and (step.group(1) or step.group(3)):
            old = self._integer(step.group(2))
            sign = step.group(1) or step.group(3)
            new = None if old is None else old + (1 if sign == "++" else -1)
            self._set_integer(step.group(2), new, script, start)
            return old if step.group(3) else new
        assignment = re.fullmatch(r"\s*([A-Za-z_]\w*)\s*([-+*/%]?)=(?!=)(.*)", text, re.ASCII | re.DOTALL)
        if assignment:
            name, operator, right = assignment.groups()
            value = evaluate(f"{name} {operator} ({right})" if operator else right, self._integer)
            self._set_integer(name, value, script, start)
            return value
        changed = (
            re.findall(r"([A-Za-z_]\w*)\s*(?:\+\+|--|[-+*/%]?=(?!=))", text, re.ASCII)
            if "=" in text or "++" in text or "--" in text
            else []
        )
        for name in changed:
            self._set(name, Unknowable("it is set inside an expression that is not followed"))
        return None if changed else evaluate(text, self._integer)

    def _integer(self, name: str) -> int | None:
        value = self._lookup(name)
        if isinstance(value, Unset):
            return 0
        if isinstance(value, list) and is_known(value):
            text = text_of(value)
            if not text:
                return 0
            return int(text) if _INTEGER.fullmatch(text) else None
        return None

    def _set_integer(self, name: str, value: int | None, script: Script, offset: int) -> None:
        if value is None:
            self._set(name, Unknowable("it is computed from values that are unknown"))
        else:
            self._set(name, [self._at(str(value), script, offset)])

    def _condition(self, node: Condition, script: Script) -> int:
        """``[[ … ]]``, with ``&&``, ``||`` and ``!`` between its tests (parentheses are not followed)."""
        if any(word.operator in ("(", ")") for word in node.words):
            return UNSURE
        result = FALSE
        for alternative in _split_at(node.words, "||"):
            joined = TRUE
            for test in _split_at(alternative, "&&"):
                status = self._double_bracket(test, script)
                joined = FALSE if FALSE in (joined, status) else UNSURE if UNSURE in (joined, status) else TRUE
            result = TRUE if TRUE in (result, joined) else UNSURE if UNSURE in (result, joined) else FALSE
        return result

    def _double_bracket(self, words: list[WordNode], script: Script) -> int:
        negate = False
        while words and script.text[words[0].start : words[0].end] == "!":
            negate, words = not negate, words[1:]
        if (
            len(words) == 3
            and script.text[words[1].start : words[1].end] in ("==", "=", "!=")
            and not words[1].operator
        ):
            match = self._matches(self._single(words[0], script), words[2], script)
            status = UNSURE if match is None else TRUE if match else FALSE
            negate ^= script.text[words[1].start : words[1].end] == "!="
        elif any(word.operator for word in words):
            return UNSURE
        else:
            status = self._test([self._single(word, script) for word in words])
        return {TRUE: FALSE, FALSE: TRUE}.get(status, status) if negate else status

    def _test(self, operands: list[Field]) -> int:
        """The tests of ``[`` and ``test``."""
        self._spend(len(operands))
        texts = [text_of(operand) for operand in operands]
        for joiner, decisive in (("-o", TRUE), ("-a", FALSE)):
            if joiner in texts[1:-1] and len(texts) > 3:
                index = texts.index(joiner, 1)
                both = (self._test(operands[:index]), self._test(operands[index + 1 :]) if len(texts) < 50 else UNSURE)
                return decisive if decisive in both else UNSURE if UNSURE in both else 1 - decisive
        negate = False
        while len(operands) > 1 and texts[0] == "!":
            negate, operands, texts = not negate, operands[1:], texts[1:]
        status = self._plain_test(operands, texts)
        return {TRUE: FALSE, FALSE: TRUE}.get(status, status) if negate else status

    def _plain_test(self, operands: list[Field], texts: list[str]) -> int:
        if not operands:
            return FALSE
        if len(operands) == 1:
            return _status(is_filled(operands[0], colon=True))
        if len(operands) == 2:
            operator = texts[0]
            if operator in ("-n", "-z"):
                filled = is_filled(operands[1], colon=True)
                return UNSURE if filled is None else TRUE if filled == (operator == "-n") else FALSE
            if operator == "-v" and is_known(operands[1]):
                value = self._lookup(texts[1])
                return UNSURE if isinstance(value, Unknowable) else FALSE if isinstance(value, Unset) else TRUE
            if operator in ("-f", "-e", "-r", "-s", "-x") and is_known(operands[1]):
                return TRUE if self._file(texts[1]) is not None else UNSURE
            return UNSURE
        if len(operands) != 3 or not is_known(operands[0]) or not is_known(operands[2]):
            return UNSURE
        left, operator, right = texts
        if operator in ("=", "=="):
            return TRUE if left == right else FALSE
        if operator == "!=":
            return TRUE if left != right else FALSE
        if not _INTEGER.fullmatch(left) or not _INTEGER.fullmatch(right):
            return UNSURE
        comparison = {"-eq": "==", "-ne": "!=", "-gt": ">", "-ge": ">=", "-lt": "<", "-le": "<="}.get(operator)
        result = evaluate(f"({left}) {comparison} ({right})", self._integer) if comparison else None
        return UNSURE if result is None else TRUE if result else FALSE

    # -- commands ------------------------------------------------------------------------------------------------------

    def _simple(self, node: Simple, script: Script) -> int:
        first = node.words[0] if node.words else None
        if first is None:
            computed = False
            for assignment in node.assignments:
                self._assign(assignment, script)
                computed |= assignment.value is not None and any(
                    isinstance(part, Substitution) and not isinstance(part, Arithmetic)
                    for part in assignment.value.parts
                )
            return ORDINARY if computed else TRUE
        if isinstance(first, WordNode) and script.text[first.start : first.end] in syntax.DECLARATIONS:
            return self._declare(node, script)
        words: list[Field] = []
        for word in node.words:
            if isinstance(word, WordNode):
                words.extend(self._expand(word, script))
                self._spend(2)
        prefix = {assignment.name: self._value_of(assignment, script) for assignment in node.assignments}
        if not words:
            return ORDINARY
        return self._program(words, prefix, script, node.redirects)

    def _value_of(self, assignment: Assignment, script: Script) -> Value:
        if assignment.elements is not None:
            items: list[Field] = []
            for element in assignment.elements:
                if _is_keyed(element, script):
                    return Unknowable("an array with keys")
                items.extend(self._expand(element, script))
            return Array(items)
        return self._single(assignment.value, script) if assignment.value is not None else []

    def _assign(self, assignment: Assignment, script: Script) -> None:
        name = assignment.name
        value = self._value_of(assignment, script)
        if self._exports_all:
            self._exported[name] = None
        if assignment.subscript:
            self._set(name, self._with_element(name, assignment.subscript, value))
            return
        if not assignment.append:
            self._set(name, value)
            return
        old = self._lookup(name)
        if isinstance(old, Unknowable) or isinstance(value, Unknowable):
            self._set(name, old if isinstance(old, Unknowable) else value)
        elif isinstance(value, Array):
            before = old.items if isinstance(old, Array) else [old] if isinstance(old, list) and old else []
            self._set(name, Array([*before, *value.items]))
        elif isinstance(old, Array):
            self._set(name, Unknowable("text is appended to an array"))
        elif isinstance(value, list):
            self._set(name, [*(old if isinstance(old, list) else []), *value])

    def _with_element(self, name: str, subscript: str, value: Value) -> Value:
        old = self._lookup(name)
        if isinstance(old, Array) and isinstance(value, list) and re.fullmatch(r"[0-9]{1,6}", subscript):
            index = int(subscript)
            if index < len(old.items):
                return Array([*old.items[:index], value, *old.items[index + 1 :]])
            if index == len(old.items):
                return Array([*old.items, value])
        return Unknowable("an element of an array is set by a key that is not followed")

    def _declare(self, node: Simple, script: Script) -> int:
        first = node.words[0]
        assert isinstance(first, WordNode)
        export = script.text[first.start : first.end] == "export"
        for word in node.words[1:]:
            if isinstance(word, Assignment):
                self._assign(word, script)
                name = word.name
            else:
                field = self._single(word, script)
                name = text_of(field)
                if export and not is_known(field):
                    self._source(f"what {name[:60]} stands for")
                    continue
                if name.startswith("-"):
                    export = export or "x" in name
                    if "A" in name:
                        continue
            if export and name:
                self._exported[name] = None
        return TRUE

    def _program(
        self, words: list[Field], prefix: dict[str, Value], script: Script | None, redirects: Sequence[Redirect]
    ) -> int:
        """Runs a command: a builtin, a shell with a script, a function, or some program."""
        texts = [text_of(word) for word in words]
        found = program_in(texts)
        replaced = texts[0] == "exec"
        for index in found.assignments:
            name, _, value = texts[index].partition("=")
            source = Script(words[index])
            prefix[name] = source.cut(len(name) + 1, len(source.text)) if value else []
        words, texts = words[found.start :], texts[found.start :]
        if not words:
            return ORDINARY
        status = self._run(words, texts, prefix, script, redirects, wrapped=found.start > 0)
        if replaced and not self._stop:
            self._stop = "exec"
        return status

    def _run(
        self,
        words: list[Field],
        texts: list[str],
        prefix: dict[str, Value],
        script: Script | None,
        redirects: Sequence[Redirect],
        wrapped: bool,
    ) -> int:
        name = texts[0]
        if script is not None and not wrapped and name in self._functions:
            return self._call(name, words)
        if script is not None:
            builtin = _BUILTINS.get(name)
            if builtin is not None:
                return builtin(self, words, texts, script, redirects)
            if name in _IGNORED:
                return ORDINARY
        call = shell_call(texts)
        if call is not None:
            return self._shell(call, words, texts, prefix, script, redirects)
        text = self._file(name) if "/" in name else None
        if text is not None and is_shell_script(text_of(text), name):
            return self._child(text, words[0], words[1:], prefix)
        self._record(words, prefix)
        return ORDINARY

    def _record(self, words: list[Field], prefix: dict[str, Value]) -> None:
        if len(self.starts) >= _MOST_STARTS:
            self.complete = False
            return
        self._spend(50 + len(words))
        environment: dict[str, Field] = {}
        removed: list[str] = []
        if len(self._values) + len(prefix) <= 2_000:
            self._spend(len(self._values) // 4)
            # What comes from outside is in the environment already, and stays there with its new value.
            passed = {
                name: value for name, value in self._values.items() if name in self._exported or name in self._outer
            }
            for name, value in {**passed, **prefix}.items():
                if isinstance(value, list):
                    environment[name] = value
                elif isinstance(value, Unknowable):
                    environment[name] = [Piece(f"${name}", UNKNOWN, None, 0, "script", value.reason)]
            removed = [
                name for name, value in self._values.items() if isinstance(value, Unset) and name not in environment
            ]
        certain = self._uncertain == 0 and not self._may_have_left
        self.starts.append(
            Start(
                tuple(words),
                certain,
                tuple(environment.items()),
                shell=True,
                background=self._background,
                removed=tuple(removed),
                sourced="" if _sets_paths_only(self._sourced) else self._sourced,
            )
        )

    def _file(self, path: str) -> Field | None:
        """The text of a file that the input shows, or that the script has written."""
        written = self.written.get(self._files.absolute(path)) if self.written else None
        return written if written is not None else self._files.text(path)

    def _shell(
        self,
        call: ShellCall,
        words: list[Field],
        texts: list[str],
        prefix: dict[str, Value],
        script: Script | None,
        redirects: Sequence[Redirect],
    ) -> int:
        """``sh -c SCRIPT``, ``sh FILE``, ``sh <<EOF``."""
        rest = words[call.rest :]
        if call.script >= 0:
            return self._child(words[call.script], rest[0] if rest else words[0], rest[1:], prefix)
        if call.file >= 0:
            text = self._file(texts[call.file]) if is_known(words[call.file]) else None
            if text is not None:
                return self._child(text, words[call.file], rest, prefix)
            self._record(words, prefix)
            return ORDINARY
        heredoc = next((redirect for redirect in redirects if redirect.operator.startswith("<<")), None)
        if heredoc is not None and script is not None:
            return self._child(self._heredoc(heredoc, script), words[0], [], prefix)
        self._record(words, prefix)
        return ORDINARY

    def _child(self, text: Field, zero: Field, positional: list[Field], prefix: dict[str, Value]) -> int:
        """A script in a shell of its own: it sees what is exported."""
        outer = (self._values, self._positional, self._zero, self._functions, self._journals, self._sourced)
        outer_exported = dict(self._exported)
        self._spend(len(self._exported) + len(self._values) // 4)
        self._values = {
            name: value for name, value in self._values.items() if name in self._exported or name in self._outer
        }
        self._values.update(prefix)
        self._exported.update(dict.fromkeys(prefix))
        self._positional, self._zero = Array(list(positional)), zero
        self._functions, self._journals = {}, []
        outer_stop, self._stop = self._stop, ""
        self._depth += 1
        try:
            if self._depth > _DEEPEST:
                raise _BoundReachedError
            return self._script(text)
        finally:
            self._depth -= 1
            self._stop = outer_stop
            self._values, self._positional, self._zero, self._functions, self._journals, self._sourced = outer
            self._exported = outer_exported

    def _call(self, name: str, words: list[Field]) -> int:
        body, script = self._functions[name]
        positional = self._positional
        self._set("@", Array(words[1:]))
        status = self._command(body, script)
        self._took("return")
        self._set("@", positional)
        return status

    def _heredoc(self, redirect: Redirect, script: Script) -> Field:
        if redirect.operator == "<<<":
            return self._single(redirect.target, script)
        body = script.cut(redirect.body_start, redirect.body_end) if redirect.body_end > redirect.body_start else []
        if redirect.quoted or not body:
            return body
        inner = Script(body)
        fields = Fields()
        self._parts(Parser(inner).double_quoted(), inner, fields, split=False)
        return fields.current or []

    def _write(self, path: Field, text: Field, *, append: bool) -> None:
        name = text_of(path)
        if not is_known(path) or not name or name.startswith("/dev/") or len(self.written) >= 100:
            return
        name = self._files.absolute(name)
        self._spend(sum(len(piece.text) for piece in text) // 64 + len(text))
        before = self.written.get(name, []) if append else []
        if len(before) + len(text) <= 5_000:
            self.written[name] = [*before, *text]

    # -- builtins ------------------------------------------------------------------------------------------------------

    def _do_print(self, words: list[Field], texts: list[str], script: Script, redirects: Sequence[Redirect]) -> int:
        for redirect in redirects:
            if redirect.operator in (">", ">>", ">|"):
                printed = _printed(words)
                if printed is None:
                    printed = self._unknown(" ".join(texts[1:]), "printed by a command", script, redirect.target.start)
                self._write(self._single(redirect.target, script), printed, append=redirect.operator == ">>")
        return TRUE

    def _do_cat(self, words: list[Field], texts: list[str], script: Script, redirects: Sequence[Redirect]) -> int:
        """``cat > PATH <<EOF`` and ``tee PATH <<EOF`` write a file."""
        heredoc = next((redirect for redirect in redirects if redirect.operator.startswith("<<")), None)
        if heredoc is None:
            return ORDINARY
        body = self._heredoc(heredoc, script)
        for redirect in redirects:
            if redirect.operator in (">", ">>", ">|"):
                self._write(self._single(redirect.target, script), body, append=redirect.operator == ">>")
        if texts[0] == "tee":
            for word, text in zip(words[1:10], texts[1:10], strict=True):
                if not text.startswith("-"):
                    self._write(word, body, append="-a" in texts)
        return ORDINARY

    def _do_set(self, words: list[Field], texts: list[str], script: Script, redirects: Sequence[Redirect]) -> int:
        at = 1
        while at < len(texts) and len(texts[at]) > 1 and texts[at][0] in "-+" and texts[at] != "--":
            if "a" in texts[at].rstrip("o")[1:] or (
                texts[at].endswith("o") and texts[at + 1 : at + 2] == ["allexport"]
            ):
                self._exports_all = texts[at][0] == "-"
            at += 2 if texts[at].endswith("o") else 1
        if at < len(texts):
            self._set("@", Array(words[at + 1 :] if texts[at] == "--" else words[at:]))
        return TRUE

    def _do_shift(self, words: list[Field], texts: list[str], script: Script, redirects: Sequence[Redirect]) -> int:
        positional = self._positional
        count = int(texts[1]) if len(texts) > 1 and re.fullmatch(r"[0-9]{1,5}", texts[1]) else 1
        if isinstance(positional, Array):
            if all(map(is_known, positional.items[:count])):
                self._set("@", Array(positional.items[count:]))
            else:
                self._set("@", Unknowable("the number of arguments cannot be told"))
        return TRUE

    def _do_unset(self, words: list[Field], texts: list[str], script: Script, redirects: Sequence[Redirect]) -> int:
        for name in texts[1:]:
            if not name.startswith("-"):
                self._set(name, Unset())
                self._exported.pop(name, None)
        return TRUE

    def _do_read(self, words: list[Field], texts: list[str], script: Script, redirects: Sequence[Redirect]) -> int:
        for name in texts[1:]:
            if name.isidentifier():
                self._set(name, Unknowable(f"the script reads {name[:80]} while it runs"))
        return ORDINARY

    def _do_printf(self, words: list[Field], texts: list[str], script: Script, redirects: Sequence[Redirect]) -> int:
        if len(texts) > 2 and texts[1] == "-v":
            printed = _printed([words[0], *words[3:]])
            self._set(texts[2], printed if printed is not None else Unknowable("printed by a command"))
            return TRUE
        return self._do_print(words, texts, script, redirects)

    def _do_true(self, words: list[Field], texts: list[str], script: Script, redirects: Sequence[Redirect]) -> int:
        return TRUE

    def _do_false(self, words: list[Field], texts: list[str], script: Script, redirects: Sequence[Redirect]) -> int:
        return FALSE

    def _do_exit(self, words: list[Field], texts: list[str], script: Script, redirects: Sequence[Redirect]) -> int:
        self._stop = texts[0]
        return TRUE if texts[1:2] in ([], ["0"]) else FALSE if _INTEGER.fullmatch(texts[1]) else UNSURE

    def _do_test(self, words: list[Field], texts: list[str], script: Script, redirects: Sequence[Redirect]) -> int:
        operands = words[1:]
        if texts[0] == "[" and texts[-1] == "]":
            operands = operands[:-1]
        return self._test(operands)

    def _do_eval(self, words: list[Field], texts: list[str], script: Script, redirects: Sequence[Redirect]) -> int:
        text: Field = []
        for word in words[1:]:
            if text:
                text.append(Piece(" ", KNOWN, None, 0, "script"))
            text.extend(word)
        if any(piece.state == UNKNOWN and piece.text.lstrip().startswith(("$(", "`")) for piece in text[:1]):
            self._source("a command whose output the script evaluates")
            return ORDINARY
        return self._inner(text)

    def _do_source(self, words: list[Field], texts: list[str], script: Script, redirects: Sequence[Redirect]) -> int:
        if len(words) < 2:
            return ORDINARY
        text = self._file(texts[1]) if is_known(words[1]) else None
        if text is None:
            self._source(texts[1][:80])
            return ORDINARY
        return self._inner(text)

    def _do_let(self, words: list[Field], texts: list[str], script: Script, redirects: Sequence[Redirect]) -> int:
        status = TRUE
        for word in words[1:]:
            inner = Script(word)
            value = self._arithmetic(inner, 0, len(inner.text))
            status = UNSURE if value is None else TRUE if value else FALSE
        return status


_Builtin = Callable[[Interpreter, list[Field], list[str], Script, Sequence[Redirect]], int]
_BUILTINS: dict[str, _Builtin] = {
    "echo": Interpreter._do_print,
    "printf": Interpreter._do_printf,
    "cat": Interpreter._do_cat,
    "tee": Interpreter._do_cat,
    "set": Interpreter._do_set,
    "shift": Interpreter._do_shift,
    "unset": Interpreter._do_unset,
    "read": Interpreter._do_read,
    "mapfile": Interpreter._do_read,
    "readarray": Interpreter._do_read,
    "getopts": Interpreter._do_read,
    "true": Interpreter._do_true,
    ":": Interpreter._do_true,
    "false": Interpreter._do_false,
    "exit": Interpreter._do_exit,
    "return": Interpreter._do_exit,
    "break": Interpreter._do_exit,
    "continue": Interpreter._do_exit,
    "[": Interpreter._do_test,
    "test": Interpreter._do_test,
    "eval": Interpreter._do_eval,
    "source": Interpreter._do_source,
    ".": Interpreter._do_source,
    "let": Interpreter._do_let,
}
# Commands that start no program worth naming and set no variable.
_IGNORED_NAMES = (
    "cd pwd pushd popd trap wait sleep ulimit umask alias unalias type which hash kill jobs fg bg disown "
    "times shopt enable mkdir rm cp mv ln ls chmod chown touch grep sed awk cut tr sort uniq head tail wc "
    "date env printenv id whoami hostname uname curl wget nc ping getent apt apt-get apk yum dnf microdnf pip "
    "pip3 ldconfig nvidia-smi rocm-smi basename dirname seq find xargs du df free mount sysctl git tar unzip "
    "stat sync dd"
)
_IGNORED = frozenset(_IGNORED_NAMES.split())


#: Files that activate an installation (virtual environments, conda, oneAPI, Ascend's toolkit) or a login shell.
_PATH_FILES = ("activate", "conda.sh", "setvars.sh", "set_env.sh", "profile", ".profile", "bashrc", ".bashrc")


def _sets_paths_only(sourced: str) -> bool:
    """Whether a file that is read into the shell is one that sets paths, and nothing that an engine reads."""
    return sourced.rpartition("/")[2] in _PATH_FILES


def _as_script_text(piece: Piece) -> Piece:
    """A piece as part of a script: what stands in an argument is script text from here on."""
    return piece._replace(source="script") if piece.source in ("args", "command") else piece


def _status(filled: bool | None) -> int:
    return UNSURE if filled is None else TRUE if filled else FALSE


def _split_at(words: list[WordNode], operator: str) -> list[list[WordNode]]:
    parts: list[list[WordNode]] = [[]]
    for word in words:
        if word.operator == operator:
            parts.append([])
        else:
            parts[-1].append(word)
    return parts


def _is_keyed(element: WordNode, script: Script) -> bool:
    return script.text.startswith("[", element.start) and "]=" in script.text[element.start : element.start + 100]


def _printed(words: list[Field]) -> Field | None:
    """What ``echo`` and ``printf`` print, as far as it is followed."""
    if len(words) < 2:
        return []
    if text_of(words[0]) == "printf":
        form = text_of(words[1])
        if form in ("%s", "%s\\n", "%d", "%d\\n") and len(words) == 3:
            return list(words[2])
        return list(words[1]) if len(words) == 2 and "%" not in form and "\\" not in form else None
    at = 1
    while at < len(words) and text_of(words[at]) in ("-n", "-e", "-ne", "-en", "-E"):
        at += 1
    printed: Field = []
    for word in words[at:]:
        if printed:
            printed.append(Piece(" ", KNOWN, None, 0, "script"))
        printed.extend(word)
    return printed


def _trimmed(text: str, pattern: str, operator: str) -> tuple[int, int] | None:
    """The range that ``${NAME#pattern}`` and its relatives leave; None for patterns that are not followed."""
    stars = pattern.count("*")
    if "?" in pattern or "[" in pattern or "\\" in pattern or stars > 1:
        return None
    if stars == 0:
        if operator[0] == "#":
            return (len(pattern), len(text)) if text.startswith(pattern) else (0, len(text))
        return (0, len(text) - len(pattern)) if text.endswith(pattern) and pattern else (0, len(text))
    before, _, after = pattern.partition("*")
    if operator[0] == "#":
        if not text.startswith(before):
            return 0, len(text)
        found = text.rfind(after, len(before)) if operator == "##" else text.find(after, len(before))
        return (found + len(after), len(text)) if found >= 0 else (0, len(text))
    if not text.endswith(after):
        return 0, len(text)
    end = len(text) - len(after)
    found = text.find(before, 0, end) if operator == "%%" else text.rfind(before, 0, end)
    return (0, found) if found >= 0 else (0, len(text))
