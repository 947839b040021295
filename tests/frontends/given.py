"""The addresses that a front end has given the library, as given.c notes them, and memory that
ranks have mapped. Imported by programs into which given.c is preloaded."""
import ctypes

NOTES_MAX = 256


class Note(ctypes.Structure):
    _fields_ = [("verb", ctypes.c_char * 16), ("send", ctypes.c_void_p), ("recv", ctypes.c_void_p)]


def take():
    """(verb, send, recv) of each call since the last take(); None where a call has no memory."""
    notes = (Note * NOTES_MAX)()
    count = ctypes.CDLL(None).given_take(notes, NOTES_MAX)
    return [(note.verb.decode(), note.send, note.recv) for note in notes[:count]]


def _mappings():
    """(begin, end, inode) of each mapping of this process."""
    with open("/proc/self/maps", encoding="ascii") as file:
        for line in file:
            cells = line.split(None, 5)
            begin, end = (int(part, 16) for part in cells[0].split("-"))
            yield begin, end, int(cells[4])


def inode_at(address):
    """The number of the file that is mapped at the address; 0: none."""
    return next(inode for begin, end, inode in _mappings() if begin <= address < end)


def has_mapped(inode):
    """Whether this process has mapped the file."""
    return any(inode == each for _, _, each in _mappings())
