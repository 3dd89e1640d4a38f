"""Real Hive Metastores: 2.3.10 (the jars inside pyspark), 3.1.3 and 4.1.0 (from Maven Central), on Derby in memory.

2.3 and 3.1 listen on every interface whatever they are told, so they are for tests only.
"""

from __future__ import annotations

import importlib.util
import os
import subprocess
import tarfile
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Literal
from xml.sax.saxutils import escape

from tests.servers.class_data import class_data
from tests.servers.jars import cache_directory, jars
from tests.servers.process import HUNG_SECONDS, free_port, running
from tests.servers.require import missing, tool

__all__ = ["Metastore", "Version", "metastore", "spark_jars", "sql_schema"]

Version = Literal["2.3", "3.1", "4.1"]
Scheme = Literal["thrift", "http", "https"]

_HERE = Path(__file__).parent
_DERBY = "org.apache.derby.jdbc.EmbeddedDriver"
_OVER_HTTP = {"metastore.server.thrift.transport.mode": "http", "metastore.server.thrift.http.path": "metastore"}
_LOGGING = """\
rootLogger.level = WARN
rootLogger.appenderRef.c.ref = c
appender.c.type = Console
appender.c.name = c
appender.c.target = SYSTEM_ERR
appender.c.layout.type = PatternLayout
appender.c.layout.pattern = %d %-5p [%t] %c{2}: %m%n
"""


@dataclass(frozen=True, slots=True)
class Metastore:
    """A metastore that runs.

    ``directory`` is its own, with the warehouse and the log in it; ``auto_created`` says which of two schemas it has.
    """

    version: Version
    port: int
    directory: Path
    auto_created: bool = True
    scheme: Scheme = "thrift"

    @property
    def uri(self) -> str:
        """The address as a client takes it."""
        if self.scheme != "thrift":
            return f"{self.scheme}://127.0.0.1:{self.port}/metastore"
        return f"thrift://127.0.0.1:{self.port}"

    @property
    def impl(self) -> str:
        """The backend that is made for it."""
        return "hive2" if self.version == "2.3" else "hive3"


@contextmanager
def metastore(
    version: Version,
    directory: Path,
    *,
    port: int | None = None,
    database: str | None = None,
    auto_create: bool = True,
    scheme: Scheme = "thrift",
    settings: Mapping[str, str] = MappingProxyType({}),
    login: Mapping[str, str] = MappingProxyType({}),
    java_options: Sequence[str] = (),
) -> Iterator[Metastore]:
    """Run a metastore until the block ends.

    Args:
        version: which one.
        directory: a new or used one of its own.
        port: a free one when left out.
        database: the JDBC URL of its Derby database; one in memory that ends with it when left out.
        auto_create: whether the tables of the database are made on the way, and not there already.
        scheme: what it speaks; only 4.1 speaks HTTP, at the path `/metastore`, and TLS as ``settings`` say.
        settings: more than what each needs to run, Hadoop's own among it.
        login: how a client of such a metastore is configured.
        java_options: more for its Java.
    """
    java = tool("java")
    port = port or free_port()
    configuration = directory / "conf"
    for folder in (configuration, directory / "warehouse", directory / "tmp"):
        folder.mkdir(parents=True, exist_ok=True)
    site = "hive-site.xml" if version == "2.3" else "metastore-site.xml"
    needed = _settings(database or f"jdbc:derby:memory:hms{port};create=true", directory, auto_create=auto_create)
    folders = [_jars_of(version)]
    if scheme != "thrift":
        needed = {**needed, **_OVER_HTTP}
        folders.append(jars(_HERE / "hive-http-pom.xml"))
    (configuration / site).write_text(_xml({**needed, **settings}), "utf-8")
    hadoop = {name: value for name, value in settings.items() if name.startswith("hadoop.")}
    if hadoop:
        (configuration / "core-site.xml").write_text(_xml(hadoop), "utf-8")
    (configuration / "log4j2.properties").write_text(_LOGGING, "utf-8")
    command = [
        java,
        "-Xmx512m",
        *class_data(f"hive-{version}"),
        f"-Dlog4j2.configurationFile={configuration}/log4j2.properties",
        f"-Dderby.stream.error.file={directory}/derby.log",
        f"-Djava.io.tmpdir={directory}/tmp",
        *java_options,
        "-cp",
        ":".join([*(f"{folder}/*" for folder in folders), *([str(configuration)] if hadoop else [])]),
        "org.apache.hadoop.hive.metastore.HiveMetaStore",
        "-p",
        str(port),
    ]
    log = directory / "metastore.log"
    started = Metastore(version, port, directory, auto_create, scheme)
    environment = {**os.environ, "HIVE_CONF_DIR": str(configuration)}
    with running(command, log, lambda: _answers(started.uri, login), environment=environment, directory=directory):
        yield started


def spark_jars() -> Path:
    """Return the folder of jars inside the installed pyspark; 2.3.10 is among them."""
    found = importlib.util.find_spec("pyspark")
    if found is None or found.origin is None:
        missing("pyspark is not installed: pip install 'lancens[spark]'")
    return Path(found.origin).parent / "jars"


def sql_schema() -> str:
    """Return the URL of a fresh in-memory database with the schema that 3.1.3's own SQL scripts make.

    ``autoCreate`` makes another one, with VARCHAR where a real installation has CLOB.
    """
    return f"jdbc:derby:memory:sql{free_port()};createFrom={_schema_template()}"


def _jars_of(version: Version) -> Path:
    return spark_jars() if version == "2.3" else jars(_HERE / f"hive{version[0]}-pom.xml")


def _answers(uri: str, login: Mapping[str, str]) -> bool:
    from thrift.Thrift import TException

    from reconciler.backends.hive.config import HiveConfig
    from reconciler.backends.hive.connection import connect

    config = HiveConfig.model_validate({"uri": uri, **login})
    connection = connect(config, config.uri[0])
    try:
        return bool(connection.client.get_databases("*"))
    except TException:
        return False
    finally:
        connection.close()


def _settings(database: str, directory: Path, *, auto_create: bool) -> Mapping[str, str]:
    """Return what each of the versions needs to run alone: none of these can be left out for all three."""
    return {
        "javax.jdo.option.ConnectionURL": database,
        "javax.jdo.option.ConnectionDriverName": _DERBY,
        "datanucleus.schema.autoCreateAll": str(auto_create).lower(),
        "hive.metastore.schema.verification": "false",
        "hive.metastore.warehouse.dir": f"file:{directory}/warehouse",
        "hive.metastore.expression.proxy": "org.apache.hadoop.hive.metastore.DefaultPartitionExpressionProxy",
        "metastore.expression.proxy": "org.apache.hadoop.hive.metastore.DefaultPartitionExpressionProxy",
        "metastore.task.threads.always": "org.apache.hadoop.hive.metastore.events.EventCleanerTask",
        "hive.metastore.event.db.notification.api.auth": "false",
        "hive.metastore.thrift.bind.host": "127.0.0.1",
        "hive.async.log.enabled": "false",
        "datanucleus.connectionPoolingType": "HikariCP",
        "hive.hmshandler.retry.attempts": "1",
        "hive.hmshandler.retry.interval": "100ms",
    }


def _xml(settings: Mapping[str, str]) -> str:
    properties = "".join(
        f"<property><name>{name}</name><value>{escape(value)}</value></property>\n" for name, value in settings.items()
    )
    return f"<configuration>\n{properties}</configuration>\n"


def _schema_template() -> Path:
    """Return a Derby database made by the schematool of 3.1.3, made once."""
    template = cache_directory() / "hive-schema-3.1.3"
    if template.is_dir():
        return template / "db"
    tools = jars(_HERE / "hive-schema-pom.xml")
    with tempfile.TemporaryDirectory(dir=template.parent) as scratch:
        home, made = Path(scratch) / "home", Path(scratch) / "made"
        with tarfile.open(next(tools.glob("*-bin.tar.gz"))) as archive:
            archive.extractall(home, filter="data")
        unpacked = next(home.iterdir())
        made.mkdir()
        configuration = Path(scratch) / "conf"
        configuration.mkdir()
        settings = {
            "javax.jdo.option.ConnectionURL": f"jdbc:derby:;databaseName={made}/db;create=true",
            "javax.jdo.option.ConnectionDriverName": _DERBY,
        }
        (configuration / "metastore-site.xml").write_text(_xml(settings), "utf-8")
        path = [configuration, _jars_of("3.1") / "*", unpacked / "lib" / "*", tools / "*"]
        command = [tool("java"), "-cp", ":".join(map(str, path))]
        command += ["org.apache.hadoop.hive.metastore.tools.MetastoreSchemaTool", "-dbType", "derby", "-initSchema"]
        done = subprocess.run(
            command,
            env={"METASTORE_HOME": str(unpacked), "PATH": "/usr/bin:/bin"},
            capture_output=True,
            text=True,
            timeout=HUNG_SECONDS,
            check=False,
            cwd=scratch,
        )
        if done.returncode != 0:
            missing(f"the schematool failed: {done.stdout[-1000:]}{done.stderr[-1000:]}")
        try:
            made.rename(template)
        except OSError:
            if not template.is_dir():  # otherwise another run was faster
                raise
    return template / "db"
