"""The syntax of shell scripts: the practical subset of POSIX sh and bash that start scripts of containers use.

The reader is lenient: what a shell would refuse (a stray ``fi``, a quote that never closes, merge-conflict markers) is
skipped or taken to the end, so that the rest of a script can still be looked at. It runs in linear time, and nesting is
bounded by ``DEPTH``. Sources: POSIX.1-2017 chapter 2 (Shell Command Language) and the bash reference manual.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable

from planner.engines.pieces import Script

#: The deepest nesting of compound commands and of ``${…}`` that is read; deeper scripts are read up to there.
DEPTH = 40
#: The number of words, parts of words and redirections that are read of one script, about a second's worth.
LENGTH = 300_000


class Literal:
    """Characters that stand for themselves, ``start`` to ``end`` of the script."""

    __slots__ = ("end", "quoted", "start")

    def __init__(self, start: int, end: int, quoted: bool) -> None:
        self.start = start
        self.end = end
        self.quoted = quoted


class Decoded:
    """Characters that an escape stands for (``$'\\n'``)."""

    __slots__ = ("start", "text")

    def __init__(self, text: str, start: int) -> None:
        self.text = text
        self.start = start


class Parameter:
    """``$NAME`` and ``${NAME…}``. ``operator`` is empty or one of bash's (``:-``, ``%%``, ``/``, ``:`` for a slice)."""

    __slots__ = ("argument", "end", "indirect", "length", "name", "operator", "quoted", "start", "subscript")

    def __init__(self, name: str, start: int, end: int, quoted: bool) -> None:
        self.name = name
        self.start = start
        self.end = end
        self.quoted = quoted
        self.subscript = ""
        self.operator = ""
        self.argument: list[Part] = []
        self.length = False
        self.indirect = False


class Substitution:
    """``$(…)``, backquotes or ``<(…)``: the output of the commands from ``inner_start`` to ``inner_end``."""

    __slots__ = ("end", "inner_end", "inner_start", "quoted", "start")

    def __init__(self, start: int, end: int, inner_start: int, inner_end: int, quoted: bool) -> None:
        self.start = start
        self.end = end
        self.inner_start = inner_start
        self.inner_end = inner_end
        self.quoted = quoted


class Arithmetic(Substitution):
    """``$((…))``."""

    __slots__ = ()


class Opaque:
    """Something no shell can read as meant (``${section.name}``, ``<model>``): a placeholder."""

    __slots__ = ("end", "start")

    def __init__(self, start: int, end: int) -> None:
        self.start = start
        self.end = end


Part = Literal | Decoded | Parameter | Substitution | Opaque


class WordNode:
    """One word before expansion. ``operator`` marks the operators inside ``[[ … ]]``."""

    __slots__ = ("end", "operator", "parts", "start")

    def __init__(self, parts: list[Part], start: int, end: int, operator: str = "") -> None:
        self.parts = parts
        self.start = start
        self.end = end
        self.operator = operator


class Assignment:
    """``NAME=value``, ``NAME+=value``, ``NAME[i]=value`` or ``NAME=(…)``; exactly one of ``value`` and ``elements``."""

    __slots__ = ("append", "elements", "name", "start", "subscript", "value")

    def __init__(self, name: str, subscript: str, append: bool, start: int) -> None:
        self.name = name
        self.subscript = subscript
        self.append = append
        self.start = start
        self.value: WordNode | None = None
        self.elements: list[WordNode] | None = None


class Redirect:
    """A redirection; for ``<<`` the body is ``body_start`` to ``body_end`` of the script."""

    __slots__ = ("body_end", "body_start", "operator", "quoted", "target")

    def __init__(self, operator: str, target: WordNode) -> None:
        self.operator = operator
        self.target = target
        self.quoted = False
        self.body_start = 0
        self.body_end = 0


class Simple:
    """A simple command. ``words`` holds assignments too where the command is one of ``export``, ``local`` …"""

    __slots__ = ("assignments", "redirects", "words")

    def __init__(self) -> None:
        self.assignments: list[Assignment] = []
        self.words: list[WordNode | Assignment] = []
        self.redirects: list[Redirect] = []


class Pipeline:
    """Commands joined by ``|``, or one command with ``!``."""

    __slots__ = ("commands", "negated")

    def __init__(self, commands: list[Command], negated: bool) -> None:
        self.commands = commands
        self.negated = negated


class AndOr:
    """Commands joined by ``&&`` and ``||``: (operator, command); the first operator is empty."""

    __slots__ = ("items",)

    def __init__(self, items: list[tuple[str, Command]]) -> None:
        self.items = items


class Background:
    """A command that ends with ``&``."""

    __slots__ = ("command",)

    def __init__(self, command: Command) -> None:
        self.command = command


class If:
    """``if``: (condition, body) pairs and the ``else`` body."""

    __slots__ = ("branches", "otherwise")

    def __init__(self) -> None:
        self.branches: list[tuple[list[Command], list[Command]]] = []
        self.otherwise: list[Command] | None = None


class Case:
    """``case``: the word and its (patterns, body) pairs."""

    __slots__ = ("items", "word")

    def __init__(self, word: WordNode | None) -> None:
        self.word = word
        self.items: list[tuple[list[WordNode], list[Command]]] = []


class For:
    """``for NAME in WORDS``; ``words`` is None for the positional parameters, ``name`` empty for ``for ((…))``."""

    __slots__ = ("arithmetic", "body", "name", "words")

    def __init__(self, name: str) -> None:
        self.name = name
        self.words: list[WordNode] | None = None
        self.arithmetic = (0, 0)
        self.body: list[Command] = []


class While:
    """``while`` and ``until``."""

    __slots__ = ("body", "condition", "until")

    def __init__(self, condition: list[Command], body: list[Command], until: bool) -> None:
        self.condition = condition
        self.body = body
        self.until = until


class Group:
    """``{ …; }``, or ``( … )`` where ``subshell``."""

    __slots__ = ("body", "subshell")

    def __init__(self, body: list[Command], subshell: bool) -> None:
        self.body = body
        self.subshell = subshell


class Function:
    """``name() …``."""

    __slots__ = ("body", "name")

    def __init__(self, name: str, body: Command) -> None:
        self.name = name
        self.body = body


class ArithmeticCommand:
    """``((…))``."""

    __slots__ = ("inner_end", "inner_start")

    def __init__(self, inner_start: int, inner_end: int) -> None:
        self.inner_start = inner_start
        self.inner_end = inner_end


class Condition:
    """``[[ … ]]``."""

    __slots__ = ("words",)

    def __init__(self, words: list[WordNode]) -> None:
        self.words = words


Command = (
    Simple | Pipeline | AndOr | Background | If | Case | For | While | Group | Function | ArithmeticCommand | Condition
)


class TooLargeError(Exception):
    """The script nests deeper than ``DEPTH`` or is longer than ``LENGTH``."""


DECLARATIONS = frozenset({"export", "local", "declare", "typeset", "readonly"})
_LONGEST_PLACEHOLDER = 200
_RESERVED = frozenset({"then", "else", "elif", "fi", "do", "done", "esac", "}", "in"})
_ANSI_ESCAPES = {"n": "\n", "t": "\t", "r": "\r", "a": "\a", "b": "\b", "f": "\f", "v": "\v", "e": "\x1b", "E": "\x1b"}

_BLANK = re.compile(r"(?:[ \t\r]|\\\r?\n)+")
_RUN = re.compile(r"[^ \t\r\n'\"\\$`;&|<>()]+")
_DOUBLE_RUN = re.compile(r'[^"\\$`]+')
_ARGUMENT_RUN = re.compile(r"""[^}"'\\$`]+""")
_QUOTED_ARGUMENT_RUN = re.compile(r'[^}"\\$`]+')
_NAME = re.compile(r"[A-Za-z_]\w*", re.ASCII)
_PARAMETER = re.compile(r"[A-Za-z_]\w*|[0-9]+|[@*#?$!-]", re.ASCII)
_SUBSCRIPT = re.compile(r"\[([^\]\n]{0,200})\]")
_OPERATOR = re.compile(r":[-=?+]|[-=?+]|##?|%%?|//?[#%]?|\^\^?|,,?|@|:")
_ASSIGNMENT = re.compile(r"([A-Za-z_]\w*)(?:\[([^\]\n]{0,200})\])?(\+?=)", re.ASCII)
_REDIRECT = re.compile(r"&>>?|(?:[0-9]{1,4}|\{[A-Za-z_]\w*\})?(?:<<<|<<-?|<>|<&|<(?!\()|>>|>&|>\||>(?!\())", re.ASCII)
_ANGLE_PLACEHOLDER = re.compile(r"<[A-Za-z][\w.:/-]{1,80}>(?=[\s'\"/:;)]|$)", re.ASCII)
_KEYWORD = re.compile(r"(?:[a-z]+|[{}!]|\[\[)(?=[\s;&|()<>]|$)")
_FUNCTION_PARENS = re.compile(r"[ \t]*\([ \t]*\)")
_NESTING = re.compile(r"""[\\'"`()#\n]|\$\(|<<-?(?![<-])""")
_HEREDOC_WORD = re.compile(r"""[ \t]*(?:'([^'\n]*)'|"([^"\n]*)"|\\?([^\s'"\\;&|<>()]+))""")


class Parser:
    """Reads the text of a script once, from its start to its end."""

    def __init__(self, script: Script) -> None:
        self._text = script.text
        self._at = 0
        self._end = len(self._text)
        self._depth = 0
        self._heredocs: list[Redirect] = []
        self._unclosed = False  # a parenthesis before this place never closes
        #: what has been read, in words and parts of words
        self.steps = 0
        #: whether the end was reached
        self.complete = True

    def program(self) -> list[Command]:
        """All commands; where a bound is reached, those before that place."""
        commands: list[Command] = []
        try:
            self._list(frozenset(), commands)
        except TooLargeError:
            self.complete = False
        return commands

    def _step(self, count: int = 1) -> None:
        self.steps += count
        if self.steps > LENGTH:
            raise TooLargeError

    def double_quoted(self) -> list[Part]:
        """The parts of the text as between double quotes (arithmetic, a heredoc's body)."""
        parts: list[Part] = []
        with contextlib.suppress(TooLargeError):
            self._double(parts, "")
        return parts

    # -- between words -------------------------------------------------------------------------------------------------

    def _blanks(self) -> None:
        """Skips spaces, line continuations and a comment."""
        match = _BLANK.match(self._text, self._at)
        if match:
            self._at = match.end()
        if self._peek() == "#" and (self._at == 0 or match or self._text[self._at - 1] in "\n;&|()"):
            newline = self._text.find("\n", self._at)
            self._at = self._end if newline < 0 else newline

    def _peek(self) -> str:
        return self._text[self._at] if self._at < self._end else ""

    def _newline(self) -> None:
        """Goes past a line feed, and past the heredocs that begin after it."""
        self._at += 1
        for redirect in self._heredocs:
            self._heredoc_body(redirect)
        self._heredocs.clear()

    def _heredoc_body(self, redirect: Redirect) -> None:
        text, strip = self._text, redirect.operator == "<<-"
        redirect.body_start = self._at
        word = redirect.target
        delimiter = "".join(text[part.start : part.end] for part in word.parts if not isinstance(part, Decoded))
        while self._at < self._end:
            newline = text.find("\n", self._at)
            line_end = self._end if newline < 0 else newline
            line = text[self._at : line_end].rstrip("\r")
            redirect.body_end = self._at
            self._at = min(line_end + 1, self._end)
            if (line.lstrip("\t") if strip else line) == delimiter:
                return
        redirect.body_end = self._end

    def _separators(self) -> None:
        """Skips blanks, line feeds and single semicolons."""
        while True:
            self._blanks()
            char = self._peek()
            if char == "\n":
                self._newline()
            elif char == ";" and self._text[self._at : self._at + 2] not in (";;", ";&"):
                self._at += 1
            else:
                return

    def _newlines(self) -> None:
        self._blanks()
        while self._peek() == "\n":
            self._newline()
            self._blanks()

    def _keyword(self) -> str:
        """The reserved word or name at this place, not consumed; empty if none."""
        match = _KEYWORD.match(self._text, self._at)
        return match.group() if match else ""

    # -- commands ------------------------------------------------------------------------------------------------------

    def _list(self, stop: frozenset[str], commands: list[Command]) -> None:
        """Reads commands into ``commands`` up to one of ``stop`` (not consumed) or the end."""
        while True:
            self._separators()
            if self._at >= self._end:
                return
            keyword = self._keyword()
            if keyword in stop:
                return
            if keyword in _RESERVED:
                self._at += len(keyword)
                continue
            char = self._text[self._at]
            if char == ")":
                if ")" in stop:
                    return
                self._at += 1
                continue
            if self._text.startswith((";;", ";&"), self._at):
                if ";;" in stop:
                    return
                self._at += 2
                continue
            begin = self._at
            self._step(2)
            command = self._and_or()
            if self._peek() == "&" and self._text[self._at : self._at + 2] != "&&":
                self._at += 1
                command = Background(command) if command is not None else None
            if command is not None:
                commands.append(command)
            if self._at == begin:
                self._at += 1

    def _body(self, *stop: str) -> list[Command]:
        commands: list[Command] = []
        self._list(frozenset(stop), commands)
        return commands

    def _and_or(self) -> Command | None:
        first = self._pipeline()
        if first is None:
            return None
        items: list[tuple[str, Command]] = [("", first)]
        while True:
            self._blanks()
            operator = self._text[self._at : self._at + 2]
            if operator not in ("&&", "||"):
                break
            self._at += 2
            self._newlines()
            following = self._pipeline()
            if following is None:
                break
            self._step(2)
            items.append((operator, following))
        return first if len(items) == 1 else AndOr(items)

    def _pipeline(self) -> Command | None:
        negated = False
        self._blanks()
        while self._keyword() in ("!", "time"):
            keyword = self._keyword()
            negated ^= keyword == "!"
            self._at += len(keyword)
            self._blanks()
            if keyword == "time" and self._text.startswith("-p ", self._at):
                self._at += 3
                self._blanks()
        command = self._command()
        if command is None:
            return None
        commands = [command]
        while True:
            self._blanks()
            if self._peek() != "|" or self._text[self._at : self._at + 2] == "||":
                break
            self._at += 2 if self._text.startswith("|&", self._at) else 1
            self._newlines()
            following = self._command()
            if following is None:
                break
            self._step(2)
            commands.append(following)
        return command if len(commands) == 1 and not negated else Pipeline(commands, negated)

    def _command(self) -> Command | None:
        self._blanks()
        char = self._peek()
        if char == "(":
            return self._nested(self._parenthesis)
        keyword = self._keyword()
        if keyword in _RESERVED:
            return None
        reader = {
            "if": self._if,
            "case": self._case,
            "for": self._for,
            "select": self._for,
            "while": self._while,
            "until": self._while,
            "{": self._group,
            "[[": self._condition,
            "function": self._function,
        }.get(keyword)
        if reader is not None:
            return self._nested(reader)
        name = _NAME.match(self._text, self._at)
        if name:
            parens = _FUNCTION_PARENS.match(self._text, name.end())
            if parens:
                self._at = parens.end()
                return self._nested(lambda: self._function_body(name.group()))
        return self._simple()

    def _nested(self, reader: Callable[[], Command | None]) -> Command | None:
        self._step(4)
        self._depth += 1
        if self._depth > DEPTH:
            raise TooLargeError
        command = reader()
        self._depth -= 1
        # Redirections of a compound command change nothing that is looked at.
        while True:
            self._blanks()
            if not self._redirect([]):
                return command

    def _expect(self, word: str) -> None:
        self._separators()
        if self._keyword() == word:
            self._at += len(word)

    def _if(self) -> Command:
        node = If()
        keyword = "if"
        while keyword in ("if", "elif"):
            self._at += len(keyword)
            condition = self._body("then", "elif", "else", "fi")
            self._expect("then")
            node.branches.append((condition, self._body("elif", "else", "fi")))
            keyword = self._keyword()
        if keyword == "else":
            self._at += len(keyword)
            node.otherwise = self._body("fi")
        self._expect("fi")
        return node

    def _while(self) -> Command:
        keyword = self._keyword()
        self._at += len(keyword)
        condition = self._body("do", "done")
        self._expect("do")
        body = self._body("done")
        self._expect("done")
        return While(condition, body, keyword == "until")

    def _for(self) -> Command:
        self._at += len(self._keyword())
        self._blanks()
        node = For("")
        if self._text.startswith("((", self._at):
            end = self._parenthesis_end(self._at)
            node.arithmetic = (self._at + 2, max(end - 2, self._at + 2))
            self._at = end
        else:
            name = _NAME.match(self._text, self._at)
            if name:
                node.name = name.group()
                self._at = name.end()
            self._newlines()
            if self._keyword() == "in":
                self._at += 2
                node.words = self._words_to_separator()
        self._separators()
        if self._keyword() == "{":
            self._at += 1
            node.body = self._body("}")
            self._expect("}")
            return node
        self._expect("do")
        node.body = self._body("done")
        self._expect("done")
        return node

    def _words_to_separator(self) -> list[WordNode]:
        words: list[WordNode] = []
        while True:
            self._blanks()
            word = self._word() if self._peek() not in ("", "\n", ";", "&", "|", ")", "(") else None
            if word is None:
                return words
            words.append(word)

    def _case(self) -> Command:
        self._at += len("case")
        self._blanks()
        node = Case(self._word())
        self._newlines()
        if self._keyword() == "in":
            self._at += 2
        while True:
            self._separators()
            if self._at >= self._end:
                return node
            if self._keyword() == "esac":
                self._at += 4
                return node
            begin = self._at
            if self._peek() == "(":
                self._at += 1
            patterns: list[WordNode] = []
            while True:
                self._blanks()
                pattern = self._word()
                if pattern is not None:
                    patterns.append(pattern)
                self._blanks()
                if self._peek() != "|":
                    break
                self._at += 1
            if self._peek() == ")":
                self._at += 1
            body = self._body(";;", "esac")
            node.items.append((patterns, body))
            if self._text.startswith((";;&", ";;"), self._at):
                self._at += 3 if self._text.startswith(";;&", self._at) else 2
            elif self._text.startswith(";&", self._at):
                self._at += 2
            if self._at == begin:
                self._at += 1

    def _group(self) -> Command:
        self._at += 1
        body = self._body("}")
        self._expect("}")
        return Group(body, subshell=False)

    def _parenthesis(self) -> Command:
        if self._text.startswith("((", self._at) and not self._unclosed:
            end = self._parenthesis_end(self._at)
            if not self._unclosed and self._text.startswith("))", end - 2) and end - 2 >= self._at + 2:
                node = ArithmeticCommand(self._at + 2, end - 2)
                self._at = end
                return node
        self._at += 1
        body = self._body(")")
        if self._peek() == ")":
            self._at += 1
        return Group(body, subshell=True)

    def _function(self) -> Command | None:
        self._at += len("function")
        self._blanks()
        name = _NAME.match(self._text, self._at)
        if not name:
            return None
        self._at = name.end()
        parens = _FUNCTION_PARENS.match(self._text, self._at)
        if parens:
            self._at = parens.end()
        return self._function_body(name.group())

    def _function_body(self, name: str) -> Command | None:
        self._newlines()
        body = self._command()
        return None if body is None else Function(name, body)

    def _condition(self) -> Command:
        self._at += 2
        words: list[WordNode] = []
        while True:
            self._newlines()
            if self._at >= self._end:
                return Condition(words)
            if self._keyword() == "" and self._text.startswith("]]", self._at):
                self._at += 2
                return Condition(words)
            operator = self._text[self._at : self._at + 2]
            if operator not in ("&&", "||"):
                operator = operator[:1] if operator[:1] in ("(", ")", "<", ">") else ""
            if operator:
                words.append(WordNode([], self._at, self._at + len(operator), operator))
                self._at += len(operator)
                continue
            word = self._word()
            if word is None:
                if self._peek() in ";":  # no closing brackets on this line
                    return Condition(words)
                self._at += 1
                continue
            words.append(word)

    def _simple(self) -> Command | None:
        node = Simple()
        declaration = False
        while True:
            self._blanks()
            if self._redirect(node.redirects):
                continue
            char = self._peek()
            if char in ("", "\n", ";", "&", "|", ")"):
                break
            if char == "(":
                if not node.words and not node.assignments:
                    break
                self._at += 1  # no shell takes this
                continue
            assignment = self._assignment() if not node.words or declaration else None
            if assignment is not None:
                (node.words if declaration else node.assignments).append(assignment)
                continue
            word = self._word()
            if word is None:
                self._at += 1
                continue
            if not node.words:
                declaration = self._text[word.start : word.end] in DECLARATIONS
            node.words.append(word)
        return node if node.words or node.assignments or node.redirects else None

    def _assignment(self) -> Assignment | None:
        match = _ASSIGNMENT.match(self._text, self._at)
        if not match:
            return None
        node = Assignment(match.group(1), match.group(2) or "", match.group(3) == "+=", self._at)
        self._at = match.end()
        if self._peek() == "(":
            self._at += 1
            node.elements = self._elements()
        else:
            begin = self._at
            node.value = self._word() or WordNode([], begin, begin)
        return node

    def _elements(self) -> list[WordNode]:
        """The words of an array up to the closing parenthesis."""
        words: list[WordNode] = []
        while True:
            self._newlines()
            char = self._peek()
            if char == "":
                return words
            if char == ")":
                self._at += 1
                return words
            word = self._word()
            if word is None:
                self._at += 1
                continue
            words.append(word)

    def _redirect(self, redirects: list[Redirect]) -> bool:
        if self._peek() == "<" and _ANGLE_PLACEHOLDER.match(self._text, self._at):
            return False
        match = _REDIRECT.match(self._text, self._at)
        if not match:
            return False
        self._step(4)
        self._at = match.end()
        operator = match.group().lstrip("0123456789")
        operator = operator.partition("}")[2] if operator.startswith("{") else operator
        match_blank = _BLANK.match(self._text, self._at)
        if match_blank:
            self._at = match_blank.end()
        begin = self._at
        word = self._word() or WordNode([], begin, begin)
        redirect = Redirect(operator, word)
        if operator in ("<<", "<<-"):
            redirect.quoted = self._text[begin : begin + 1] in ("'", '"', "\\") or any(
                isinstance(part, Literal) and part.quoted for part in word.parts
            )
            self._heredocs.append(redirect)
        redirects.append(redirect)
        return True

    # -- words ---------------------------------------------------------------------------------------------------------

    def _word(self) -> WordNode | None:
        begin = self._at
        parts: list[Part] = []
        text = self._text
        self._step()
        while self._at < self._end:
            self._step()
            run = _RUN.match(text, self._at)
            if run:
                if "{{" in run.group() and self._brace_placeholder(run, parts):
                    continue
                parts.append(Literal(self._at, run.end(), False))
                self._at = run.end()
                continue
            char = text[self._at]
            if char == "'":
                self._single(parts)
            elif char == '"':
                self._at += 1
                self._double(parts, '"')
            elif char == "\\":
                self._escape(parts)
            elif char == "$":
                self._dollar(parts, False)
            elif char == "`":
                self._backquote(parts, False)
            elif char in "<>":
                if text.startswith("(", self._at + 1):
                    start, end = self._at, self._parenthesis_end(self._at + 1)
                    parts.append(Substitution(start, end, end, end, False))
                    self._at = end
                    continue
                placeholder = _ANGLE_PLACEHOLDER.match(text, self._at)
                if not placeholder:
                    break
                parts.append(Opaque(self._at, placeholder.end()))
                self._at = placeholder.end()
            else:
                break
        return WordNode(parts, begin, self._at) if self._at > begin and parts else None

    def _brace_placeholder(self, run: re.Match[str], parts: list[Part]) -> bool:
        """``{{ .Values.x }}`` outside quotes: one word for a template engine, several for a shell."""
        start = run.start() + run.group().index("{{")
        end = self._text.find("}}", start, start + _LONGEST_PLACEHOLDER)
        if end < 0 or "\n" in self._text[start:end]:
            return False
        if start > run.start():
            parts.append(Literal(run.start(), start, False))
        parts.append(Opaque(start, end + 2))
        self._at = end + 2
        return True

    def _single(self, parts: list[Part]) -> None:
        end = self._text.find("'", self._at + 1)
        end = self._end if end < 0 else end
        parts.append(Literal(self._at + 1, end, True))
        self._at = min(end + 1, self._end)

    def _escape(self, parts: list[Part]) -> None:
        following = self._text[self._at + 1 : self._at + 2]
        if following == "\n":
            self._at += 2
            parts.append(Literal(self._at, self._at, False))
        elif following == "\r" and self._text.startswith("\n", self._at + 2):
            self._at += 3
            parts.append(Literal(self._at, self._at, False))
        elif following:
            parts.append(Literal(self._at + 1, self._at + 2, True))
            self._at += 2
        else:
            parts.append(Literal(self._at, self._at + 1, False))
            self._at += 1

    def _double(self, parts: list[Part], close: str) -> None:
        """The inside of double quotes up to and past ``close`` (empty: to the end)."""
        text = self._text
        count = len(parts)
        while self._at < self._end:
            self._step()
            char = text[self._at]
            if char == '"':
                if close == '"':
                    if len(parts) == count:
                        parts.append(Literal(self._at, self._at, True))  # an empty word is a word
                    self._at += 1
                    return
                parts.append(Literal(self._at, self._at + 1, True))
                self._at += 1
                continue
            run = _DOUBLE_RUN.match(text, self._at)
            if run:
                parts.append(Literal(self._at, run.end(), True))
                self._at = run.end()
            elif char == "\\":
                following = text[self._at + 1 : self._at + 2]
                if following == "\n":
                    self._at += 2
                elif following and following in '$`"\\':
                    parts.append(Literal(self._at + 1, self._at + 2, True))
                    self._at += 2
                else:
                    parts.append(Literal(self._at, self._at + 1, True))
                    self._at += 1
            elif char == "$":
                self._dollar(parts, True)
            else:
                self._backquote(parts, True)

    def _backquote(self, parts: list[Part], quoted: bool) -> None:
        start = self._at
        at = start + 1
        while True:
            end = self._text.find("`", at)
            if end < 0:
                end = self._end
                break
            if self._text[end - 1] != "\\":
                break
            at = end + 1
        self._at = min(end + 1, self._end)
        parts.append(Substitution(start, self._at, start + 1, end, quoted))

    def _dollar(self, parts: list[Part], quoted: bool) -> None:
        text, start = self._text, self._at
        following = text[start + 1 : start + 2]
        if following == "(":
            end = self._parenthesis_end(start + 1)
            kind = Substitution
            inner_start, inner_end = start + 2, max(end - 1, start + 2)
            if text.startswith("((", start + 1) and text.startswith("))", end - 2) and end - 2 >= start + 3:
                kind = Arithmetic
                inner_start, inner_end = start + 3, end - 2
            parts.append(kind(start, end, inner_start, inner_end, quoted))
            self._at = end
        elif following == "{":
            self._braced(parts, quoted)
        elif following == "'" and not quoted:
            self._at += 1
            self._ansi(parts)
        elif following == '"' and not quoted:
            self._at += 2
            self._double(parts, '"')
        elif following == "$" and text.startswith("{", start + 2):
            # ``$${NAME}`` is how Flux' substitution is told to leave ``${NAME}`` alone.
            self._at += 1
            self._braced(parts, quoted)
        else:
            name = _NAME.match(text, start + 1)
            end = name.end() if name else start + 2
            if name or (following and following in "@*#?$!-0123456789"):
                parts.append(Parameter(text[start + 1 : end], start, end, quoted))
                self._at = end
            else:
                parts.append(Literal(start, start + 1, quoted))
                self._at = start + 1

    def _ansi(self, parts: list[Part]) -> None:
        """``$'…'`` with its escapes; the place is at the quote."""
        text, start = self._text, self._at + 1
        decoded: list[str] = []
        at = start
        while at < self._end and text[at] != "'":
            if text[at] == "\\" and at + 1 < self._end:
                decoded.append(_ANSI_ESCAPES.get(text[at + 1], text[at + 1]))
                at += 2
            else:
                decoded.append(text[at])
                at += 1
        parts.append(Decoded("".join(decoded), start))
        self._at = min(at + 1, self._end)

    def _braced(self, parts: list[Part], quoted: bool) -> None:
        text, start = self._text, self._at
        at = start + 2
        prefix = text[at : at + 1] if text[at : at + 1] in ("#", "!") else ""
        name = _PARAMETER.match(text, at + 1) if prefix else None
        if name is None:
            prefix = ""
            name = _PARAMETER.match(text, at)
        if name is None:
            self._opaque(parts, start)
            return
        node = Parameter(name.group(), start, start, quoted)
        node.length, node.indirect = prefix == "#", prefix == "!"
        at = name.end()
        subscript = _SUBSCRIPT.match(text, at)
        if subscript:
            node.subscript = subscript.group(1)
            at = subscript.end()
        if not text.startswith("}", at):
            operator = _OPERATOR.match(text, at)
            if operator is None:
                self._opaque(parts, start)
                return
            node.operator = operator.group()
            self._at = operator.end()
            self._depth += 1
            if self._depth > DEPTH:
                raise TooLargeError
            self._argument(node.argument, quoted)
            self._depth -= 1
            at = self._at
        node.end = self._at = min(at + 1, self._end)
        parts.append(node)

    def _opaque(self, parts: list[Part], start: int) -> None:
        end = self._text.find("}", start, start + _LONGEST_PLACEHOLDER)
        if end < 0 or "\n" in self._text[start:end]:
            parts.append(Literal(start, start + 2, True))
            self._at = start + 2
            return
        parts.append(Opaque(start, end + 1))
        self._at = end + 1

    def _argument(self, parts: list[Part], quoted: bool) -> None:
        """The word after the operator in ``${NAME:-word}``, up to the closing brace (not consumed)."""
        text = self._text
        while self._at < self._end:
            self._step()
            char = text[self._at]
            if char == "}":
                return
            if char == '"':
                self._at += 1
                self._double(parts, '"')
            elif char == "'" and not quoted:
                self._single(parts)
            elif char == "\\":
                self._escape(parts)
            elif char == "$":
                self._dollar(parts, quoted)
            elif char == "`":
                self._backquote(parts, quoted)
            else:
                begin = self._at
                while self._at < self._end and text[self._at] not in '}"\\$`' and (quoted or text[self._at] != "'"):
                    self._at += 1
                parts.append(Literal(begin, self._at, quoted))

    def _parenthesis_end(self, at: int) -> int:
        """The place after the parenthesis that closes the one at ``at``; the end where none does.

        Knows quotes, comments, nested substitutions and heredocs, so that their parentheses do not count.
        """
        text, end = self._text, self._end
        # Each open bracket: "(" inside commands, '"' inside double quotes.
        stack: list[str] = []
        heredocs: list[tuple[str, bool]] = []
        while at < end:
            match = _NESTING.search(text, at)
            if match is None or match.start() >= end:
                break
            token, at = match.group(), match.end()
            quoted = bool(stack) and stack[-1] == '"'
            if token == "\\":
                at += 1
            elif token == '"':
                if quoted:
                    stack.pop()
                else:
                    stack.append('"')
            elif token == "$(":
                stack.append("(")
            elif token == "`":
                close = text.find("`", at)
                at = end if close < 0 else close + 1
            elif quoted:
                continue
            elif token == "(":
                stack.append("(")
            elif token == ")":
                if stack:
                    stack.pop()
                if not stack:
                    return min(at, end)
            elif token == "'":
                close = text.find("'", at)
                at = end if close < 0 else close + 1
            elif token == "#":
                if text[match.start() - 1] in " \t\n;" and match.start() > 0:
                    newline = text.find("\n", at)
                    at = end if newline < 0 else newline
            elif token == "\n":
                for delimiter, strip in heredocs:
                    at = _after_heredoc(text, at, end, delimiter, strip)
                heredocs.clear()
            elif token.startswith("<<"):
                word = _HEREDOC_WORD.match(text, at)
                # ``1 << 2`` inside ``$((…))`` is a shift.
                if word and not (word.group(3) or "x")[0].isdecimal():
                    heredocs.append((word.group(1) or word.group(2) or word.group(3) or "", token == "<<-"))
                    at = word.end()
        self._unclosed = True
        return end


def _after_heredoc(text: str, at: int, end: int, delimiter: str, strip: bool) -> int:
    while at < end:
        newline = text.find("\n", at)
        line_end = end if newline < 0 else newline
        line = text[at:line_end]
        at = min(line_end + 1, end)
        if (line.lstrip("\t") if strip else line) == delimiter:
            break
    return at
