"""The two commands of README.md, word for word, in a bare Debian: nothing but its base system.

    python -m tests.packaging.bare [--tests] [--user root] [--suite bookworm] [--keep DIRECTORY]

debootstrap makes the root, as root; a clone of HEAD lies in it. What pip and apt of this machine
are configured to do, they are in there. The root's mounts are in a namespace of their own: nothing
of this machine is in reach of what runs in there, nor of what removes the root.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[2]
OPERATOR: Final = "rmq-user"
CLONE: Final = "/srv/rmqtool"
COMMAND: Final = re.compile(r"^```sh\n(.*)\n```$", re.MULTILINE)
# A user who may use sudo, as people have it.
BECOME: Final = f"""
apt-get update -qq && apt-get install -y -qq --no-install-recommends sudo >/dev/null
useradd --create-home {OPERATOR}
echo '{OPERATOR} ALL=(ALL) NOPASSWD: ALL' > /etc/sudoers.d/{OPERATOR}
chown -R {OPERATOR} {CLONE}
"""
ENTER: Final = """
mount --bind "$0" "$0"  # a root of mounts, so that tests can have namespaces of their own
mount -t proc proc "$0/proc"
mkdir -p "$0/dev/shm" "$0/dev/pts"
mount -t tmpfs -o mode=1777 shm "$0/dev/shm"
mount -t devpts -o newinstance,ptmxmode=0666 devpts "$0/dev/pts"
exec chroot --userspec="$1" "$0" bash -c "cd $2 && $3"
"""
# Files that clients of package registries are told by the environment: certificates.
FILES: Final = ("PIP_CERT", "SSL_CERT_FILE", "REQUESTS_CA_BUNDLE")
TRUSTED: Final = Path("/etc/ssl/certs/java/cacerts")  # the same for Maven


def commands() -> list[str]:
    """Give the commands of the page: to set up and validate, to set up and test."""
    return COMMAND.findall((ROOT / "README.md").read_text(encoding="utf-8"))


def is_possible() -> bool:
    """Say whether such a root can be made here."""
    return os.geteuid() == 0 and bool(shutil.which("debootstrap") and shutil.which("unshare"))


def make(root: Path, suite: str) -> None:
    """Make a bare root, with a clone of HEAD."""
    root.mkdir(exist_ok=True)
    root.chmod(0o755)  # it is `/` in there, also for users who are not root
    _run(["debootstrap", "--variant=minbase", suite, str(root)])
    clone = root / CLONE.lstrip("/")
    _run(["git", "clone", "-q", str(ROOT), str(clone)])
    _run(["chown", "-R", "root:root", str(clone)])
    for name in ("resolv.conf", "hosts"):
        shutil.copy(f"/etc/{name}", root / "etc")
    (root / "etc/host").mkdir()
    for name in FILES:
        if file := os.environ.get(name):
            shutil.copy(file, root / "etc/host" / name)
    if TRUSTED.exists():
        shutil.copy(TRUSTED, root / "etc/host" / TRUSTED.name)


def run(root: Path, user: str, command: str) -> subprocess.CompletedProcess[bytes]:
    """Run a line of a shell in there, as a user."""
    home = "/root" if user == "root" else f"/home/{user}"
    environment = {
        **{name: value for name, value in os.environ.items() if name.startswith("PIP_DEFAULT")},
        **{name: f"/etc/host/{name}" for name in FILES if (root / "etc/host" / name).exists()},
        "MAVEN_OPTS": f"-Djavax.net.ssl.trustStore=/etc/host/{TRUSTED.name}",
        "HOME": home, "USER": user, "LANG": "C.UTF-8", "TERM": "xterm",
        "PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
    }  # fmt: skip
    apart = ["unshare", "--mount", "--propagation", "private", "bash", "-euc", ENTER]
    return subprocess.run(  # noqa: S603 - our own commands
        [*apart, str(root), user, CLONE, command], env=environment, check=False,
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
    )  # fmt: skip


def size(directory: Path) -> int:
    """Give the MB of a directory."""
    done = subprocess.run(["du", "-sm", directory], capture_output=True, check=True)  # noqa: S603, S607
    return int(done.stdout.split()[0])


def remove(root: Path) -> None:
    """Remove a root; nothing is mounted in it but in namespaces that have ended."""
    mounts = Path("/proc/self/mountinfo").read_text(encoding="utf-8").splitlines()
    if any(Path(line.split()[4]).is_relative_to(root) for line in mounts):
        sys.exit(f"something is mounted below {root}: it stays")
    _run(["rm", "-rf", "--one-file-system", str(root)])


def _run(command: list[str]) -> None:
    subprocess.run(command, stdout=subprocess.DEVNULL, check=True)  # noqa: S603


def main() -> int:
    """Make the root, run a command of the page in it, and say what it took."""
    parser = argparse.ArgumentParser(prog="python -m tests.packaging.bare", description=__doc__)
    parser.add_argument("--tests", action="store_true", help="the second command")
    parser.add_argument("--user", choices=("root", OPERATOR), default="root")
    parser.add_argument("--suite", default="bookworm")
    parser.add_argument("--keep", type=Path, help="the root is made here, or is here, and stays")
    given = parser.parse_args()
    if not is_possible():
        sys.exit("needs root, debootstrap and unshare")
    root = (given.keep or Path(tempfile.mkdtemp(prefix="rmqtool-bare-"))).absolute()
    try:
        if not (root / "etc").exists():
            make(root, given.suite)
        if given.user != "root" and not (root / "home" / given.user).exists():
            run(root, "root", BECOME).check_returncode()
        before, begin = size(root), time.monotonic()
        done = run(root, given.user, commands()[given.tests])
        seconds = time.monotonic() - begin
        sys.stdout.write(done.stdout.decode("utf-8", "replace"))
        more = f"{size(root) - before} MB more in the root"
        print(f"exit {done.returncode}, {seconds:.0f} s, {more}")  # noqa: T201
        return done.returncode
    finally:
        if not given.keep:
            remove(root)


if __name__ == "__main__":
    sys.exit(main())
