"""A catalog's ``config``: kept as templates, checked as far as its text is known, resolved when it is needed."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from reconciler.manifest.implementations import Implementation
from reconciler.manifest.reach import bucket_refusal, is_file_option, refusals
from reconciler.manifest.variables import Placeholder, Resolver, Template, TemplateError, escape, is_literal
from reconciler.model import locations
from reconciler.model.backend_config import BackendConfig, check_config, known_keys, parse_config
from reconciler.model.desired import Source
from reconciler.model.errors import ManifestError, Problem
from reconciler.model.redaction import is_sensitive

_PATH_KEYS = ("root", "path")
_STORAGE_PREFIX = "storage."


@dataclass(frozen=True, slots=True)
class ResolvedConfig:
    """A ``config`` with every placeholder replaced.

    ``secrets`` are the values that no output may hold: what environment and files gave, and what sensitive keys say.
    ``places`` are locations of which a part comes from there, and what the manifest says in their place. ``relative``
    are those that are written relative, absolute. ``hosts`` are the only ones that the service may name; None for any.
    """

    properties: dict[str, str] = field(repr=False)
    secrets: frozenset[str] = field(repr=False)
    places: Mapping[str, str] = field(default_factory=dict, repr=False)
    relative: frozenset[str] = frozenset()
    hosts: Collection[str] | None = None


@dataclass(frozen=True, slots=True)
class ConfigEntry:
    """One key of a ``config``; ``folder`` is where relative paths in it start, ``source`` is the key's place."""

    key: str
    template: Template = field(repr=False)
    folder: str
    source: Source


@dataclass(frozen=True, slots=True)
class ConfigText:
    """A ``config`` as written."""

    impl: str
    implementation: Implementation
    source: Source
    entries: tuple[ConfigEntry, ...]

    def plain_key(self, entry: ConfigEntry) -> str:
        """Return the entry's key without the implementation's prefix."""
        return entry.key.removeprefix(f"{self.impl}.")

    # ---- at load

    def problems(self) -> Iterable[Problem]:
        """Yield the faults that can be seen while placeholders are unknown."""
        sources = {entry.key: entry.source for entry in self.entries}
        unknown = {entry.key for entry in self.entries if not is_literal(entry.template)}
        plain = [self.plain_key(entry) for entry in self.entries]
        known = known_keys(self.implementation.config_model)
        texts = {entry.key: self._absolute(entry, _literal(entry.template)) for entry in self.entries}
        for problem in check_config(self.implementation.config_model, self.impl, texts):
            if problem.key in unknown:
                name = problem.key.removeprefix(f"{self.impl}.")
                is_about_key = name not in known and not name.startswith(_STORAGE_PREFIX)
                if not is_about_key and plain.count(name) == 1:
                    continue
            yield _problem(sources.get(problem.key or "", self.source), f"config: {problem.message}")

    def known_config(self) -> BackendConfig | None:
        """Return the configuration where it holds no placeholder and no fault."""
        if not all(is_literal(entry.template) for entry in self.entries) or any(True for _ in self.problems()):
            return None
        texts = {entry.key: self._absolute(entry, _literal(entry.template)) for entry in self.entries}
        return parse_config(self.implementation.config_model, self.impl, texts)

    # ---- later

    def resolve(self, resolver: Resolver) -> ResolvedConfig:
        """Return the values of now.

        Raises:
            ManifestError: a placeholder stands for nothing, or a value cannot be used; all of them at once.
        """
        properties: dict[str, str] = {}
        secrets: set[str] = set()
        problems: list[Problem] = []
        places: dict[str, str] = {}
        relative: set[str] = set()
        for entry in self.entries:
            try:
                text, hidden = _filled(entry, resolver)
            except TemplateError as error:
                problems.append(_problem(entry.source, f"config `{entry.key}`: {error}"))
                continue
            refused = refusals(self.plain_key(entry), text, resolver, is_literal=is_literal(entry.template))
            reason = next(refused, None)
            is_hidden_place = bool(hidden) and self.plain_key(entry) in _PATH_KEYS
            if reason is None and is_hidden_place:
                reason = bucket_refusal(text, resolver.policy)
            if reason is not None:
                problems.append(_problem(entry.source, f"config `{entry.key}` {reason}"))
            properties[entry.key] = self._absolute(entry, text)
            if is_hidden_place:
                places[properties[entry.key]] = _literal(entry.template)
            elif properties[entry.key] != text:
                relative.add(properties[entry.key])
            secrets |= hidden
            if is_sensitive(entry.key, text):
                secrets.add(text)
        if not problems:
            sources = {entry.key: entry.source for entry in self.entries}
            problems = [
                _problem(sources.get(problem.key or "", self.source), f"config: {problem.message}")
                for problem in check_config(self.implementation.config_model, self.impl, properties)
            ]
        if problems:
            raise ManifestError(problems)
        return ResolvedConfig(properties, frozenset(secrets - {""}), places, frozenset(relative), resolver.policy.hosts)

    def _absolute(self, entry: ConfigEntry, text: str) -> str:
        is_path = self.plain_key(entry) in _PATH_KEYS
        return locations.absolute(text, entry.folder) if is_path and text else text

    # ---- as text

    def texts(self, folder: str) -> dict[str, str]:
        """Return the templates as text, with relative paths as seen from ``folder``, so that no machine is in them."""
        return {entry.key: _text(self.plain_key(entry), entry.template, entry.folder, folder) for entry in self.entries}


def files_read_by(config: ConfigText) -> Iterator[tuple[str, str]]:
    """Yield the keys whose values are read from files, or name one that pylance reads, each with the path."""
    for entry in config.entries:
        named = [part.name for part in entry.template if isinstance(part, Placeholder) and part.scheme == "file"]
        yield from ((entry.key, os.path.normpath(os.path.join(entry.folder, name))) for name in named)  # noqa: PTH118
        if is_file_option(config.plain_key(entry)) and is_literal(entry.template):
            yield entry.key, os.path.abspath(_literal(entry.template))  # noqa: PTH100 - links are not followed


def literal_texts(impl: str, properties: Mapping[str, str], start: str, folder: str) -> dict[str, str]:
    """Return the templates of plain values as text; their relative paths start at ``start``.

    In the text they are as seen from ``folder``; both are absolute.
    """
    return {key: _text(key.removeprefix(f"{impl}."), (text,), start, folder) for key, text in properties.items()}


def _text(plain_key: str, template: Template, start: str, folder: str) -> str:
    moved = os.path.relpath(start, folder)
    parts = [
        escape(part) if isinstance(part, str) else _shown(part, None if moved == "." else moved) for part in template
    ]
    text = "".join(parts)
    starts_relative = plain_key in _PATH_KEYS and text and locations.absolute(text, "/") != text
    if starts_relative and isinstance(template[0], str):
        return _relative(text, moved)
    return text


def _literal(template: Template) -> str:
    """Return the text with each placeholder standing for itself."""
    return "".join(part if isinstance(part, str) else _shown(part, None) for part in template)


def _shown(part: Placeholder, moved: str | None) -> str:
    name = part.name if moved is None or part.scheme != "file" else os.path.normpath(f"{moved}/{part.name}")
    return f"${{{part.scheme}:{name}{'' if part.default is None else f':-{part.default}'}}}"


def _relative(path: str, moved: str) -> str:
    plain = os.path.normpath(f"{moved}/{path}")
    return plain if plain.startswith("..") else f"./{plain}" if plain != "." else "."


def _filled(entry: ConfigEntry, resolver: Resolver) -> tuple[str, set[str]]:
    text, hidden = "", set()
    for part in entry.template:
        if isinstance(part, str):
            text += part
            continue
        value = resolver.value(part, entry.folder)
        if part.scheme != "var" and value != part.default:
            hidden.add(value)
        text += value
    return text, hidden


def _problem(source: Source, message: str) -> Problem:
    return Problem(source.file, source.line, source.column, message)
