"""A Java process with RocketMQ's classes in it, driven over py4j.

One process is one life of a broker: a crash ends it by a kill, and everything that Java does
at an orderly exit is then left undone, just as when a machine loses its power.
"""

from __future__ import annotations

import contextlib
import logging
import os
import shutil
import subprocess
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Final, Self, TextIO

from py4j.java_gateway import (
    CallbackServerParameters,
    GatewayParameters,
    JavaClass,
    JavaGateway,
    JavaObject,
    java_import,
    launch_gateway,
)
from py4j.protocol import Py4JError, Py4JJavaError

from tests.broker.jars import jar_directory
from tests.class_archive import WRITES, archive, make, reading

_ROOT: Final = Path(__file__).parents[2]
_OPENED: Final = (
    "java.nio",
    "sun.nio.ch",
    "jdk.internal.ref",
    "java.lang",
    "java.util",
    "java.lang.reflect",
    "java.net",
)
_EXPORTED: Final = ("jdk.internal.ref", "sun.nio.ch")
# Two cores are shared with the tests: the first compiler and the serial collector start quickest.
_MODEST: Final = (
    "-Xmx512m",
    "-XX:MaxDirectMemorySize=512m",
    "-XX:+UseSerialGC",
    "-XX:TieredStopAtLevel=1",
    *("-XX:+UnlockDiagnosticVMOptions", "-XX:-BytecodeVerificationRemote"),  # a tenth of a start
    # Else each broker and name server makes an RSA key at its start, with Java's own arithmetic and
    # its first compiler: 3.5 of 6.3 seconds of CPU of a 5.3.3 broker, for TLS that no test speaks.
    "-Dtls.server.mode=disabled",
    "-Drocketmq.client.rebalance.waitInterval=1000",  # of a consumer, for new queues; not 20 s
    "-Duser.timezone=UTC",
    "-Dfile.encoding=UTF-8",
    "-Dsun.jnu.encoding=UTF-8",  # file names, whatever the locale of the tests
)
_SILENT_LOGBACK: Final = '<configuration><root level="OFF"/></configuration>\n'
_LOGBACK_FILES: Final = ("logback_broker.xml", "logback_namesrv.xml", "logback_tools.xml")

# A halted process is an expected end here, and py4j would log a traceback for it.
logging.getLogger("py4j").setLevel(logging.CRITICAL)


class Jvm:
    """A Java process of one RocketMQ version; a context manager that leaves no process behind.

    Args:
        version: RocketMQ's version, as in `4.9.3`.
        home: working directory, `user.home` and `rocketmq.home.dir` of the process; logs of
            RocketMQ go there, too.
        ipv6: whether the process may use IPv6; message IDs made by its clients are then longer.
        options: of Java, which win over the modest ones that tests need.
        user: number of an ordinary user that it runs as; only root may say so.
    """

    def __init__(
        self,
        version: str,
        home: Path,
        *,
        ipv6: bool = False,
        options: Sequence[str] = (),
        user: int | None = None,
    ) -> None:
        self.version = version
        self.home = home
        self._ipv6 = ipv6
        self._options = tuple(options)
        self._user = user
        self._classes: dict[str, JavaClass] = {}
        self._log = self._prepare_home()
        port, self._process = self._launch()
        self.gateway = JavaGateway(
            # Managed memory would send a message for each dead proxy, also to a halted process.
            gateway_parameters=GatewayParameters(
                port=port, auto_convert=True, enable_memory_management=False
            ),
            callback_server_parameters=CallbackServerParameters(
                port=0, daemonize=True, daemonize_connections=True
            ),
        )
        java_import(self.gateway.jvm, "java.util.*")
        self._route_callbacks()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if isinstance(error, Py4JJavaError) and self.is_running:
            # The exception lives in Java, and its words would go with the process.
            error.add_note(str(error))
        self.halt()

    @property
    def is_five(self) -> bool:
        """Whether this is a 5.x: several constructors and packages differ from 4.x."""
        return not self.version.startswith("4.")

    @property
    def is_running(self) -> bool:
        """Whether the process has not ended."""
        return self._process.poll() is None

    def java(self, name: str) -> JavaClass:
        """Return the Java class of that full name; call it to construct, or use its statics."""
        if name not in self._classes:
            found = self.gateway.jvm
            for part in name.split("."):
                found = getattr(found, part)
            self._classes[name] = found
        return self._classes[name]

    def rocketmq(self, name: str) -> JavaClass:
        """Return a class by its name below `org.apache.rocketmq`."""
        return self.java(f"org.apache.rocketmq.{name}")

    def strings(self, values: Iterable[str]) -> JavaObject:
        """Return a Java `String[]`."""
        texts = list(values)
        array = self.gateway.new_array(self.gateway.jvm.java.lang.String, len(texts))
        for at, text in enumerate(texts):
            array[at] = text
        return array

    def properties(self, values: Mapping[str, object]) -> JavaObject:
        """Return a Java `Properties` of these values as text."""
        properties = self.java("java.util.Properties")()
        for name, value in values.items():
            properties.setProperty(name, java_text(value))
        return properties

    def exit(self) -> None:
        """End the process as Java ends by itself."""
        with contextlib.suppress(Py4JError):  # no answer comes
            self.java("java.lang.System").exit(0)
        self._process.wait()

    def halt(self) -> None:
        """End the process at once: no shutdown hook runs, nothing is flushed or deleted."""
        self._process.kill()
        with contextlib.suppress(Py4JError, OSError):
            self.gateway.shutdown_callback_server()
        with contextlib.suppress(Py4JError, OSError):
            self.gateway.close()
        self._process.wait()
        for stream in (self._process.stdin, self._process.stdout):
            if stream is not None:
                with contextlib.suppress(OSError):
                    stream.close()
        if not self._log.closed:
            self._log.close()

    def _prepare_home(self) -> TextIO:
        conf = self.home / "conf"
        conf.mkdir(parents=True, exist_ok=True)
        for name in _LOGBACK_FILES:  # 4.9.x refuses to start without them
            (conf / name).write_text(_SILENT_LOGBACK, encoding="utf-8")
        return (self.home / "jvm.log").open("a", encoding="utf-8")

    def _launch(self) -> tuple[int, subprocess.Popen[bytes]]:
        options = [
            *(f"--add-opens=java.base/{name}=ALL-UNNAMED" for name in _OPENED),
            *(f"--add-exports=java.base/{name}=ALL-UNNAMED" for name in _EXPORTED),
            *_MODEST,
            *self._archive(),
            f"-Djava.net.preferIPv4Stack={java_text(not self._ipv6)}",
            f"-Duser.home={self.home}",
            f"-Drocketmq.home.dir={self.home}",
            *self._options,
        ]
        port, process = launch_gateway(
            classpath=f"{self._jars()}/*",
            javaopts=options,
            die_on_exit=True,  # the process ends with this one, however this one ends
            redirect_stdout=self._log,
            redirect_stderr=self._log,
            cwd=str(self.home),
            return_proc=True,
            java_path=self._java(),
        )
        return port, process

    def _archive(self) -> tuple[str, ...]:
        """Give options that map the classes of a broker; the first one that asks makes that."""
        is_making = any(option.startswith(WRITES) for option in self._options)
        if is_making or self._user is not None:  # whose jars are his own
            return ()
        path = archive(f"broker-{self.version}", jar_directory(self.version).glob("*.jar"))
        if path is not None:
            make(path, self._run_once)
        return reading(path)

    def _run_once(self, new: Path, scratch: Path) -> None:
        words = ["-m", "tests.broker.run_once", self.version, str(new), str(scratch)]
        subprocess.run([sys.executable, *words], cwd=_ROOT, capture_output=True, check=False)  # noqa: S603

    def _jars(self) -> Path:
        """Give the jars, where another user may be kept from them a copy of his own."""
        kept = jar_directory(self.version)
        if self._user is None:
            return kept
        return Path(shutil.copytree(kept, self.home / "jars"))

    def _java(self) -> str:
        """Give the program to run: Java, or what becomes Java once it is that user."""
        if self._user is None:
            return "java"
        program = self.home / "java"
        who = f"--reuid={self._user} --regid={self._user} --clear-groups"
        program.write_text(f'#!/bin/sh\nexec setpriv {who} java "$@"\n', encoding="utf-8")
        program.chmod(0o755)
        for path in (self.home, *self.home.rglob("*")):
            os.chown(path, self._user, self._user)
        return str(program)

    def _route_callbacks(self) -> None:
        # The Java side was told port 0 and has to learn which one the system gave.
        server = self.gateway.get_callback_server()
        self.gateway.java_gateway_server.resetCallbackClient(
            self.gateway.java_gateway_server.getCallbackClient().getAddress(),
            server.get_listening_port(),
        )


def java_text(value: object) -> str:
    """Return a setting's value as a properties file has it: booleans in lower case."""
    return str(value).lower() if isinstance(value, bool) else str(value)
