"""``lancens serve``."""

from __future__ import annotations

import os
import sys
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import click

from reconciler.cli.options import check_impl, impl_option, load_manifest, manifest_arguments, variables_option
from reconciler.model.errors import ConfigError, MissingExtraError

if TYPE_CHECKING:
    from reconciler.server import ServedCatalogs

_MIB = 1024 * 1024


@click.command("serve")
@manifest_arguments
@variables_option
@impl_option("Serve a catalog that no manifest describes.")
@click.option("--host", default="127.0.0.1", show_default=True, help="Others than loopback need a token.")
@click.option("--port", type=click.IntRange(0, 65535), default=2333, show_default=True, help="0 is any free one.")
@click.option("--read-token-file", multiple=True, metavar="FILE", help="Holds a token that may read. Repeatable.")
@click.option("--write-token-file", multiple=True, metavar="FILE", help="Holds a token that may read and write.")
@click.option(
    "--server-name", multiple=True, metavar="NAME", help="Answer to this name in the Host header. Repeatable."
)
@click.option(
    "--location",
    "places",
    multiple=True,
    metavar="PREFIX",
    help="Tables may be below it as well. Repeatable.",
)
@click.option(
    "--max-body", type=click.IntRange(1, 4096), default=16, show_default=True, metavar="MIB", help="Longest body."
)
@click.option(
    "--timeout", type=click.FloatRange(0.1, 3600), default=60, show_default=True, metavar="S", help="Longest request."
)
@click.option(
    "--grace",
    type=click.IntRange(0, 3600),
    default=30,
    show_default=True,
    metavar="S",
    help="Time to end when stopped.",
)
def command(
    manifests: tuple[str, ...],
    variables: dict[str, str],
    impl: str | None,
    config: dict[str, str],
    host: str,
    port: int,
    read_token_file: tuple[str, ...],
    write_token_file: tuple[str, ...],
    server_name: tuple[str, ...],
    places: tuple[str, ...],
    max_body: int,
    timeout: float,
    grace: int,
) -> None:
    """Serve catalogs to anything that speaks Lance REST.

    Of a manifest, each catalog is served below its name; with --impl, one catalog is served as it is. Prints the
    address and serves until it is told to stop. No data is ever deleted through it.

    \b
    Examples:
      lancens serve --impl hive3 --config uri=thrift://metastore:9083
      lancens serve lancens.yaml --host 0.0.0.0 --write-token-file /run/secrets/token
    """
    check_impl(impl, config, manifests)
    try:
        from reconciler.server import ListenAddress, Settings, TokenFile, Tokens, make_app, run
        from reconciler.server.logs import log_to_stderr
        from reconciler.server.settings import room
    except ImportError as error:
        raise MissingExtraError("`lancens serve`", "server") from error

    address = ListenAddress(host, port)
    tokens = Tokens(read_only=map(TokenFile, read_token_file), read_write=map(TokenFile, write_token_file))
    if not address.is_loopback and not tokens:
        raise ConfigError(
            f"--host {host} can be reached from other machines, so a token is needed: give --read-token-file or "
            "--write-token-file, or listen on 127.0.0.1"
        )
    settings = Settings(
        tokens=tokens,
        max_body_bytes=max_body * _MIB,
        timeout_seconds=timeout,
        hosts=address.own_names(server_name),
        max_requests=room(),
    )
    with _opened(impl, config, manifests, variables, places) as catalogs:
        log_to_stderr()
        app = make_app(catalogs, settings)
        run(app, address, grace_seconds=grace, started=click.echo)
    if app.state.workers.active:  # Python would wait for calls that hang, until whoever stops this loses patience
        sys.stdout.flush()
        os._exit(0)


@contextmanager
def _opened(
    impl: str | None,
    config: dict[str, str],
    manifests: tuple[str, ...],
    variables: dict[str, str],
    places: tuple[str, ...],
) -> Iterator[ServedCatalogs]:
    from reconciler.backends.base import catalog_errors
    from reconciler.operations.connections import open_connections
    from reconciler.server import ManyCatalogs, OneCatalog

    if impl is not None:
        from reconciler.backends import registry

        secrets = _secret_values(impl, config)
        with catalog_errors(impl, impl, secrets):
            backend = registry.connect(impl, config)
        try:
            yield OneCatalog(backend, secrets, places)
        finally:
            backend.close()
        return
    with open_connections(load_manifest(manifests, variables)) as connections:
        backends = {name: connection.backend for name, connection in connections.items()}
        secrets = [secret for found in connections.values() for secret in found.spec.secrets]
        yield ManyCatalogs(backends, secrets, places)


def _secret_values(impl: str, config: dict[str, str]) -> Collection[str]:
    from reconciler.model.redaction import is_secret_config

    return [value for key, value in config.items() if is_secret_config(key.removeprefix(f"{impl}."), value)]
