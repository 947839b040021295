"""The topologies of bench/paced, as files for COLL_TOPO_FILE. All links are slower than 0.02 GB/s
and take 400 us or longer, so that what the links cost hides what this machine costs."""
import json
import os

# class: (GB/s, us). Outer links are slower than inner ones, by about as much as in real clusters.
NVLINK, PCIE, MEMORY = (0.020, 400), (0.008, 500), (0.010, 400)
INFINIBAND, ETHERNET, TORUS = (0.004, 1500), (0.002, 1500), (0.004, 1500)
RAILS_SLOWDOWN = 1.5  # of all links: with a NIC for each two GPUs, calls are short


class Graph:
    """Collects nodes and links; text() is the file."""

    def __init__(self, name):
        self.name, self.grid, self.nodes, self.links = name, None, [], []

    def node(self, name, kind, parent=None):
        self.nodes.append({"name": name, "kind": kind, **({"parent": parent} if parent else {})})
        return name

    def link(self, a, b, link_class, speed):
        self.links.append({"a": a, "b": b, "class": link_class, "gigabytes_per_s": speed[0],
                           "latency_us": speed[1]})

    def slow_down(self, factor):
        for link in self.links:
            link["gigabytes_per_s"] /= factor
            link["latency_us"] *= factor

    def text(self):
        parts = {"name": self.name, "nodes": self.nodes, "links": self.links}
        if self.grid:
            parts["grid"] = self.grid
        return json.dumps(parts, indent=1)


def add_gpu_host(graph, host, gpus, gpus_per_nic):
    """GPUs on an NVSwitch, and on PCI switches with a NIC each. Returns the NICs."""
    nics = []
    graph.node(host, "host")
    nvswitch = graph.node(host + "/nvswitch", "nvswitch", host)
    for first in range(0, gpus, gpus_per_nic):
        pci = graph.node("%s/pci%d" % (host, first // gpus_per_nic), "pci-switch", host)
        nics.append(graph.node("%s/nic%d" % (host, first // gpus_per_nic), "nic", pci))
        graph.link(nics[-1], pci, "pcie", PCIE)
        graph.link(pci, host, "pcie", PCIE)
        for gpu in range(first, first + gpus_per_nic):
            name = graph.node("%s/gpu%d" % (host, gpu), "gpu", pci)
            graph.link(name, nvswitch, "nvlink", NVLINK)
            graph.link(name, pci, "pcie", PCIE)
    return nics


def rails():
    """Two hosts of eight GPUs; each two GPUs have a NIC; a switch joins the NICs of a number."""
    graph = Graph("rails")
    hosts = [add_gpu_host(graph, "host%d" % host, 8, 2) for host in range(2)]
    for rail, nics in enumerate(zip(*hosts)):
        switch = graph.node("rail%d" % rail, "switch")
        for nic in nics:
            graph.link(nic, switch, "infiniband", INFINIBAND)
    graph.slow_down(RAILS_SLOWDOWN)
    return graph


def spine_leaf():
    """Four hosts of four GPUs and one NIC on two leaf switches, with half as much bandwidth up to
    the one spine switch as down."""
    graph = Graph("spine-leaf")
    spine = graph.node("spine", "switch")
    for leaf in range(2):
        switch = graph.node("leaf%d" % leaf, "switch")
        graph.link(switch, spine, "infiniband", INFINIBAND)
        for host in range(2 * leaf, 2 * leaf + 2):
            [nic] = add_gpu_host(graph, "host%d" % host, 4, 4)
            graph.link(nic, switch, "infiniband", INFINIBAND)
    return graph


def torus():
    """A grid of 4x4 hosts."""
    graph = Graph("torus")
    graph.grid = {"extents": [4, 4], "wraps": True}
    for host in range(16):
        graph.node("host%d" % host, "host")
    for host in range(16):
        row, column = divmod(host, 4)
        for other in (row * 4 + (column + 1) % 4, (row + 1) % 4 * 4 + column):
            graph.link("host%d" % host, "host%d" % other, "torus", TORUS)
    return graph


def uneven():
    """Hosts of four, four and three ranks, in two NUMA domains each, on one Ethernet switch."""
    graph = Graph("uneven")
    switch = graph.node("switch", "switch")
    for number in range(3):
        host = graph.node("host%d" % number, "host")
        domains = [graph.node("%s/numa%d" % (host, numa), "numa", host) for numa in range(2)]
        graph.link(*domains, "memory", MEMORY)
        nic = graph.node(host + "/nic", "nic", domains[0])
        graph.link(nic, domains[0], "pcie", PCIE)
        graph.link(nic, switch, "ethernet", ETHERNET)
        for gpu in range(4):
            name = graph.node("%s/gpu%d" % (host, gpu), "gpu", domains[gpu // 2])
            graph.link(name, domains[gpu // 2], "pcie", PCIE)
    return graph


# name: (function, ranks)
ALL = {"rails": (rails, 16), "spine-leaf": (spine_leaf, 16), "torus": (torus, 16),
       "uneven": (uneven, 11)}


def write_all(folder, names):
    """{name: path} of the files, made in the folder."""
    paths = {}
    for name in names:
        paths[name] = os.path.join(folder, name + ".json")
        with open(paths[name], "w", encoding="utf-8") as file:
            file.write(ALL[name][0]().text() + "\n")
    return paths
