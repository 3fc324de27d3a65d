"""Orderly stops of brokers and message stores, without what they only sleep over.

A stop takes 7 to 12 seconds, and half a second of CPU. It sleeps for three in
`DefaultMessageStore#shutdown` (4.9.3: one), for two in `PopBufferMergeService#run`, and up to three
for each `NettyEventExecutor#run`, which asks for events that are of no use any more. These are
woken. What a stop waits for since it is still being written, is waited for here, too.
"""

from __future__ import annotations

import re
import time
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from py4j.java_gateway import JavaObject

    from tests.broker.jvm import Jvm

_LOOK_SECONDS: Final = 0.05
_DEPTH: Final = 8
_SLEEPS: Final = re.compile(
    r"\bThread\.sleep\(.*\n.*\b(DefaultMessageStore\.shutdown|PopBufferMergeService\.run)\("
)
_ENDS_A_SERVER: Final = re.compile(r"\.NettyRemoting(Server|Client)\.shutdown\(")


def stop(jvm: Jvm, owner: JavaObject) -> None:
    """Call `shutdown` of a broker's controller or a message store, and wait until it comes back.

    Raises:
        Py4JJavaError: it threw something.
    """
    names = ("NettyEventExecutor", "PopBufferMergeService")
    threads = [
        (thread, name)
        for thread in jvm.java("java.lang.Thread").getAllStackTraces().keySet()
        if (name := str(thread.getName())).endswith(names)
    ]
    ending, stopper = _call(jvm, owner)
    stopper.start()
    while not ending.isDone():
        stack = _stack(jvm, stopper)
        if _SLEEPS.search(stack):
            stopper.interrupt()
        for thread, name in threads:
            is_netty = name.endswith(names[0])
            if _ENDS_A_SERVER.search(stack) if is_netty else _SLEEPS.search(_stack(jvm, thread)):
                thread.interrupt()
        time.sleep(_LOOK_SECONDS)
    ending.get()


def _call(jvm: Jvm, owner: JavaObject) -> tuple[JavaObject, JavaObject]:
    """Give the answer that will be there, and a thread that can be asked where it is."""
    handles = jvm.java("java.lang.invoke.MethodHandles")
    nothing = jvm.java("java.lang.Void").TYPE
    kind = jvm.java("java.lang.invoke.MethodType").methodType(nothing)
    shutdown = handles.publicLookup().bind(owner, "shutdown", kind)
    callable_ = jvm.java("java.lang.Class").forName("java.util.concurrent.Callable")
    proxies = jvm.java("java.lang.invoke.MethodHandleProxies")
    task = jvm.java("java.util.concurrent.FutureTask")(
        proxies.asInterfaceInstance(callable_, shutdown)
    )
    return task, jvm.java("java.lang.Thread")(task)


def _stack(jvm: Jvm, thread: JavaObject) -> str:
    """Give the innermost calls of a thread as text; nothing of one that has ended."""
    beans = jvm.java("java.lang.management.ManagementFactory").getThreadMXBean()
    return str(beans.getThreadInfo(thread.getId(), _DEPTH))
