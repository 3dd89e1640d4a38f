"""Call metastores: a pool of connections, failover and safe retries."""

from __future__ import annotations

import logging
import random
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from typing import TypeVar

from thrift.protocol.TProtocol import TProtocolException
from thrift.Thrift import TException
from thrift.transport.TTransport import TTransportException

from reconciler.backends.hive.config import HiveConfig
from reconciler.backends.hive.connection import ThriftConnection, connect
from reconciler.backends.hive.gen.ThriftHiveMetastore import Client
from reconciler.backends.hive.metastore_errors import LoginRefusedError, translated
from reconciler.backends.http.limits import ResponseTooLargeError, SlowAnswerError, TrafficMeter
from reconciler.model import errors

ResultT = TypeVar("ResultT")

_log = logging.getLogger(__name__)
_TOO_LONG = "exceeded specified limit"
_IS_METASTORE = "is `uri` the metastore's Thrift port, and `auth` what the server expects?"
PAUSES = (0.1, 0.4)
"""Seconds between the attempts of a retried call; each is drawn between half and the whole."""


class _UnreachableError(Exception):
    """No address accepted a connection, so nothing was sent."""


class _SilentError(Exception):
    """A connection was accepted but no response came; often another service listens."""


class _MalformedReplyError(Exception):
    """The reply is invalid; whether the call was carried out is unknown."""


class Metastore:
    """Calls the metastores of one installation. Thread-safe."""

    def __init__(self, impl: str, config: HiveConfig, begin: Callable[[Client], None]) -> None:
        """Create a client that connects at its first call.

        ``begin`` is called with each new connection.
        """
        self.impl = impl
        self.config = config
        self._begin_connection = begin
        self.meter = TrafficMeter(config)
        self._slots = threading.BoundedSemaphore(config.pool_size)
        self._lock = threading.Lock()
        self._idle: list[ThriftConnection] = []
        self._preferred = 0
        # A server that is no metastore may never answer: the first reply has the time-out of connections.
        self._closed = self._has_answered = False

    def read(
        self,
        call: Callable[[Client], ResultT],
        doing: str,
        *,
        missing: type[errors.BackendError] = errors.NamespaceNotFoundError,
    ) -> ResultT:
        """Return the result of ``call``, which is retried, so it must change nothing.

        Raises:
            ServiceUnavailableError: no metastore answers.
            BackendError: the metastore's error for the request ``doing``, see :func:`translated`.
        """
        with translated(self.impl, doing, missing=missing):
            return self._run(call, repeatable=True)

    def write(
        self,
        call: Callable[[Client], ResultT],
        doing: str,
        *,
        missing: type[errors.BackendError] = errors.NamespaceNotFoundError,
        exists: type[errors.BackendError] = errors.InternalError,
        refused: type[errors.BackendError] = errors.InvalidInputError,
    ) -> ResultT:
        """Return the result of ``call``, which is never retried once it was sent.

        Raises:
            ServiceUnavailableError: no metastore answers, or the connection broke before the answer came.
            missing, exists, refused: an object is missing, exists already, or the metastore refuses the request.
            BackendError: any other error of the metastore for the request ``doing``, see :func:`translated`.
        """
        with translated(self.impl, doing, missing=missing, exists=exists, refused=refused):
            return self._run(call, repeatable=False)

    def create(
        self,
        call: Callable[[Client], object],
        doing: str,
        exists: type[errors.BackendError],
        load: Callable[[], object],
    ) -> None:
        """Create an object by ``call``, and detect a concurrent creation.

        If two clients create an object at once, the slower one gets an internal error: a duplicate key in the server's
        database. ``load`` then shows whether the object exists. Errors are those of :meth:`write`, and ``exists``.
        """
        try:
            self.write(call, doing, exists=exists)
        except errors.InternalError as error:
            with suppress(errors.NamespaceNotFoundError, errors.TableNotFoundError):
                load()
                raise exists(f"{self.impl}: {doing}: it exists by now") from error
            raise

    def close(self) -> None:
        """Close idle connections now, and the others after their call."""
        with self._lock:
            self._closed = True
            idle, self._idle = self._idle, []
        for connection in idle:
            connection.close()

    def _run(self, call: Callable[[Client], ResultT], *, repeatable: bool) -> ResultT:
        cause: Exception
        for pause in (*PAUSES, None):
            self.meter.check(f"{self.impl}: {self.config.identity()}")
            try:
                with self._slots:
                    return self._call(call, repeatable=repeatable)
            except ResponseTooLargeError as error:
                raise errors.InternalError(f"{self.impl}: {error}") from error
            except LoginRefusedError as error:
                raise errors.UnauthenticatedError(f"{self.impl}: {error}") from None
            except (SlowAnswerError, _SilentError) as error:
                raise errors.ServiceUnavailableError(f"{self.impl}: {error}") from error
            except _UnreachableError as error:
                cause = error
            except (OSError, EOFError, TTransportException, TProtocolException, _MalformedReplyError) as error:
                if not repeatable:
                    raise errors.ServiceUnavailableError(
                        f"{self.impl}: the connection to {self.config.identity()} broke before the answer came "
                        f"({_reason(error)}); it is unknown whether the change was made"
                    ) from error
                cause = error
            if pause is not None:
                _log.debug("%s: retrying: %s", self.impl, _reason(cause))
                time.sleep(random.uniform(pause / 2, pause))  # noqa: S311 - jitter
        raise errors.ServiceUnavailableError(
            f"{self.impl}: no metastore answers at {self.config.identity()}: {_reason(cause)}"
        ) from cause

    def _call(self, call: Callable[[Client], ResultT], *, repeatable: bool) -> ResultT:
        connection = self._acquire()
        healthy = False
        try:
            result = _call_checked(call, connection.client)
        except (TException, TimeoutError) as error:
            healthy = not isinstance(error, (TTransportException, TProtocolException, TimeoutError))
            if repeatable and _is_timeout(error) and not self._has_answered and len(self.config.uri) == 1:
                raise self._silence_error(connection) from error
            raise
        else:
            healthy = self._has_answered = True
            connection.wait_at_most(self.config.timeout)
            return result
        finally:
            self._release(connection, healthy=healthy)

    def _acquire(self) -> ThriftConnection:
        while True:
            with self._lock:
                if not self._idle:
                    break
                connection = self._idle.pop()
            if connection.is_usable():
                return connection
            connection.close()
        return self._connect()

    def _release(self, connection: ThriftConnection, *, healthy: bool) -> None:
        """Return a connection to the pool; if it is broken, prefer the next metastore."""
        with self._lock:
            broken = [] if healthy and not self._closed else [connection]
            if not broken:
                self._idle.append(connection)
            addresses = self.config.uri
            if not healthy and len(addresses) > 1:
                broken += [idle for idle in self._idle if idle.address == connection.address]
                self._idle = [idle for idle in self._idle if idle.address != connection.address]
                if addresses[self._preferred] == connection.address:
                    self._preferred = (self._preferred + 1) % len(addresses)
        for closing in broken:
            closing.close()

    def _connect(self) -> ThriftConnection:
        """Connect to the preferred address, or to the next one that accepts."""
        addresses = self.config.uri
        failures: list[str] = []
        first = self._preferred
        for offset in range(len(addresses)):
            index = (first + offset) % len(addresses)
            try:
                connection = self._open(index)
            except (OSError, EOFError, TException, _MalformedReplyError) as error:
                hint = "" if self._has_answered or isinstance(error, OSError) else f"; {_IS_METASTORE}"
                address = f"{addresses[index]}: " if len(addresses) > 1 else ""
                failures.append(f"{address}{_reason(error)}{hint}")
                continue
            self._preferred = index
            return connection
        raise _UnreachableError("; ".join(failures))

    def _open(self, index: int) -> ThriftConnection:
        connection = connect(self.config, self.config.uri[index], self.meter)
        is_only, is_known = len(self.config.uri) == 1, self._has_answered
        try:
            if is_only and is_known:  # there is no other to fail over to, so wait for it
                connection.wait_at_most(self.config.timeout)
            _call_checked(self._begin_connection, connection.client)
        except BaseException as error:
            connection.close()
            if _is_timeout(error) and is_only and not is_known:
                raise self._silence_error(connection) from error
            raise
        if is_known or not is_only:
            connection.wait_at_most(self.config.timeout)
        return connection

    def _silence_error(self, connection: ThriftConnection) -> _SilentError:
        return _SilentError(
            f"no Thrift answer from {connection.address} within {self.config.connect_timeout:g} s; {_IS_METASTORE} "
            "`client.connect-timeout` waits longer"
        )


def _call_checked(call: Callable[[Client], ResultT], client: Client) -> ResultT:
    """Return the result of ``call``; translate the errors of Thrift's decoder.

    Raises:
        LoginRefusedError: a metastore over HTTP refuses the login.
        KerberosError: Kerberos no longer protects the connection.
        ResponseTooLargeError: a text or a list in the reply is longer than allowed.
        _MalformedReplyError: the reply cannot be decoded; Thrift's C decoder raises many types of errors.
    """
    try:
        return call(client)
    except (TypeError, ValueError, OverflowError, MemoryError, RecursionError) as error:
        if _TOO_LONG in str(error):
            problem = f"a text or a list in the answer is too long ({error}); `max_answer_mib` allows longer texts"
            raise ResponseTooLargeError(problem) from error
        raise _MalformedReplyError(f"its reply is invalid ({error})") from error


def _is_timeout(error: BaseException) -> bool:
    inner = getattr(error, "inner", None) or error
    return isinstance(inner, TimeoutError) and not isinstance(inner, SlowAnswerError)


def _reason(error: Exception) -> str:
    """Return why a connection failed."""
    inner = getattr(error, "inner", None)
    return str(inner if isinstance(inner, Exception) and str(inner) else error) or type(error).__name__
