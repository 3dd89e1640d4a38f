"""Placeholders: ``${env:NAME}``, ``${var:name}``, ``${file:path}``, each with ``:-default``; ``$${`` escapes.

All work in values, variables also in names. A value is used as it is: placeholders within it are not resolved.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import islice
from pathlib import Path
from typing import TypeAlias

from reconciler.manifest.policy import OPEN, VARIABLES_ONLY, MissingFileError, Policy, UnreadableFileError, read_file
from reconciler.model.desired import Source
from reconciler.model.display import did_you_mean
from reconciler.model.redaction import is_sensitive_key, redact_value, scrub

_SCHEMES = {
    "env": ("env:NAME", re.compile(r"[A-Za-z_][A-Za-z0-9_]*")),
    "var": ("var:name", re.compile(r"[A-Za-z_][A-Za-z0-9_.-]*")),
    "file": ("file:path", re.compile(r"[^\0]+")),
}
_TOKEN = re.compile(r"\$(?P<escaped>\$\{)|\$\{(?P<body>[^}]*)\}|\$\{")
_BEFORE_SECRET = re.compile(r"[@=\s]|%40", re.IGNORECASE)
"""What each form of a secret has around a part that may be a variable."""
_MAX_FILE_BYTES = 1024 * 1024
_MOST_VARIABLE_FILES = 20  # looked into for an error
_ENVIRONMENT_PREFIX = "LANCENS_VAR_"


class TemplateError(ValueError):
    """A placeholder is malformed or has no value; the message holds no value."""


@dataclass(frozen=True, slots=True)
class Placeholder:
    """One ``${scheme:name:-default}``."""

    scheme: str
    name: str
    default: str | None = None

    def __str__(self) -> str:
        return f"${{{self.scheme}:{self.name}{'' if self.default is None else f':-{self.default}'}}}"


Template: TypeAlias = tuple[str | Placeholder, ...]


class FileValue(str):
    """The value of a variable in a file, at ``source``."""

    source: Source

    @classmethod
    def at(cls, source: Source, text: str) -> FileValue:
        """Return the value ``text`` at ``source``."""
        value = cls(text)
        value.source = source
        return value


def environment_values() -> dict[str, str]:
    """Return the variables in the environment: ``LANCENS_VAR_name`` is the value of ``${var:name}``."""
    names = (name for name in os.environ if name.startswith(_ENVIRONMENT_PREFIX))
    return {name.removeprefix(_ENVIRONMENT_PREFIX): os.environ[name] for name in names}


def is_unresolved(name: str) -> bool:
    """Return whether ``name`` still has a placeholder, which had an error or which the policy does not resolve."""
    return "${" in name


def is_literal(template: Template) -> bool:
    """Return whether the template has no placeholder."""
    return not any(isinstance(part, Placeholder) for part in template)


def as_written(template: Template) -> str:
    """Return the text with its placeholders as written."""
    return "".join(map(str, template))


def is_from_outside(text: str) -> bool:
    """Return whether the template in ``text`` takes a value from the environment or a file: a secret."""
    if "${env:" not in text and "${file:" not in text:
        return False
    try:
        template = parse_template(text)
    except TemplateError:
        return False  # it has no value
    return any(isinstance(part, Placeholder) and part.scheme != "var" for part in template)


def escape(text: str) -> str:
    """Return the template whose value is ``text``."""
    return text.replace("${", "$${")


def rebase(template: Template, prefix: str, *, is_relative: bool = False) -> str:
    """Return the text of ``template`` for another folder, from which the path ``prefix`` leads to its own.

    Paths of ``${file:…}`` are changed, and with ``is_relative`` the value itself, which is a relative path.
    """
    text = "".join(escape(part) if isinstance(part, str) else str(_rebase_file(part, prefix)) for part in template)
    if not is_relative or prefix == ".":
        return text
    return f"{'' if prefix.startswith('..') else './'}{prefix}/{text.removeprefix('./')}"


def _rebase_file(part: Placeholder, prefix: str) -> Placeholder:
    is_relative = part.scheme == "file" and prefix != "."
    return replace(part, name=os.path.normpath(f"{prefix}/{part.name}")) if is_relative else part


def parse_template(text: str) -> Template:
    """Return the parts of ``text``.

    Raises:
        TemplateError: a placeholder is not closed, has an unknown scheme or no name.
    """
    if "${" not in text:
        return (text,) if text else ()
    parts: list[str | Placeholder] = []
    at = 0
    for token in _TOKEN.finditer(text):
        if token["body"] is None and not token["escaped"]:
            raise TemplateError("`${` is not closed; expected `}`, or `$${` for the text itself")
        parts += [text[at : token.start()], token["escaped"] or _placeholder(token["body"])]
        at = token.end()
    parts.append(text[at:])
    return tuple(part for part in parts if part != "")


def _placeholder(body: str) -> Placeholder:
    scheme, colon, reference = body.partition(":")
    if not colon or scheme not in _SCHEMES:
        expected = "expected env:, var: or file:"
        if body.startswith("{"):
            body, hint = f"{body}}}", "`${{ … }}` belongs to a workflow of GitHub; write `${env:NAME}`"
        elif colon:
            hint = did_you_mean(f"{scheme.lower()}:", map("{}:".format, _SCHEMES), expected, cutoff=0.75)
        else:
            hint = _without_scheme(body) or expected
        raise TemplateError(f"unknown placeholder `${{{body}}}`; {hint}")
    name, has_default, default = reference.partition(":-")
    example, pattern = _SCHEMES[scheme]
    if not pattern.fullmatch(name):
        raise TemplateError(f"`{name}` is not a name in `${{{body}}}`; expected `${{{example}}}`")
    return Placeholder(scheme, name, default if has_default else None)


def _variables_in(template: Template) -> set[str]:
    return {part.name for part in template if isinstance(part, Placeholder) and part.scheme == "var"}


def _without_scheme(body: str) -> str | None:
    """Return what to write for a placeholder of a shell or of Terraform, None if it is neither."""
    prefix, dot, name = body.partition(".")
    if dot and re.fullmatch(r"\w+", name):
        scheme = prefix if prefix in _SCHEMES else "var"
        return f"write `${{{scheme}:{name}}}`"
    if re.fullmatch(r"\w+", body):
        return f"write `${{env:{body}}}` or `${{var:{body}}}`"
    return None


@dataclass(frozen=True, slots=True)
class Resolver:
    """Resolves placeholders.

    Args:
        policy: the placeholders, variables and files that are allowed.
        variables: the values of ``${var:…}``.
        folders: of the manifest's files, without links.
        used: the names of the variables in all templates so far, defined or not.
        missing: the variables, of both kinds, that had no value so far.
        secret: the names of those in credentials and in values of sensitive keys.
        written_names: the names with variables so far, as they are written, by what they stand for.
    """

    policy: Policy = OPEN
    variables: Mapping[str, str] = field(default_factory=dict, repr=False)
    folders: tuple[str, ...] = ()
    used: set[str] = field(default_factory=set, repr=False, compare=False)
    missing: set[str] = field(default_factory=set, repr=False, compare=False)
    secret: set[str] = field(default_factory=set, repr=False, compare=False)
    written_names: dict[str, str] = field(default_factory=dict, repr=False, compare=False)

    def template(self, text: str) -> Template:
        """Return the template in ``text``, and record the variables that it uses.

        Raises:
            TemplateError: a placeholder is malformed.
        """
        template = parse_template(text)
        self.used.update(_variables_in(template))
        return template

    def hide(self, template: Template) -> None:
        """Record that the variables in ``template`` are secrets."""
        self.secret.update(_variables_in(template))

    def hide_redacted(self, key: str, template: Template) -> None:
        """Record as secrets the variables that are redacted where the value of ``key`` is shown, whatever they hold."""
        texts = [part if isinstance(part, str) else f"variable{at:012}" for at, part in enumerate(template)]
        text = "".join(texts)
        if not (is_sensitive_key(key) or _BEFORE_SECRET.search(text)):  # fleets have many values
            return
        shown = redact_value(key, scrub(text, ()))
        self.hide(tuple(part for part, stand_in in zip(template, texts, strict=True) if stand_in not in shown))

    def name(self, text: str) -> str:
        """Return the name that ``text`` stands for; ``text`` itself if the policy resolves no variables.

        Raises:
            TemplateError: a placeholder is malformed, is not a variable, or has no value.
        """
        template = self.template(text)
        if is_from_outside(text):
            raise TemplateError("a name takes variables only, such as `${var:stage}`; others are secrets")
        name = self.text(template, "") if self.knows(template) else text
        if name != text:
            self.written_names[name] = text
        return name

    def shown(self, text: str) -> str:
        """Return the template in ``text`` with its variables resolved, and other placeholders as written.

        Raises:
            TemplateError: a variable has no value.
        """
        known = replace(self, policy=VARIABLES_ONLY)
        return "".join(self.text((part,), "") if known.knows((part,)) else str(part) for part in parse_template(text))

    def knows(self, template: Template) -> bool:
        """Return whether the policy allows every placeholder in ``template``."""
        return all(isinstance(part, str) or part.scheme in self.policy.schemes for part in template)

    def text(self, template: Template, folder: str) -> str:
        """Return ``template`` with its placeholders resolved; files are relative to ``folder``.

        Raises:
            TemplateError: placeholders have no value and no default; the message names all.
        """
        return "".join(self.values(template, folder))

    def values(self, template: Template, folder: str) -> list[str]:
        """Return the parts of ``template`` resolved, as :meth:`text` joins them.

        Raises:
            TemplateError: see :meth:`text`.
        """
        values, problems = list[str](), dict[str, None]()
        for part in template:
            try:
                values.append(part if isinstance(part, str) else self.value(part, folder))
            except TemplateError as error:
                problems[str(error)] = None
        if problems:
            raise TemplateError("; ".join(problems))
        return values

    def value(self, placeholder: Placeholder, folder: str) -> str:
        """Return the value of ``placeholder``.

        As in a shell, the default is used where the value is missing or empty.

        Raises:
            TemplateError: it has no value and no default, or is not allowed.
        """
        name = placeholder.name
        if placeholder.scheme == "file":
            value = self._file_text(placeholder, folder)
        else:
            if placeholder.scheme == "env" and not self._may_read_variable(name):
                raise TemplateError(
                    f"environment variable `{name}` is not one that this manifest may read; in the Action, the input "
                    "`environment` names those that are"
                )
            known = os.environ if placeholder.scheme == "env" else self.variables
            value = known.get(name)
            if value is None and placeholder.default is None:
                self.missing.add(name)
                raise TemplateError(self._missing(placeholder))
        if not value and placeholder.default is not None:
            return placeholder.default
        return value or ""

    def _may_read_variable(self, name: str) -> bool:
        allowed = self.policy.environment
        return allowed is None or name in allowed

    def _missing(self, placeholder: Placeholder) -> str:
        name = placeholder.name
        if placeholder.scheme == "env":
            known = filter(self._may_read_variable, os.environ)
            otherwise = f"set it, or write `${{env:{name}:-default}}`"
            return f"environment variable `{name}` is not set; {did_you_mean(name, known, otherwise, cutoff=0.8)}"
        files = " or ".join(f"`--var-file {file}`" for file in self._files_with(name))
        otherwise = f"give it with {files or f'`--var {name}=value`'}, or write `${{var:{name}:-default}}`"
        return f"variable `{name}` is not given; {did_you_mean(name, self.variables, otherwise)}"

    def _files_with(self, name: str) -> Iterator[str]:
        """Yield the files of variables beside the manifest that have a line for ``name``."""
        line = re.compile(rf"^[\"']?{re.escape(name)}[\"']?\s*:", re.MULTILINE)
        for folder in self.folders[:1]:
            for path in islice(sorted(Path(folder).glob("*.vars.y*ml")), _MOST_VARIABLE_FILES):
                try:
                    is_allowed = self.policy.may_read(os.path.realpath(path), self.folders)
                    text = read_file(str(path), _MAX_FILE_BYTES).decode("utf-8", "replace") if is_allowed else ""
                except UnreadableFileError:
                    continue
                if line.search(text):
                    yield Path(os.path.relpath(path)).as_posix()

    def _file_text(self, placeholder: Placeholder, folder: str) -> str | None:
        """Return a file's text without its last line break; None for a missing file with a default."""
        shown = f"file `{placeholder.name}`"
        path = os.path.realpath(Path(folder) / placeholder.name)
        if not self.policy.may_read(path, self.folders):
            raise TemplateError(f"{shown} is outside of the manifest's folder; --allow-outside lets it be read")
        try:
            data = read_file(path, _MAX_FILE_BYTES)
            if len(data) > _MAX_FILE_BYTES:
                raise TemplateError(f"{shown} is larger than {_MAX_FILE_BYTES // 2**20} MB")
            return data.decode("utf-8").removesuffix("\n").removesuffix("\r")
        except MissingFileError:
            if placeholder.default is not None:
                return None
            raise TemplateError(f"{shown} does not exist; the path is relative to the file it is written in") from None
        except UnreadableFileError as error:
            raise TemplateError(f"{shown} cannot be read: {error}") from None
        except UnicodeDecodeError:
            raise TemplateError(f"{shown} is not UTF-8 text") from None
