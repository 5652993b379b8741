"""Isolation of this process: namespaces, a private file system, no privileges, few system calls. Linux only.

It runs as text before the rest of the supervisor (`supervisor.py`), so it imports nothing of ours.
"""

import contextlib
import ctypes
import errno
import os
import platform
import signal
import struct
from typing import Any

# From the kernel's headers: sched.h, mount.h, prctl.h, capability.h.
NEW_ALL = 0x10000000 | 0x00020000 | 0x20000000 | 0x40000000 | 0x08000000 | 0x04000000 | 0x02000000
"""User, mount, process, network, IPC, host name and cgroup namespaces."""
NOSUID, NODEV, NOEXEC, BIND, RECURSIVE, PRIVATE = 2, 4, 8, 4096, 16384, 1 << 18
DETACH = 2
MOUNT_SETATTR, AT_FDCWD, AT_RECURSIVE = 442, -100, 0x8000  # the number is the same on all architectures
ATTR_RDONLY, ATTR_NOSUID, ATTR_NODEV = 1, 2, 4
DUMPABLE, PARENT_DEATH, DROP_BOUNDING, NO_NEW_PRIVILEGES, SUBREAPER, AMBIENT = 4, 1, 24, 38, 36, 47
CLEAR_AMBIENT = 4
CAPABILITY_VERSION = 0x20080522
DEVICES = ("null", "zero", "full", "random", "urandom")
LIBC = ctypes.CDLL(None, use_errno=True)
Job = dict[str, Any]  # Any: JSON

# System calls that a program does not need: they reach into other processes or the kernel, or take memory that no
# limit counts. Values are the numbers on x86-64 and ARM64.
CALLS = {
    "ptrace": (101, 117),
    "process_vm_readv": (310, 270),
    "process_vm_writev": (311, 271),
    "shmget": (29, 194),
    "shmat": (30, 196),
    "msgget": (68, 186),
    "semget": (64, 190),
    "memfd_create": (319, 279),
    "memfd_secret": (447, 447),
    "add_key": (248, 217),
    "request_key": (249, 218),
    "keyctl": (250, 219),
    "bpf": (321, 280),
    "perf_event_open": (298, 241),
    "userfaultfd": (323, 282),
    "io_uring_setup": (425, 425),
    "unshare": (272, 97),
    "setns": (308, 268),
    "mount": (165, 40),
    "umount2": (166, 39),
    "open_tree": (428, 428),
    "fsopen": (430, 430),
    "mount_setattr": (442, 442),
    "pivot_root": (155, 41),
    "chroot": (161, 51),
    "personality": (135, 92),
    "socket": (41, 198),  # of any family: there is no one to connect to
}
SOCKETPAIR, UNIX = (53, 199), 1
"""Socket pairs of one family stay allowed, since asyncio needs them."""
CLONE, CLONE3 = (56, 220), 435
MACHINES = {"x86_64": (0, 0xC000003E), "aarch64": (1, 0xC00000B7)}
"""A machine's column in `CALLS`, and its number in audit.h; on other machines no call is forbidden."""
ALLOW, KILL, DENY = 0x7FFF0000, 0x80000000, 0x00050000
LOAD, EQUAL, AT_LEAST, HAS, RETURN = 0x20, 0x15, 0x35, 0x45, 0x06  # instructions of the filter (bpf_common.h)
SET_SECCOMP, BY_FILTER, NEW_USER = 22, 2, 0x10000000


class Refusal(Exception):
    """The machine does not support the isolation."""


def called(name: str, *arguments: Any) -> None:
    """Call the C library; raise Refusal with the system's reason on failure."""
    if getattr(LIBC, name)(*arguments) == -1:
        raise Refusal(f"{name}: {os.strerror(ctypes.get_errno())}")


def mount(source: str | None, target: str, kind: str | None, flags: int, data: str | None = None) -> None:
    """Mount a file system, or bind a part of one elsewhere; None is a null pointer."""
    texts = [None if text is None else text.encode() for text in (source, target, kind, data)]
    called("mount", texts[0], texts[1], texts[2], ctypes.c_ulong(flags), texts[3])


def seal(path: str, attributes: int, recursive: bool) -> None:
    """Make a mount read-only or restrict it otherwise, with all mounts below it if recursive."""
    changes = (ctypes.c_uint64 * 4)(attributes, 0, 0, 0)
    at = AT_RECURSIVE if recursive else 0
    called("syscall", MOUNT_SETATTR, AT_FDCWD, path.encode(), at, ctypes.byref(changes), ctypes.sizeof(changes))


def enter() -> None:
    """Enter new namespaces as their process 1; the original process waits outside and ends with it."""
    user, group = os.getuid(), os.getgid()
    if LIBC.unshare(NEW_ALL) == -1:
        raise Refusal(f"this machine does not allow user namespaces ({os.strerror(ctypes.get_errno())})")
    for name, text in [("setgroups", "deny"), ("uid_map", f"{user} {user} 1"), ("gid_map", f"{group} {group} 1")]:
        with open(f"/proc/self/{name}", "w") as file:
            file.write(text)
    if child := os.fork():
        os._exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) & 0xFF)
    called("prctl", PARENT_DEATH, signal.SIGKILL, 0, 0, 0)


def furnish(job: Job) -> None:
    """Build the file system: the paths that Python needs, read-only, and a scratch directory in memory, /tmp."""
    mount(None, "/", None, RECURSIVE | PRIVATE)
    mount("tmpfs", "/tmp", "tmpfs", NOSUID | NODEV, "size=1m,nr_inodes=4096,mode=755")
    os.makedirs("/tmp/old")
    os.makedirs("/tmp/new")
    called("pivot_root", b"/tmp", b"/tmp/old")
    mount("/new", "/new", None, BIND)
    for path in job["shown"]:
        show(path)
    for path, target in job["links"]:
        os.symlink(target, f"/new{path}")
    for name in ("proc", "dev", "tmp"):
        os.makedirs(f"/new/{name}", exist_ok=True)
    for name in DEVICES:
        open(f"/new/dev/{name}", "w").close()
        mount(f"/old/dev/{name}", f"/new/dev/{name}", None, BIND)
    mount("proc", "/new/proc", "proc", NOSUID | NODEV | NOEXEC)
    mount("tmpfs", "/new/tmp", "tmpfs", NOSUID | NODEV, f"size={job['scratch']},nr_inodes=1024,mode=700")
    os.chdir("/new")
    called("umount2", b"/old", DETACH)
    called("pivot_root", b".", b".")
    called("umount2", b".", DETACH)
    seal("/", ATTR_RDONLY, recursive=False)
    os.chdir("/tmp")


def show(path: str) -> None:
    """Make a directory or file of the machine visible, read-only."""
    if os.path.isdir(f"/old{path}"):
        os.makedirs(f"/new{path}", exist_ok=True)
    else:
        os.makedirs(os.path.dirname(f"/new{path}"), exist_ok=True)
        open(f"/new{path}", "w").close()
    mount(f"/old{path}", f"/new{path}", None, BIND | RECURSIVE)
    seal(f"/new{path}", ATTR_RDONLY | ATTR_NOSUID | ATTR_NODEV, recursive=True)


def renounce() -> None:
    """Drop every privilege, including those of the namespaces and those that a set-user-id file would give."""
    # Forbid nested namespaces if these are ours; and if the machine runs out of memory, end the program first.
    for path, text in [("/proc/sys/user/max_user_namespaces", "0"), ("/proc/self/oom_score_adj", "1000")]:
        with contextlib.suppress(OSError), open(path, "w") as file:
            file.write(text)
    capability = 0
    while LIBC.prctl(DROP_BOUNDING, capability, 0, 0, 0) == 0:
        capability += 1
    LIBC.prctl(AMBIENT, CLEAR_AMBIENT, 0, 0, 0)
    header, none = (ctypes.c_uint32 * 2)(CAPABILITY_VERSION, 0), (ctypes.c_uint32 * 6)()
    called("capset", ctypes.byref(header), ctypes.byref(none))
    called("prctl", NO_NEW_PRIVILEGES, 1, 0, 0, 0)
    called("prctl", DUMPABLE, 0, 0, 0, 0)  # late: a change of privileges resets it
    called("prctl", SUBREAPER, 1, 0, 0, 0)  # daemonized processes become our children


def rules(column: int, audit: int) -> list[tuple[int, int, int, int]]:
    """Return the filter of system calls, as (instruction, jump if true, jump if false, operand)."""
    denied = DENY | errno.EPERM
    lines = [
        (LOAD, 0, 0, 4),  # the machine of the call
        (EQUAL, 1, 0, audit),
        (RETURN, 0, 0, KILL),
        (LOAD, 0, 0, 0),  # the number of the call
        (AT_LEAST, 0, 1, 1 << 30),  # x32: the same calls under other numbers
        (RETURN, 0, 0, KILL),
        (EQUAL, 0, 1, CLONE3),  # its flags cannot be read here; the C library falls back on clone
        (RETURN, 0, 0, DENY | errno.ENOSYS),
    ]
    for numbers in CALLS.values():
        lines += [(EQUAL, 0, 1, numbers[column]), (RETURN, 0, 0, denied)]
    lines += [(EQUAL, 0, 3, CLONE[column]), (LOAD, 0, 0, 16), (HAS, 0, 1, NEW_USER), (RETURN, 0, 0, denied)]
    lines += [(LOAD, 0, 0, 0), (EQUAL, 0, 3, SOCKETPAIR[column]), (LOAD, 0, 0, 16), (EQUAL, 1, 0, UNIX)]
    return [*lines, (RETURN, 0, 0, denied), (RETURN, 0, 0, ALLOW)]


def forbid() -> None:
    """Permanently forbid the system calls that a program does not need, in this process too."""
    if (machine := platform.machine()) not in MACHINES:
        return
    lines = rules(*MACHINES[machine])
    code = ctypes.create_string_buffer(b"".join(struct.pack("=HBBI", *line) for line in lines))
    program = struct.pack("@HP", len(lines), ctypes.addressof(code))
    called("prctl", SET_SECCOMP, BY_FILTER, ctypes.c_char_p(program), 0, 0)
