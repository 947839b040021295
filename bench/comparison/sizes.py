"""Numbers of bytes: as text, and from text."""
KIB, MIB, GIB = 1 << 10, 1 << 20, 1 << 30

PER_RANK = {"reduce_scatter", "allgather", "alltoall", "gather", "scatter"}


def size_text(count):
    """4096 as "4 KiB"."""
    for unit, word in ((GIB, "GiB"), (MIB, "MiB"), (KIB, "KiB")):
        if count >= unit and count % unit == 0:
            return "%d %s" % (count // unit, word)
    return "%d B" % count


def short_size(count):
    """4096 as "4K"."""
    return size_text(count).replace(" ", "").replace("iB", "").replace("B", "")


def parse_size(text):
    """"64K" in bytes."""
    scale = {"K": KIB, "M": MIB, "G": GIB}.get(text[-1:].upper())
    return int(text[:-1]) * scale if scale else int(text)


def parse_sizes(text, factor=4):
    """"4..64M" is every size by factors of four; "4,1K" those two."""
    sizes = []
    for item in text.split(","):
        first, dots, last = item.partition("..")
        size = parse_size(first)
        end = parse_size(last) if dots else size
        if size < 1 or end < size:
            raise ValueError("'%s' is not a size or range of sizes" % item)
        while size <= end:
            sizes.append(size)
            size *= factor
    return sorted(set(sizes))


def size_for(collective, ranks, size, element=4):
    """The size rounded down to whole elements per rank."""
    unit = element * ranks if collective in PER_RANK else element
    return max(unit, size // unit * unit)
