"""Runs the examples of the docstrings, which are written for two ranks."""
import doctest
import sys

import coll

tests = {"coll.empty": coll.empty, "coll.Stream": coll.Stream, "coll.group": coll.group}
FUNCTIONS = "init", "create", "local", "empty_like"
tests.update(("coll." + name, getattr(coll, name)) for name in FUNCTIONS)
tests.update(("Comm." + name, getattr(coll.Comm, name)) for name in dir(coll.Comm)
             if not name.startswith("_"))
finder, parser = doctest.DocTestRunner(verbose=False), doctest.DocTestParser()
count = 0
for name, thing in sorted(tests.items()):
    text = thing.__doc__ or ""
    assert text.strip(), "%s has no docstring" % name
    test = parser.get_doctest(text, {"coll": coll}, name, None, None)
    count += len(test.examples)
    finder.run(test)
if finder.failures or count < 50:
    sys.exit("%d of %d examples failed" % (finder.failures, count))
