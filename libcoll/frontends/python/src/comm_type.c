/*
 * The type coll.Comm: its table of methods and their documentation, whose examples
 * tests/frontends/python runs on two ranks.
 */
#include "comm.h"

PyTypeObject *comm_type;

#define SETUP ">>> import numpy as np\n>>> comm = coll.init()\n"
#define CLOSE ">>> comm.close()\n"
/* What all verbs have in common. */
#define COMMON                                                                                   \
  "\n\nArrays are NumPy's, of the buffer protocol or of DLPack (PyTorch); help(coll) says more " \
  "about them.\n`dtype` names the element type where the array cannot, as "                      \
  "'bfloat16' of uint16. With `stream`, returns a Work.\n\n"

static PyObject *get_rank(PyObject *self, void *unused) {
  (void)unused;
  comm_object_t *comm = (comm_object_t *)self;
  return comm_check(comm) ? PyLong_FromLong(comm->rank) : NULL;
}

static PyObject *get_size(PyObject *self, void *unused) {
  (void)unused;
  comm_object_t *comm = (comm_object_t *)self;
  return comm_check(comm) ? PyLong_FromLong(comm->size) : NULL;
}

static PyObject *get_handle(PyObject *self, void *unused) {
  (void)unused;
  comm_object_t *comm = (comm_object_t *)self;
  return comm_check(comm) ? PyLong_FromVoidPtr(comm->comm) : NULL;
}

static PyObject *get_closed(PyObject *self, void *unused) {
  (void)unused;
  comm_object_t *comm = (comm_object_t *)self;
  return PyBool_FromLong(comm->comm == NULL && !comm->pending);
}

static PyObject *get_bytes_sent(PyObject *self, void *unused) {
  (void)unused;
  uint64_t bytes;
  comm_object_t *comm = (comm_object_t *)self;
  if (!comm_check(comm)) return NULL;
  coll_status_t status = coll_comm_bytes_sent(comm->comm, &bytes);
  if (status != COLL_OK) return raise_status(status, NULL);
  return PyLong_FromUnsignedLongLong(bytes);
}

static PyObject *comm_text(PyObject *self) {
  comm_object_t *comm = (comm_object_t *)self;
  if (comm->comm == NULL) return PyUnicode_FromString("<coll.Comm, closed>");
  return PyUnicode_FromFormat("<coll.Comm, rank %d of %d>", comm->rank, comm->size);
}

static PyObject *comm_enter(PyObject *self, PyObject *unused) {
  (void)unused;
  return comm_check((comm_object_t *)self) ? Py_NewRef(self) : NULL;
}

#define VERB(name, doc) \
  { #name, FAST(comm_##name), METH_FASTCALL | METH_KEYWORDS, doc }

static PyMethodDef methods[] = {
    VERB(allreduce,
         "allreduce($self, /, x, op='sum', *, out=None, dtype=None, stream=None)\n--\n\nThe "
         "reduction of x over all ranks, on every rank: an array of x's shape and type.\n\nWith "
         "`out`, the result goes there (which may be x: in place). `op` is 'sum', 'prod', 'max', "
         "'min', 'avg', for integers\nalso 'band', 'bor', 'bxor', or what premul_sum() "
         "returns." COMMON SETUP
         ">>> print(comm.allreduce(np.array([1.0, 2.0])))\n[2. 4.]\n" CLOSE),
    VERB(reduce,
         "reduce($self, /, x, op='sum', root=0, *, out=None, dtype=None, stream=None)\n--\n\nThe "
         "reduction of x over all ranks at the root; None on the other ranks." COMMON SETUP
         ">>> y = comm.reduce(np.array([3, 4]), 'prod', root=1)\n>>> print(y if comm.rank == 1 "
         "else [9, 16])  # doctest: +NORMALIZE_WHITESPACE, +ELLIPSIS\n[...9... 16]\n" CLOSE),
    VERB(reduce_scatter,
         "reduce_scatter($self, /, x, op='sum', *, out=None, dtype=None, stream=None)\n--\n\nThe "
         "reduction of row `rank` of x over all ranks.\n\nx has a row for each rank: shape (size, "
         "...); the result has shape (...). With `out`, x may have any shape, and is\ndivided "
         "into blocks of equal size." COMMON SETUP
         ">>> print(comm.reduce_scatter(np.array([[1, 2], [1, 2]])))\n[2 4]\n" CLOSE),
    VERB(allgather,
         "allgather($self, /, x, *, out=None, dtype=None, stream=None)\n--\n\nThe x of all ranks, "
         "on every rank: shape (size, ...) for x of shape (...).\n\n`out` may have any shape of "
         "as many elements, as (size * k,) for x of shape (k,)." COMMON SETUP
         ">>> print(comm.allgather(np.array([comm.rank, 7])))\n[[0 7]\n [1 7]]\n" CLOSE),
    VERB(broadcast,
         "broadcast($self, /, x, root=0, *, dtype=None, stream=None)\n--\n\nOverwrites x with "
         "that of the root, and returns it." COMMON SETUP
         ">>> print(comm.broadcast(np.full(2, comm.rank + 5), root=1))\n[6 6]\n" CLOSE),
    VERB(gather,
         "gather($self, /, x, root=0, *, out=None, dtype=None, stream=None)\n--\n\nThe x of all "
         "ranks at the root, of shape (size, ...); None on the other ranks." COMMON SETUP
         ">>> rows = comm.gather(np.array([comm.rank]))\n>>> print([[0], [1]] if rows is None else "
         "rows.tolist())\n[[0], [1]]\n" CLOSE),
    VERB(scatter,
         "scatter($self, /, x, root=0, *, out=None, dtype=None, stream=None)\n--\n\nRow `rank` of "
         "the root's x, which has shape (size, ...).\n\nOther ranks pass x=None, and `out`, into "
         "which their row goes." COMMON SETUP
         ">>> x = np.array([[1, 2], [1, 2]]) if comm.rank == 0 else None\n>>> "
         "print(comm.scatter(x, out=np.empty(2, int)))\n[1 2]\n" CLOSE),
    VERB(
        alltoall,
        "alltoall($self, /, x, *, out=None, dtype=None, stream=None)\n--\n\nRow j of x goes to "
        "rank j, whose row `rank` it becomes. x and the result have shape (size, ...)." COMMON SETUP
        ">>> print(comm.alltoall(np.full((2, 1), comm.rank)))\n[[0]\n [1]]\n" CLOSE),
    VERB(alltoallv,
         "alltoallv($self, /, x, send_counts, recv_counts, *, send_displs=None, recv_displs=None, "
         "out=None, dtype=None, stream=None)\n--\n\nsend_counts[j] elements of x go to rank j; "
         "recv_counts[j] come from there, as many as rank j sends.\n\nCounts and displacements are "
         "in elements, one for each rank; without displacements blocks follow each other.\nThe "
         "result has one axis. There is no in-place form." COMMON SETUP
         ">>> print(comm.alltoallv(np.arange(3), [1, 2], [1, 1] if comm.rank == 0 else [2, 2])"
         "[:2] * 0)\n[0 0]\n" CLOSE),
    VERB(barrier,
         "barrier($self, /, *, stream=None)\n--\n\nReturns when all ranks have called it."),
    VERB(send,
         "send($self, /, x, peer, *, dtype=None, stream=None)\n--\n\nSends x to the rank `peer`, "
         "which receives it with recv().\n\nMay return before that. In a group, sends and receives "
         "cannot deadlock each other." COMMON),
    VERB(recv,
         "recv($self, /, out, peer, *, dtype=None, stream=None)\n--\n\nReceives into the array "
         "`out` what the rank `peer` sends: as many elements of the same type. Returns it." COMMON),
    VERB(split,
         "split($self, /, color, key=None, *, " CONFIG_DOC
         ")\n--\n\nA communicator of the ranks that pass the same color (from 0 "
         "on), ordered by key (default: rank), then by rank.\n\nA rank that passes color None or "
         "below 0 takes part and gets None (in a group: a Comm that is closed then). The\n"
         "settings are those of coll.init(); what is not given is as in the communicator that is "
         "split (docs/knobs.md)."
         "\n\n" SETUP ">>> alone = comm.split(comm.rank)\n>>> alone.size\n1\n>>> alone.close(); "
         "comm.close()\n"),
    VERB(premul_sum,
         "premul_sum($self, /, scalar, dtype=None)\n--\n\nAn op that sums what each rank has "
         "multiplied with its own scalar, for arrays of that dtype.\n\nThe scalar is a NumPy "
         "scalar, or a number with a dtype."
         "\n\n" SETUP
         ">>> half = comm.premul_sum(0.5, 'float32')\n>>> print(comm.allreduce(np.ones(2, "
         "'float32'), half))\n[1. 1.]\n" CLOSE),
    VERB(set_algorithm,
         "set_algorithm($self, /, collective, name)\n--\n\nForces an algorithm for a collective, "
         "as ('allreduce', 'ring'); None: the library chooses again. On all ranks."),
    {"algorithm", comm_algorithm, METH_O,
     "algorithm($self, collective, /)\n--\n\nThe algorithm of the latest call of the collective, "
     "or ''."},
    {"route", comm_route, METH_O,
     "route($self, peer, /)\n--\n\nWhat messages to the rank go over: 'self', 'shm', 'tcp', "
     "'verbs' or 'ucx'."},
    {"check", comm_error, METH_NOARGS,
     "check($self, /)\n--\n\nRaises the failure of the communicator, if there is "
     "one. Does not wait."},
    {"dump", comm_dump, METH_O,
     "dump($self, path, /)\n--\n\nWrites a table of all ranks and their calls to a file, or to "
     "standard error ('-')."},
    {"abort", comm_abort, METH_NOARGS,
     "abort($self, /)\n--\n\nFinishes the communicator: calls under way on all ranks raise "
     "RankLostError, which names this rank.\n\nCallable from any thread. close() it "
     "afterwards."},
    {"close", comm_close, METH_NOARGS,
     "close($self, /)\n--\n\nWaits for this rank's queued calls, and frees the communicator. "
     "Closing it again does nothing.\n\nThe exit of the program closes what is open. A `with` "
     "block closes at its end, and aborts if it raises."},
    {"__enter__", comm_enter, METH_NOARGS, NULL},
    {"__exit__", comm_exit, METH_VARARGS, NULL},
    {NULL}};

static PyGetSetDef properties[] = {
    {"rank", get_rank, NULL, "Number of this rank, from 0.", NULL},
    {"size", get_size, NULL, "Number of ranks.", NULL},
    {"closed", get_closed, NULL, "Whether it has been closed.", NULL},
    {"handle", get_handle, NULL, "The coll_comm_t, as an integer, for C code (ctypes).", NULL},
    {"bytes_sent", get_bytes_sent, NULL, "Bytes that this rank has moved between ranks.", NULL},
    {NULL}};

static PyType_Slot slots[] = {
    {Py_tp_doc, (void *)"An ordered set of ranks, made by coll.init(), coll.create(), "
                        "coll.local() or split().\n\nAll its ranks make the same calls in the "
                        "same order."},
    {Py_tp_dealloc, comm_free},
    {Py_tp_repr, comm_text},
    {Py_tp_methods, methods},
    {Py_tp_getset, properties},
    {0, NULL}};
static PyType_Spec spec = {"coll.Comm", sizeof(comm_object_t), 0,
                           Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION, slots};

bool comm_init(PyObject *module) {
  comm_type = make_type(module, &spec);
  return comm_type != NULL && lifetime_init(module);
}
