"""A kernel without UDP segmentation, as Linux before 6.2, for a process: it refuses `TUN_F_USO4` and `TUN_F_USO6` for TAP devices."""
import ctypes
import errno
import platform
import struct

PR_SET_NO_NEW_PRIVS, PR_SET_SECCOMP, SECCOMP_MODE_FILTER = 38, 22, 2
IOCTL = {"x86_64": 16, "aarch64": 29}
TUNSETOFFLOAD, USO = 0x400454d0, 0x20 | 0x40
LOAD, IF_EQUAL, IF_SET, RETURN = 0x20, 0x15, 0x45, 0x06
ALLOW, REFUSE = 0x7fff0000, 0x00050000 | errno.EINVAL


def refuse_udp_segmentation():
    """Limits this process and its children; for `preexec_fn`."""
    # Of `struct seccomp_data`: the system call's number, then its second and third argument. All other calls are allowed.
    program = [(LOAD, 0, 0, 0), (IF_EQUAL, 0, 5, IOCTL[platform.machine()]),
               (LOAD, 0, 0, 24), (IF_EQUAL, 0, 3, TUNSETOFFLOAD),
               (LOAD, 0, 0, 32), (IF_SET, 0, 1, USO),
               (RETURN, 0, 0, REFUSE), (RETURN, 0, 0, ALLOW)]
    code = ctypes.create_string_buffer(b"".join(struct.pack("HBBI", *step) for step in program))
    filters = struct.pack("HxxxxxxP", len(program), ctypes.addressof(code))
    libc = ctypes.CDLL(None, use_errno=True)
    for call in ((PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), (PR_SET_SECCOMP, SECCOMP_MODE_FILTER, filters, 0, 0)):
        if libc.prctl(*call):
            raise OSError(ctypes.get_errno(), "prctl")
