"""``lancens serve``."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

import click

from reconciler.cli.grouped_help import GroupedCommand
from reconciler.cli.options import CatalogSource, catalog_options
from reconciler.model.backend_config import plain_key
from reconciler.model.errors import ConfigError, MissingExtraError
from reconciler.model.redaction import is_secret_config

if TYPE_CHECKING:
    from reconciler.operations.connections import CatalogSpec, Connection
    from reconciler.server.catalogs import ServedCatalogs

_MIB = 1024 * 1024


@click.command("serve", cls=GroupedCommand)
@catalog_options("Serve a catalog without a manifest.")
@click.option("--host", default="127.0.0.1", help="An address other than loopback needs a token.")
@click.option("--port", type=click.IntRange(0, 65535), default=2333, help="0 picks a free port.")
@click.option("--read-token-file", multiple=True, metavar="FILE", help="Holds a token that may read. Repeatable.")
@click.option("--write-token-file", multiple=True, metavar="FILE", help="Holds a token that may read and write.")
@click.option(
    "--server-name", multiple=True, metavar="NAME", help="Answer to this name in the Host header. Repeatable."
)
@click.option(
    "--location",
    "extra_locations",
    multiple=True,
    metavar="PREFIX",
    help="Also allow tables below this location. Repeatable.",
)
@click.option("--max-body", type=click.IntRange(1, 4096), default=16, metavar="MIB", help="Longest body.")
@click.option("--timeout", type=click.FloatRange(0.1, 3600), default=60, metavar="S", help="Longest request.")
@click.option("--workers", type=click.IntRange(1, 64), default=1, help="Processes, which share the limits.")
@click.option(
    "--grace", type=click.IntRange(0, 3600), default=30, metavar="S", help="Time to finish requests at the end."
)
def command(
    source: CatalogSource,
    host: str,
    port: int,
    read_token_file: tuple[str, ...],
    write_token_file: tuple[str, ...],
    server_name: tuple[str, ...],
    extra_locations: tuple[str, ...],
    max_body: int,
    timeout: float,
    workers: int,
    grace: int,
) -> None:
    """Serve catalogs over Lance REST.

    Each catalog of a manifest is served below its name; with --impl, one catalog is the root. The command prints the
    address and serves until it is stopped. No request deletes data.

    \b
    Examples:
      lancens serve --impl hive3 --config uri=thrift://metastore:9083
      lancens serve lancens.yaml --host 0.0.0.0 --write-token-file /run/secrets/token
    """
    try:
        from reconciler.operations.connections import open_connections
        from reconciler.server.app import exit_if_calls_hang, make_app
        from reconciler.server.guard import Settings, TokenFile, Tokens, request_limit
        from reconciler.server.logs import logging_to_stderr
        from reconciler.server.running import ListenAddress, run
        from reconciler.server.workers import run_workers
    except ImportError as error:
        raise MissingExtraError("`lancens serve`", "server") from error

    if workers > 1 and sys.platform == "win32":
        raise ConfigError("--workers needs Linux or macOS")
    address = ListenAddress(host, port)
    tokens = Tokens(read_only=map(TokenFile, read_token_file), read_write=map(TokenFile, write_token_file))
    if not address.is_loopback and not tokens:
        raise ConfigError(
            f"--host {host} can be reached from other machines, so it needs a token: pass --read-token-file or "
            "--write-token-file, or listen on 127.0.0.1"
        )
    settings = Settings(
        tokens=tokens,
        max_body_bytes=max_body * _MIB,
        timeout_seconds=timeout,
        hosts=address.own_names(server_name),
        max_requests=request_limit(),
    )
    with open_connections(source.load()) as connections, logging_to_stderr():
        catalogs = _catalogs_to_serve(connections, source, extra_locations)
        if workers > 1:
            run_workers(catalogs, settings, address, workers, grace_seconds=grace, started=click.echo)
            return
        app = make_app(catalogs, settings)
        run(app, address, grace_seconds=grace, started=click.echo)
    exit_if_calls_hang(app)


def _catalogs_to_serve(
    connections: Mapping[str, Connection], source: CatalogSource, extra_locations: tuple[str, ...]
) -> ServedCatalogs:
    """Return a manifest's catalogs below their names, or that of ``--impl`` as root."""
    from reconciler.server.catalogs import ManyCatalogs, OneCatalog

    secrets = [secret for connection in connections.values() for secret in _secrets_of(connection.spec)]
    backends = {name: connection.backend for name, connection in connections.items()}
    if source.impl is None:
        return ManyCatalogs(backends, secrets, extra_locations)
    [backend] = backends.values()
    return OneCatalog(backend, secrets, extra_locations)


def _secrets_of(spec: CatalogSpec) -> Iterator[str]:
    """Yield the secrets in the configuration of a catalog, which no response may contain."""
    yield from spec.secrets
    for key, value in spec.properties.items():
        if is_secret_config(plain_key(spec.impl, key), value):
            yield value
