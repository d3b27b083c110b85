"""Communicators of the MPI that librenga is linked with. MPI begins with the import and ends with Python, as with mpi4py."""
import atexit
import ctypes
import os
import pickle

_mpi = ctypes.CDLL(os.environ["RENGA_LIBRARY"])
_OPEN = hasattr(_mpi, "ompi_mpi_comm_world")
_Handle = ctypes.c_void_p if _OPEN else ctypes.c_int
_MESSAGE, _THREAD_MULTIPLE = 4096, 3


def _predefined(name, mpich):
    return _Handle(ctypes.addressof(ctypes.c_char.in_dll(_mpi, name)) if _OPEN else mpich)


_BYTE = _predefined("ompi_mpi_byte", 0x4C00010D)


def _call(name, *arguments):
    if getattr(_mpi, name)(*arguments):
        raise RuntimeError(name)


class Comm:
    def __init__(self, handle):
        self.handle = handle

    def _number(self, name):
        number = ctypes.c_int()
        _call(name, self.handle, ctypes.byref(number))
        return number.value

    @property
    def rank(self):
        return self._number("MPI_Comm_rank")

    @property
    def size(self):
        return self._number("MPI_Comm_size")

    def Split(self, color=0, key=0):
        part = _Handle()
        _call("MPI_Comm_split", self.handle, color, key, ctypes.byref(part))
        return Comm(part)

    def allgather(self, thing):
        data = pickle.dumps(thing)
        assert len(data) <= _MESSAGE
        mine, all_of_them = ctypes.create_string_buffer(data, _MESSAGE), ctypes.create_string_buffer(_MESSAGE * self.size)
        _call("MPI_Allgather", mine, _MESSAGE, _BYTE, all_of_them, _MESSAGE, _BYTE, self.handle)
        return [pickle.loads(all_of_them.raw[r * _MESSAGE:(r + 1) * _MESSAGE]) for r in range(self.size)]


def _addressof(comm):
    return ctypes.addressof(comm.handle)


def Get_library_version():
    """MPI_VERSION_SAID: what another MPI would say."""
    text = ctypes.create_string_buffer(8192)
    _call("MPI_Get_library_version", text, ctypes.byref(ctypes.c_int()))
    return os.environ.get("MPI_VERSION_SAID") or text.value.decode(errors="replace")


_call("MPI_Init_thread", None, None, _THREAD_MULTIPLE, ctypes.byref(ctypes.c_int()))
atexit.register(_call, "MPI_Finalize")
COMM_WORLD = Comm(_predefined("ompi_mpi_comm_world", 0x44000000))
