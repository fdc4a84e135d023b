"""A segment of System V shared memory, which the X server writes pictures into (MIT-SHM)."""

import ctypes
import ctypes.util
import os
from typing import Any

IPC_PRIVATE, IPC_CREAT, IPC_RMID = 0, 0o1000, 0


class Segment:
    """Memory that server and service see; gone with the last of both."""

    def __init__(self, size: int) -> None:
        libc: Any = ctypes.CDLL(None, use_errno=True)
        libc.shmat.restype = ctypes.c_void_p
        libc.shmat.argtypes = (ctypes.c_int, ctypes.c_void_p, ctypes.c_int)
        libc.shmdt.argtypes = (ctypes.c_void_p,)
        libc.shmget.argtypes = (ctypes.c_int, ctypes.c_size_t, ctypes.c_int)
        self._libc = libc
        self.size = size
        self.id = libc.shmget(IPC_PRIVATE, size, IPC_CREAT | 0o600)
        if self.id < 0:
            raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
        self._address = libc.shmat(self.id, None, 0)
        if self._address in (None, ctypes.c_void_p(-1).value):
            self.forget()
            raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
        self.memory = (ctypes.c_char * size).from_address(self._address)

    def forget(self) -> None:
        """Have the kernel drop the segment as soon as nobody has it attached."""
        self._libc.shmctl(self.id, IPC_RMID, None)

    def close(self) -> None:
        """Detach it."""
        self._libc.shmdt(self._address)
